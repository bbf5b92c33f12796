/* rate_limiter.c - no more than so many calls in a time, on all hosts together. rate_limiter [URL]
 *
 * Each call takes a permit whose lease is that time, and never gives it back: it comes back by itself. So at most CALLS
 * begin within any WINDOW_MS, whoever makes them, and who comes too early waits. A host that dies leaves nothing behind
 * that lasts longer. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <stdbool.h>
#include <stdio.h>

#define CALLS 4
#define WINDOW_MS 500
#define WANTED 12

static bool call_service(hlk_permits *limit, int number)
{
    struct hlk_taken_permit permit = HLK_TAKEN_PERMIT_INIT;
    if (hlk_permits_take(limit, WINDOW_MS, 10000, &permit) != HLK_OK) { /* waits for its turn */
        fprintf(stderr, "%s\n", hlk_last_error());
        return false;
    }
    printf("call %d\n", number);
    return true;
}

int main(int argc, char **argv)
{
    hlk_client *client;
    if (hlk_client_open(&client, argc > 1 ? argv[1] : "local:", NULL) != HLK_OK) {
        fprintf(stderr, "%s\n", hlk_last_error());
        return 1;
    }
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.permits = CALLS; /* the number is in the program; nobody has to set it up */
    hlk_permits *limit = hlk_permits_create(client, "limit:service", &opts);
    int64_t began_ms = hlk_now_ms();
    int made = 0;
    while (made < WANTED && call_service(limit, made + 1))
        made++;
    int64_t shortest_ms = (WANTED / CALLS - 1) * WINDOW_MS;
    bool slow_enough = hlk_now_ms() - began_ms >= shortest_ms;
    printf("%d calls, %s\n", made, slow_enough ? "slow enough" : "too fast");
    hlk_permits_destroy(limit);
    hlk_client_close(client);
    return made == WANTED && slow_enough ? 0 : 1;
}
