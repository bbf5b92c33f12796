#include "support/fake_sentinel.h"

#include "support/port.h"
#include "support/resp.h"
#include "support/wait.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS_MAX = 16, BUFFER = 4096, FLOOD = 64 * 1024 };

struct client {
    int fd;
    size_t len;
    char bytes[BUFFER];
};

struct fake_sentinel {
    pthread_t thread;
    int listener, port, bell;
    struct client clients[CLIENTS_MAX];
    int client_count;

    pthread_mutex_t mu; /* guards: */
    bool stop, floods;
    int master, asked;
    int next_master; /* after the round that is answered with `master`; 0: the same */
    size_t flooded;  /* bytes */
    uint64_t epoch, next_epoch;
    char message[256];           /* to be published */
    char user[64], password[64]; /* of the last AUTH */
};

static void say(const struct client *client, const char *text)
{
    (void)!send(client->fd, text, strlen(text), MSG_NOSIGNAL);
}

static void say_address(struct fake_sentinel *fake, const struct client *client)
{
    char port[16], text[96];
    fake->asked++;
    snprintf(port, sizeof port, "%d", fake->master);
    snprintf(text, sizeof text, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(port), port);
    say(client, fake->master ? text : "*-1\r\n");
}

static void say_epoch(struct fake_sentinel *fake, const struct client *client)
{
    char number[24], text[96];
    snprintf(number, sizeof number, "%llu", (unsigned long long)fake->epoch);
    snprintf(text, sizeof text, "*2\r\n$12\r\nconfig-epoch\r\n$%zu\r\n%s\r\n", strlen(number), number);
    say(client, fake->master ? text : "-ERR No such master with that name\r\n");
    if (fake->next_master) {
        fake->master = fake->next_master;
        fake->epoch = fake->next_epoch;
        fake->next_master = 0;
    }
}

static void take_user(struct fake_sentinel *fake, const char *at, size_t len)
{
    struct resp_word user = resp_word(at, len, 1), password = resp_word(at, len, 2);
    snprintf(fake->user, sizeof fake->user, "%.*s", (int)user.len, user.at);
    snprintf(fake->password, sizeof fake->password, "%.*s", (int)password.len, password.at ? password.at : "");
}

static void answer(struct fake_sentinel *fake, const struct client *client, const char *at, size_t len)
{
    char id[64];
    pthread_mutex_lock(&fake->mu);
    if (resp_word_is(at, len, 0, "AUTH"))
        take_user(fake, at, len);
    if (resp_word_is(at, len, 1, "GET-MASTER-ADDR-BY-NAME"))
        say_address(fake, client);
    else if (resp_word_is(at, len, 1, "MASTER"))
        say_epoch(fake, client);
    else if (resp_word_is(at, len, 1, "MYID"))
        say(client, (snprintf(id, sizeof id, "$40\r\n%040d\r\n", fake->port), id));
    else if (resp_word_is(at, len, 1, "SENTINELS"))
        say(client, "*0\r\n");
    else if (resp_word_is(at, len, 0, "SUBSCRIBE"))
        say(client, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    else if (resp_word_is(at, len, 0, "UNSUBSCRIBE"))
        say(client, "*3\r\n$11\r\nunsubscribe\r\n$14\r\n+switch-master\r\n:0\r\n");
    else
        say(client, "+PONG\r\n");
    pthread_mutex_unlock(&fake->mu);
}

/* False: the client has gone. */
static bool serve(struct fake_sentinel *fake, struct client *client)
{
    ssize_t n = recv(client->fd, client->bytes + client->len, sizeof client->bytes - client->len, MSG_DONTWAIT);
    if (n <= 0)
        return false;
    client->len += (size_t)n;
    size_t used;
    while ((used = resp_length(client->bytes, client->len)) > 0) {
        answer(fake, client, client->bytes, used);
        client->len -= used;
        memmove(client->bytes, client->bytes + used, client->len);
    }
    return true;
}

static void publish(struct fake_sentinel *fake)
{
    char text[320];
    pthread_mutex_lock(&fake->mu);
    if (fake->message[0])
        snprintf(text, sizeof text, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n",
                 strlen(fake->message), fake->message);
    for (int i = 0; fake->message[0] && i < fake->client_count; i++)
        say(&fake->clients[i], text);
    fake->message[0] = '\0';
    pthread_mutex_unlock(&fake->mu);
}

/* Messages about other services. Blocks while a client reads more slowly, until it hangs up. */
static void flood(struct fake_sentinel *fake)
{
    static const char message[] =
        "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$30\r\ntother 127.0.0.1 1 127.0.0.1 2\r\n";
    size_t len = 0;
    char *bytes = malloc(FLOOD);
    for (; len + sizeof message - 1 <= FLOOD; len += sizeof message - 1)
        memcpy(bytes + len, message, sizeof message - 1);
    for (int i = 0; i < fake->client_count; i++) {
        ssize_t sent = send(fake->clients[i].fd, bytes, len, MSG_NOSIGNAL);
        pthread_mutex_lock(&fake->mu);
        fake->flooded += sent > 0 ? (size_t)sent : 0;
        pthread_mutex_unlock(&fake->mu);
    }
    free(bytes);
}

static bool is_flooding(struct fake_sentinel *fake)
{
    pthread_mutex_lock(&fake->mu);
    bool floods = fake->floods;
    pthread_mutex_unlock(&fake->mu);
    return floods;
}

static void take_new(struct fake_sentinel *fake)
{
    int fd = accept(fake->listener, NULL, NULL);
    if (fd < 0 || fake->client_count == CLIENTS_MAX)
        test_give_up("a fake sentinel has too many clients");
    fake->clients[fake->client_count].fd = fd;
    fake->clients[fake->client_count++].len = 0;
}

static bool is_stopped(struct fake_sentinel *fake)
{
    pthread_mutex_lock(&fake->mu);
    bool stop = fake->stop;
    pthread_mutex_unlock(&fake->mu);
    return stop;
}

static void *run(void *arg)
{
    struct fake_sentinel *fake = arg;
    while (!is_stopped(fake)) {
        struct pollfd set[CLIENTS_MAX + 2] = { { fake->bell, POLLIN, 0 }, { fake->listener, POLLIN, 0 } };
        int n = fake->client_count;
        for (int i = 0; i < n; i++)
            set[i + 2] = (struct pollfd){ fake->clients[i].fd, POLLIN, 0 };
        bool floods = is_flooding(fake);
        poll(set, (nfds_t)n + 2, floods && n > 0 ? 0 : -1);
        eventfd_t rung;
        if (set[0].revents)
            (void)eventfd_read(fake->bell, &rung);
        for (int i = n - 1; i >= 0; i--)
            if (set[i + 2].revents && !serve(fake, &fake->clients[i])) {
                close(fake->clients[i].fd);
                fake->clients[i] = fake->clients[--fake->client_count];
            }
        if (set[1].revents)
            take_new(fake);
        publish(fake);
        if (floods)
            flood(fake);
    }
    return NULL;
}

struct fake_sentinel *fake_sentinel_start(int port_of_master, uint64_t epoch)
{
    struct fake_sentinel *fake = calloc(1, sizeof *fake);
    pthread_mutex_init(&fake->mu, NULL);
    fake->master = port_of_master;
    fake->epoch = epoch;
    fake->listener = port_reserve(&fake->port);
    fake->bell = eventfd(0, EFD_CLOEXEC);
    if (listen(fake->listener, 8) != 0 || pthread_create(&fake->thread, NULL, run, fake) != 0)
        test_give_up("no fake sentinel");
    return fake;
}

void fake_sentinel_stop(struct fake_sentinel *fake)
{
    pthread_mutex_lock(&fake->mu);
    fake->stop = true;
    pthread_mutex_unlock(&fake->mu);
    (void)eventfd_write(fake->bell, 1);
    pthread_join(fake->thread, NULL);
    for (int i = 0; i < fake->client_count; i++)
        close(fake->clients[i].fd);
    close(fake->listener);
    close(fake->bell);
    pthread_mutex_destroy(&fake->mu);
    free(fake);
}

int fake_sentinel_port(const struct fake_sentinel *fake)
{
    return fake->port;
}

void fake_sentinel_set(struct fake_sentinel *fake, int port_of_master, uint64_t epoch)
{
    pthread_mutex_lock(&fake->mu);
    fake->master = port_of_master;
    fake->epoch = epoch;
    pthread_mutex_unlock(&fake->mu);
}

void fake_sentinel_set_once(struct fake_sentinel *fake, int port_of_master, uint64_t epoch)
{
    pthread_mutex_lock(&fake->mu);
    fake->next_master = fake->master;
    fake->next_epoch = fake->epoch;
    fake->master = port_of_master;
    fake->epoch = epoch;
    pthread_mutex_unlock(&fake->mu);
}

void fake_sentinel_publish(struct fake_sentinel *fake, const char *payload)
{
    pthread_mutex_lock(&fake->mu);
    snprintf(fake->message, sizeof fake->message, "%s", payload);
    pthread_mutex_unlock(&fake->mu);
    (void)eventfd_write(fake->bell, 1);
}

void fake_sentinel_flood(struct fake_sentinel *fake, bool on)
{
    pthread_mutex_lock(&fake->mu);
    fake->floods = on;
    pthread_mutex_unlock(&fake->mu);
    (void)eventfd_write(fake->bell, 1);
}

size_t fake_sentinel_flooded(struct fake_sentinel *fake)
{
    pthread_mutex_lock(&fake->mu);
    size_t flooded = fake->flooded;
    pthread_mutex_unlock(&fake->mu);
    return flooded;
}

bool fake_sentinel_was_told(struct fake_sentinel *fake, const char *user, const char *password)
{
    pthread_mutex_lock(&fake->mu);
    bool reported = strcmp(fake->user, user) == 0 && strcmp(fake->password, password) == 0;
    pthread_mutex_unlock(&fake->mu);
    return reported;
}

int fake_sentinel_asked(struct fake_sentinel *fake)
{
    pthread_mutex_lock(&fake->mu);
    int asked = fake->asked;
    pthread_mutex_unlock(&fake->mu);
    return asked;
}
