#include "support/order.h"

#include "support/raw.h"
#include "support/wait.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HOLD = 192 };

struct order {
    pthread_mutex_t mu; /* guards: */
    redisContext *redis;
    size_t noted;
    size_t capacity;
    const char *first;
    struct {
        char holder[HOLD], first[HOLD];
    } turn[];
};

struct order *order_create(size_t capacity, const struct server *server, const char *first)
{
    struct order *order = calloc(1, sizeof *order + capacity * sizeof order->turn[0]);
    if (!order)
        test_give_up("order of %zu: no memory", capacity);
    pthread_mutex_init(&order->mu, NULL);
    order->redis = server ? raw_open(server) : NULL;
    order->capacity = capacity;
    order->first = first;
    return order;
}

void order_destroy(struct order *order)
{
    if (!order)
        return;
    redisFree(order->redis);
    pthread_mutex_destroy(&order->mu);
    free(order);
}

static void add(struct order *order, const char *holder, const char *first)
{
    if (order->noted == order->capacity)
        test_give_up("order: more than %zu holds", order->capacity);
    (void)snprintf(order->turn[order->noted].holder, HOLD, "%s", holder);
    (void)snprintf(order->turn[order->noted++].first, HOLD, "%.*s", (int)strcspn(first, " "), first);
}

void order_add(struct order *order, const char *holder, const char *first)
{
    pthread_mutex_lock(&order->mu);
    add(order, holder, first);
    pthread_mutex_unlock(&order->mu);
}

void order_note(struct order *order, hlk_lock *lock)
{
    char holder[HOLD];
    if (hlk_lock_hold_id(lock, holder, sizeof holder) != HLK_OK)
        test_give_up("order: %s", hlk_last_error());
    pthread_mutex_lock(&order->mu);
    redisReply *reply = redisCommand(order->redis, order->first);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        test_give_up("order: %s: %s", order->first, reply ? reply->str : order->redis->errstr);
    const redisReply *first = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0] : reply;
    add(order, holder, first->type == REDIS_REPLY_STRING ? first->str : "");
    freeReplyObject(reply);
    pthread_mutex_unlock(&order->mu);
}

bool order_check(const struct order *order, int passes, size_t *called)
{
    int passed = 0;
    *called = 0;
    for (size_t i = 0; i + 1 < order->noted; i++) {
        const char *holder = order->turn[i].holder, *next = order->turn[i + 1].holder, *first = order->turn[i].first;
        if (strcmp(next, holder) == 0) {
            if (first[0] && ++passed > passes) {
                fprintf(stderr, "order: %s had it more than %d times while %s waited\n", holder, passes + 1, first);
                return false;
            }
            continue;
        }
        passed = 0;
        if (first[0] && strcmp(next, first) != 0) {
            fprintf(stderr, "order: hold %zu is %s, but first in the queue was %s\n", i + 1, next, first);
            return false;
        }
        *called += first[0] != '\0';
    }
    return true;
}
