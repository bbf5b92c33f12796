/* shutdown.c - a service that ends in an orderly way on SIGTERM, while its threads wait for locks. shutdown [URL]
 *
 * The handler triggers a cancel object that all waits share. Each wait ends at once with HLK_INTERRUPTED, and leaves no
 * hold and no place in the queue. Here two workers wait for a lock that another service has,
 * and the signal that a service manager would send comes from main. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define WORKERS 2

static hlk_cancel *shutting_down; /* created before the handler is installed */

static void on_term(int signal)
{
    (void)signal;
    hlk_cancel_trigger(shutting_down);
}

/* Works until the cancel ends a wait: not NULL then. */
static void *work(void *client)
{
    hlk_lock *reports = hlk_lock_create(client, "shutdown:reports", NULL);
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = shutting_down;
    enum hlk_status status;
    while ((status = hlk_lock_acquire_with(reports, &opts)) == HLK_OK)
        hlk_lock_release(reports);
    hlk_lock_destroy(reports);
    printf("a worker ends: %s\n", hlk_status_name(status));
    return status == HLK_INTERRUPTED ? client : NULL;
}

static bool wait_for_waiters(hlk_client *client, unsigned n)
{
    struct hlk_counters counters;
    counters.size = sizeof counters;
    for (int i = 0; i < 5000; i++) {
        if (hlk_client_counters(client, &counters) == HLK_OK && counters.waiting == n)
            return true;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return false;
}

static int run(hlk_client *client)
{
    pthread_t workers[WORKERS];
    int interrupted = 0;
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, client) != 0)
            return 1;
    bool waited = wait_for_waiters(client, WORKERS);
    printf("%d workers wait\n", WORKERS);
    raise(SIGTERM);
    for (int i = 0; i < WORKERS; i++) {
        void *answer = NULL;
        pthread_join(workers[i], &answer);
        interrupted += answer != NULL;
    }
    return waited && interrupted == WORKERS ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "local:";
    hlk_client *client, *other;
    if (hlk_client_open(&client, url, NULL) != HLK_OK || hlk_client_open(&other, url, NULL) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    shutting_down = hlk_cancel_create(client);
    struct sigaction term = { .sa_handler = on_term };
    sigaction(SIGTERM, &term, NULL);

    hlk_lock *theirs = hlk_lock_create(other, "shutdown:reports", NULL); /* the other service's */
    int result = 1;
    if (shutting_down && hlk_lock_acquire(theirs, 5000) == HLK_OK) {
        result = run(client);
        hlk_lock_release(theirs);
    } else {
        fprintf(stderr, "%s\n", hlk_last_error());
    }
    hlk_lock_destroy(theirs);
    signal(SIGTERM, SIG_DFL); /* before the cancel object goes */
    hlk_cancel_destroy(shutting_down);
    hlk_client_close(client);
    hlk_client_close(other);
    return result;
}
