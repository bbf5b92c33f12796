/* renewing.h - the watchdog's hands in a test: its alarm and its tick, and what it sends. */
#ifndef HLK_TEST_RENEWING_H
#define HLK_TEST_RENEWING_H

#include "lease/watchdog.h"
#include "people.h"

static inline void fire(void)
{
    hlk_watchdog_fire(&s->alarm);
}

static inline void flush(void)
{
    world.table.watchdog.tick.run(&world.table.watchdog.tick, world_now_ms());
}

static inline void pass(int64_t ms)
{
    peer_passes(&world.peer, ms);
}

static inline int64_t alarm_in(void)
{
    cr_assert(hlk_timer_armed(&s->alarm.timer));
    return s->alarm.timer.due_ms - world_now_ms();
}

/* How many commands came, how many holds they name, and what follows the last of these. */
static int commands, holds;
static const char *leases;
static bool by_text;

static inline int hear(void)
{
    const char *text = peer_hears(&world.peer);
    commands = holds = 0;
    by_text = strstr(text, "EVAL\r\n") != NULL;
    for (const char *at = text; (at = strstr(at, "EVAL")) != NULL; at++)
        commands++;
    leases = "";
    for (const char *at = text; (at = strstr(at, "hlk-t-1-a:")) != NULL; at++) {
        leases = strstr(at, "\r\n") + 2;
        holds++;
    }
    return holds;
}

static inline void renew(void)
{
    fire();
    flush();
    cr_assert_eq(hear(), 1);
    cr_assert_eq(commands, 1);
}

#endif
