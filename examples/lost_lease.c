/* lost_lease.c - a job that stops in time when its lock is lost. lost_lease [URL]
 *
 * A lock with a lease can be lost: the server forgets it, an operator breaks it, this process stands still for longer
 * than the lease. The holder is told (on_event, on a thread of the library) and asks before each effect on the outside
 * world how much of the lease is left. Here an operator breaks the lock after the third batch. */
#include <hasplock/hasplock.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define WRITE_TAKES_MS 50 /* the longest that one batch can take */
#define BREAK_AFTER 3
#define MOST_BATCHES 1000

static void on_event(const struct hlk_event *event, void *stop)
{
    if (event->kind != HLK_EVENT_LOST)
        return;
    printf("told: \"%s\" is lost: %s\n", event->lock, event->why);
    atomic_store((atomic_bool *)stop, true);
}

static void write_out(int batch)
{
    usleep(20 * 1000);
    printf("batch %d is written\n", batch);
}

/* What `hasplock break nightly` does in another terminal. */
static bool operator_breaks(const char *url)
{
    hlk_client *client;
    if (hlk_client_open(&client, url, NULL) != HLK_OK)
        return false;
    hlk_lock *nightly = hlk_lock_create(client, "nightly", NULL);
    bool broken = hlk_lock_break(nightly) == HLK_OK;
    puts("an operator breaks the lock");
    hlk_lock_destroy(nightly);
    hlk_client_close(client);
    return broken;
}

/* Writes batches for as long as it is allowed to; how many those were, -1: on a fault. */
static int run(hlk_lock *nightly, const char *url, atomic_bool *stop)
{
    int batch = 0;
    while (batch < MOST_BATCHES && !atomic_load(stop) && hlk_lock_left_ms(nightly) > WRITE_TAKES_MS) {
        write_out(++batch);
        if (batch == BREAK_AFTER && !operator_breaks(url))
            return -1;
    }
    return batch;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "local:";
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    copts.watchdog_ms = 600; /* short, so that the loss is noticed quickly: renewed every 200 ms. Default: 30 s */
    hlk_client *client;
    if (hlk_client_open(&client, url, &copts) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }

    atomic_bool stop = false;
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.on_event = on_event;
    opts.event_ctx = &stop;
    hlk_lock *nightly = hlk_lock_create(client, "nightly", &opts);

    int result = 1;
    if (hlk_lock_acquire(nightly, 5000) == HLK_OK) {
        int batches = run(nightly, url, &stop);
        enum hlk_status status = hlk_lock_release(nightly);
        printf("stopped after %d batches; release says %s\n", batches, hlk_status_name(status));
        result = batches >= BREAK_AFTER && batches < MOST_BATCHES && status == HLK_LOST ? 0 : 1;
    } else {
        fprintf(stderr, "%s\n", hlk_last_error());
    }
    hlk_lock_destroy(nightly);
    hlk_client_close(client);
    return result;
}
