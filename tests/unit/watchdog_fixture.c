#include "watchdog_fixture.h"

int commands, holds;
const char *leases;
bool by_text;

void fire(void)
{
    hlk_watchdog_fire(&e->hold.alarm);
}

void flush(void)
{
    unit.table.renew.run(&unit.table.renew, unit_now_ms());
}

void pass(int64_t ms)
{
    peer_passes(&unit.peer, ms);
}

int64_t alarm_in(void)
{
    cr_assert(hlk_timer_armed(&e->hold.alarm.timer));
    return e->hold.alarm.timer.due_ms - unit_now_ms();
}

int hear(void)
{
    const char *text = peer_hears(&unit.peer);
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

void renew(void)
{
    fire();
    flush();
    cr_assert_eq(hear(), 1);
    cr_assert_eq(commands, 1);
}
