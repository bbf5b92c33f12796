#include "acquire_machine_fixture.h"

struct hlk_acquire_machine a;
int64_t position = -1;
bool foreign, mixed, silent;

void init(void)
{
    hlk_acquire_machine_init(&a, DEADLINE, false, 0);
    position = -1;
    foreign = mixed = silent = false;
}

enum hlk_acquire_action at(int64_t now_ms, enum hlk_acquire_event what)
{
    return hlk_acquire_machine_step(&a, what, now_ms, NULL, HLK_OK);
}

enum hlk_acquire_action happens(enum hlk_acquire_event what)
{
    return at(NOW, what);
}

enum hlk_acquire_action busy(int64_t now_ms, int64_t ttl_ms)
{
    struct hlk_busy answer = {
        .ttl_ms = ttl_ms, .position = position, .mixed = mixed, .foreign = foreign, .silent = silent
    };
    return hlk_acquire_machine_step(&a, HLK_ACQUIRE_ON_BUSY, now_ms, &answer, HLK_OK);
}

void park(int64_t ttl_ms)
{
    happens(HLK_ACQUIRE_ON_HEAD);
    busy(NOW, ttl_ms);
    happens(HLK_ACQUIRE_ON_JOINED);
    happens(HLK_ACQUIRE_ON_SUBSCRIBED);
    cr_assert_eq(busy(NOW, ttl_ms), HLK_ACQUIRE_DO_PARK);
}
