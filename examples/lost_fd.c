/* lost_fd.c - a worker that learns from poll that its lock is lost. lost_fd [URL]
 *
 * hlk_lock_lost_fd is a descriptor that turns readable when a hold taken through the handle is lost. It stands in the
 * same poll as the descriptors that bring the work: no callback, no second thread. Here the work comes from a pipe, and
 * an operator breaks the lock after the third piece. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define WORK_TAKES_MS 50 /* the longest that one piece can take */
#define BREAK_AFTER 3

/* What `hasplock break --now spool` does in another terminal. */
static bool operator_breaks(const char *url)
{
    hlk_client *client;
    if (hlk_client_open(&client, url, NULL) != HLK_OK)
        return false;
    hlk_lock *spool = hlk_lock_create(client, "spool", NULL);
    bool broken = hlk_lock_break(spool) == HLK_OK;
    puts("an operator breaks the lock");
    hlk_lock_destroy(spool);
    hlk_client_close(client);
    return broken;
}

/* Works off what comes through `in` until the lock is lost; each piece brings the next one. How many, -1: a fault. */
static int work(hlk_lock *spool, int in, int out, const char *url)
{
    struct pollfd fds[] = { { .fd = hlk_lock_lost_fd(spool), .events = POLLIN }, { .fd = in, .events = POLLIN } };
    char piece = 'a';
    int done = 0;
    if (fds[0].fd < 0 || write(out, &piece, 1) != 1)
        return -1;
    while (poll(fds, 2, 10000) > 0) {
        if (fds[0].revents) {
            puts("the lock is lost");
            return done;
        }
        if (read(in, &piece, 1) != 1 || hlk_lock_left_ms(spool) <= WORK_TAKES_MS) /* it may be over by now, too */
            return done;
        printf("piece %d is done\n", ++done);
        if (done == BREAK_AFTER ? !operator_breaks(url) : write(out, &piece, 1) != 1)
            return -1;
    }
    return -1;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "local:";
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    copts.watchdog_ms = 3000; /* renewed every second, and the renewal notices the break. Default: 30 s */
    hlk_client *client;
    int work_pipe[2];
    if (pipe(work_pipe) != 0 || hlk_client_open(&client, url, &copts) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    hlk_lock *spool = hlk_lock_create(client, "spool", NULL);
    int result = 1;
    if (hlk_lock_acquire(spool, 5000) == HLK_OK) {
        int done = work(spool, work_pipe[0], work_pipe[1], url);
        enum hlk_status status = hlk_lock_release(spool);
        printf("stopped after %d pieces, the release answers %s\n", done, hlk_status_name(status));
        result = done == BREAK_AFTER && status == HLK_LOST ? 0 : 1;
    } else {
        fprintf(stderr, "%s\n", hlk_last_error());
    }
    hlk_lock_destroy(spool);
    hlk_client_close(client);
    close(work_pipe[0]);
    close(work_pipe[1]);
    return result;
}
