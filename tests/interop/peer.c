#include "interop/peer.h"

#include "support/wait.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWERS = 64, KEPT = 16 };

struct peer {
    int fd;
    char in[8192]; /* what has arrived and is not a whole line yet */
    size_t in_len;
    struct answer waiting[ANSWERS]; /* arrived, not asked for yet; in order */
    size_t waiting_len;
    struct answer given[KEPT]; /* handed out, a ring */
    size_t given_next;
};

int64_t peer_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

struct peer *peer_open(void)
{
    const char *path = getenv("HASPLOCK_PEER");
    if (!path)
        test_give_up("HASPLOCK_PEER is not set: these tests are run by the Java peer (tests/interop/Peer.java)");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address.sun_path)
        test_give_up("HASPLOCK_PEER is too long for a socket: %s", path);
    memcpy(address.sun_path, path, strlen(path));

    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        test_give_up("no memory");
    peer->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (peer->fd < 0 || connect(peer->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        test_give_up("the Java peer at %s: %s", path, strerror(errno));
    return peer;
}

void peer_close(struct peer *peer)
{
    if (!peer)
        return;
    close(peer->fd);
    free(peer);
}

static void tell(struct peer *peer, const char *line)
{
    for (size_t sent = 0, len = strlen(line); sent < len;) {
        ssize_t n = send(peer->fd, line + sent, len - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            test_give_up("the Java peer is gone: %s", strerror(errno));
        sent += n > 0 ? (size_t)n : 0;
    }
}

static void format_line(char *line, size_t size, const char *format, va_list args)
{
    int len = vsnprintf(line, size - 1, format, args);
    if (len < 0 || (size_t)len >= size - 1)
        test_give_up("request too long for the peer: %s", line);
    line[len] = '\n';
    line[len + 1] = '\0';
}

void peer_tell(struct peer *peer, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    format_line(line, sizeof line, format, args);
    va_end(args);
    tell(peer, line);
}

static void keep(struct peer *peer, const char *line)
{
    if (peer->waiting_len == ANSWERS)
        test_give_up("%d answers of the Java peer that nobody collects", ANSWERS);
    struct answer *answer = &peer->waiting[peer->waiting_len++];
    int why = 0;
    long long began = 0, ended = 0;
    memset(answer, 0, sizeof *answer);
    if (sscanf(line, "%31s %31s %127s %lld %lld %n", answer->who, answer->verb, answer->text, &began, &ended, &why) < 5)
        test_give_up("the Java peer says: %s", line);
    answer->began_us = began;
    answer->ended_us = ended;
    snprintf(answer->why, sizeof answer->why, "%s", line + why);
}

/* Waits up to `ms` for bytes, keeps the answers in them. False: none came. */
static bool read_answers(struct peer *peer, int64_t ms)
{
    struct pollfd readable = { .fd = peer->fd, .events = POLLIN };
    if (poll(&readable, 1, (int)ms) <= 0)
        return false;
    ssize_t n = recv(peer->fd, peer->in + peer->in_len, sizeof peer->in - 1 - peer->in_len, 0);
    if (n <= 0)
        test_give_up("the Java peer is gone");
    peer->in_len += (size_t)n;
    peer->in[peer->in_len] = '\0';

    char *line = peer->in;
    for (char *end = strchr(line, '\n'); end; end = strchr(line, '\n')) {
        *end = '\0';
        keep(peer, line);
        line = end + 1;
    }
    peer->in_len -= (size_t)(line - peer->in);
    memmove(peer->in, line, peer->in_len + 1);
    return true;
}

static const struct answer *take(struct peer *peer, const char *who)
{
    for (size_t i = 0; i < peer->waiting_len; i++) {
        if (strcmp(peer->waiting[i].who, who) != 0)
            continue;
        struct answer *given = &peer->given[peer->given_next++ % KEPT];
        *given = peer->waiting[i];
        peer->waiting_len--;
        memmove(&peer->waiting[i], &peer->waiting[i + 1], (peer->waiting_len - i) * sizeof peer->waiting[0]);
        return given;
    }
    return NULL;
}

const struct answer *peer_answer(struct peer *peer, const char *who)
{
    int64_t deadline_at_ms = test_now_ms() + WAIT_MS;
    const struct answer *answer = take(peer, who);
    while (!answer) {
        int64_t left = deadline_at_ms - test_now_ms();
        if (left <= 0)
            test_give_up("waited %d ms in vain for the Java peer's %s", WAIT_MS, who);
        if (read_answers(peer, left))
            answer = take(peer, who);
    }
    return answer;
}

const char *peer_ask(struct peer *peer, const char *format, ...)
{
    char line[1024], who[32] = "";
    va_list args;
    va_start(args, format);
    format_line(line, sizeof line, format, args);
    va_end(args);
    sscanf(line, "%31s", who);
    tell(peer, line);
    return peer_answer(peer, who)->text;
}

bool peer_waits(struct peer *peer, const char *who)
{
    while (read_answers(peer, 0))
        ;
    for (size_t i = 0; i < peer->waiting_len; i++)
        if (strcmp(peer->waiting[i].who, who) == 0)
            return false;
    return true;
}
