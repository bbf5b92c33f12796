#include "diagnose/measure.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mutex.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#define PINGS 200
#define PINGS_FOR_MS 2000 /* a distant server is asked fewer times */
#define TIMES 8           /* at each end; the quickest counts */

int64_t hlk_measure_now_us(void)
{
    return hlk_clock_ns() / 1000;
}

static int64_t wall_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static enum hlk_status exchange_one(struct hlk_exchange *exchange, redisReply **reply, const char *word)
{
    *reply = NULL;
    if (!hlk_exchange_add(exchange, 1, &word))
        return hlk_error_set(&exchange->error, HLK_E_NOMEM, "no memory");
    return hlk_exchange_ask(exchange, reply);
}

static enum hlk_status measure_pings(struct hlk_exchange *exchange, struct hlk_round_trips *pings)
{
    int64_t us[PINGS], until_us = hlk_measure_now_us() + PINGS_FOR_MS * 1000;
    unsigned n = 0;
    while (n < PINGS && hlk_measure_now_us() < until_us) {
        redisReply *reply;
        int64_t before_us = hlk_measure_now_us();
        enum hlk_status status = exchange_one(exchange, &reply, "PING");
        if (status != HLK_OK)
            return status;
        us[n++] = hlk_measure_now_us() - before_us;
        freeReplyObject(reply);
    }
    *pings = hlk_round_trips(us, n);
    return HLK_OK;
}

/* TIME: {seconds, us}. False: another answer. */
static bool read_server_time(const redisReply *reply, int64_t *us)
{
    long long seconds, part;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !reply->element[0]->str ||
        !reply->element[1]->str || sscanf(reply->element[0]->str, "%lld", &seconds) != 1 ||
        sscanf(reply->element[1]->str, "%lld", &part) != 1)
        return false;
    *us = seconds * 1000000 + part;
    return true;
}

/* *n: how many of TIMES were understood. */
static enum hlk_status read_times(struct hlk_exchange *exchange, struct hlk_time_sample samples[TIMES], unsigned *n)
{
    *n = 0;
    for (int i = 0; i < TIMES; i++) {
        redisReply *reply;
        struct hlk_time_sample sample = { .before_us = hlk_measure_now_us(), .wall_us = wall_us() };
        enum hlk_status status = exchange_one(exchange, &reply, "TIME");
        if (status != HLK_OK)
            return status;
        sample.after_us = hlk_measure_now_us();
        if (read_server_time(reply, &sample.server_us))
            samples[(*n)++] = sample;
        freeReplyObject(reply);
    }
    return HLK_OK;
}

static void sleep_until_us(int64_t at_us)
{
    int64_t left_us = at_us - hlk_measure_now_us();
    struct timespec pause = { (time_t)(left_us / 1000000), (long)(left_us % 1000000) * 1000 };
    if (left_us > 0)
        while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
            ;
}

enum hlk_status hlk_measure(struct hlk_exchange *exchange, int64_t clock_ms, struct hlk_round_trips *pings,
                            struct hlk_clocks *clocks)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(clock_ms > 0);
    struct hlk_time_sample first[TIMES], last[TIMES];
    unsigned first_n, last_n = 0;
    int64_t began_us = hlk_measure_now_us();
    enum hlk_status status = read_times(exchange, first, &first_n);
    if (status == HLK_OK)
        status = measure_pings(exchange, pings);
    if (status != HLK_OK || first_n == 0)
        return status;
    sleep_until_us(began_us + clock_ms * 1000);
    status = read_times(exchange, last, &last_n);
    if (status == HLK_OK && last_n > 0)
        *clocks = hlk_clocks(hlk_time_best(first, first_n), hlk_time_best(last, last_n));
    return status;
}
