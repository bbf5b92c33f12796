#include "watchdog_fixture.h"

int commands, holds;
const char *leases;
bool by_text;
static char first_heard[64]; /* the first hold in what was heard last */

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
        if (holds++ == 0)
            cr_assert_gt(sscanf(at, "%63[^\r]", first_heard), 0);
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

const char *renewal_answer(const char *numbers, const char *first)
{
    static char answer[1024];
    size_t n = 0;
    for (const char *at = numbers; *at; at++)
        n += *at == '\n';
    (void)snprintf(answer, sizeof answer, "*%zu\r\n%s$%zu\r\n%s\r\n", n + 1, numbers, strlen(first), first);
    return answer;
}

const char *renewal_answer_heard(const char *numbers)
{
    return renewal_answer(numbers, first_heard);
}

void answer_renewal(const char *numbers)
{
    peer_answers(&unit.peer, renewal_answer_heard(numbers));
}
