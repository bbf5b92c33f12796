#include "semaphores.h"

#include "support/wait.h"

#include <stdio.h>

/* A lost semaphore gets permits, so that the waits for it end; so do those before it, because a client that was cut off
 * for seconds may still wait for one of them. */
enum { ENOUGH = 1000, WAITED_FOR = 50 };

static int64_t renew_at_ms; /* 0: not */
static bool is_open;        /* the next generation has its permits, and is not the current one yet */

void semaphore_name(char name[SEMAPHORE_NAME], const struct soak *soak, int generation)
{
    snprintf(name, SEMAPHORE_NAME, "t-semaphore-%llu-%d", (unsigned long long)soak->round, generation);
}

/* True: done. False: the server does not answer, or does not write now; it is tried again. */
static bool change(const struct soak *soak, hlk_client *operator, int generation, bool is_new)
{
    char name[SEMAPHORE_NAME];
    semaphore_name(name, soak, generation);
    hlk_semaphore *semaphore = hlk_semaphore_create(operator, name);
    enum hlk_status status = is_new ? hlk_semaphore_try_set(semaphore, soak_locks[TURN_SEMAPHORE].at_most, 0)
                                    : hlk_semaphore_add(semaphore, ENOUGH);
    hlk_semaphore_destroy(semaphore);
    return status == HLK_OK || (is_new && status == HLK_BUSY);
}

void semaphores_begin(struct soak *soak, hlk_client *operator)
{
    renew_at_ms = 0;
    is_open = false;
    if (!change(soak, operator, 0, true))
        test_give_up("the semaphore: %s", hlk_last_error());
}

void semaphores_lose(struct soak *soak, int64_t now)
{
    int64_t not_yet = 0;
    atomic_compare_exchange_strong(&soak->semaphore_closed[atomic_load(&soak->semaphore)], &not_yet, now);
    is_open = false;
    semaphores_renew_at(test_now_ms());
}

void semaphores_renew_at(int64_t at_ms)
{
    if (!renew_at_ms || renew_at_ms > at_ms)
        renew_at_ms = at_ms;
}

/* First the next one begins, then those who wait for the last ones have enough. */
void semaphores_renew_due(struct soak *soak, hlk_client *operator)
{
    int now = atomic_load(&soak->semaphore);
    if (!renew_at_ms || test_now_ms() < renew_at_ms || now + 1 == GENERATIONS)
        return;
    if (!is_open && !change(soak, operator, now + 1, true))
        return;
    is_open = true;
    int64_t not_yet = 0;
    atomic_compare_exchange_strong(&soak->semaphore_closed[now], &not_yet, soak_now());
    for (int i = now; i >= 0 && i > now - WAITED_FOR; i--)
        if (!change(soak, operator, i, false))
            return;
    atomic_store(&soak->semaphore, now + 1);
    renew_at_ms = 0;
    is_open = false;
}
