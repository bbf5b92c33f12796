/* first_lock.c - one lock, taken for a moment and given back. first_lock [URL]
 *
 * Start it in two terminals at once: the second waits until the first has ended, and is woken. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <stdio.h>
#include <time.h>

static void pay(void)
{
    puts("paying invoice 42; nobody else on any host does");
    nanosleep(&(struct timespec){ .tv_nsec = 100 * 1000000L }, NULL);
}

int main(int argc, char **argv)
{
    hlk_client *client;
    if (hlk_client_open(&client, argc > 1 ? argv[1] : "local:", NULL) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    hlk_lock *invoice = hlk_lock_create(client, "invoice:42", NULL);

    int result = 1;
    switch (hlk_lock_acquire(invoice, 5000)) { /* waits five seconds at most */
    case HLK_OK:
        pay(); /* the lease is renewed as long as this takes */
        if (hlk_lock_release(invoice) == HLK_OK)
            result = 0;
        else
            fprintf(stderr, "paid, but perhaps not alone: %s\n", hlk_last_error());
        break;
    case HLK_TIMEOUT:
        puts("somebody else is paying it");
        break;
    default:
        fprintf(stderr, "%s\n", hlk_last_error());
    }
    hlk_lock_destroy(invoice); /* NULL is fine everywhere, so creating it needed no check */
    hlk_client_close(client);
    return result;
}
