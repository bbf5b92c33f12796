#include "fixture.h"

atomic_int race_failures;

int race_rounds(int argc, char **argv, int otherwise)
{
    return argc > 1 ? atoi(argv[1]) : otherwise;
}

enum hlk_status race_hold_and_release(struct history *history, hlk_lock *lock, int who, int which, unsigned work_us)
{
    int64_t until = hlk_lock_held_until(lock);
    struct hold *hold = history_acquired(history, who, which, until);
    for (int64_t end = test_now_ns() + (int64_t)work_us * 1000; test_now_ns() < end;)
        ;
    until = hlk_lock_held_until(lock);
    if (until > 0)
        history_valid_until(hold, until);
    history_released(hold);
    return hlk_lock_release(lock);
}

int race_end(struct history *history, const char *what)
{
    bool clean = history_check(history);
    size_t holds = history_count(history);
    history_destroy(history);
    fixture_end(); /* aborts when something is left */
    int failures = atomic_load(&race_failures);
    printf("%s: %zu holds, %s, %d answers that may not be\n", what, holds, clean ? "no overlap" : "OVERLAP", failures);
    return clean && failures == 0 && holds > 0 ? 0 : 1;
}
