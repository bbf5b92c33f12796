/* orders.c - orders are taken at a counter and cooked in a kitchen, with a condition variable between. orders [URL]
 *
 * The counter holds the lock while it writes an order down, and signals. A cook holds the lock while it looks. If there
 * is no order it waits: that gives the lock up, and holds it again when somebody has signalled. Counters and cooks may
 * be processes on many hosts. Here they are threads with clients of their own, and the orders are in memory; else they
 * are in a database. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#define ORDERS 12
#define COOKS 3

static struct { /* guarded by the lock "kitchen" */
    int open, cooked;
    bool closed;
} kitchen;

struct worker {
    hlk_client *client;
    hlk_lock *lock;
    hlk_condition *more;
    pthread_t thread;
    bool failed;
};

static bool is_ok(struct worker *worker, enum hlk_status status)
{
    if (status == HLK_OK)
        return true;
    fprintf(stderr, "%s\n", hlk_last_error());
    worker->failed = true;
    return false;
}

/* A wait may end although nobody has signalled, so it is in a loop. It also ends each second, should a cook have died
 * with an order in its hands. HLK_TIMEOUT holds the lock as HLK_OK does. */
static bool wait_for_order(struct worker *cook)
{
    while (kitchen.open == 0 && !kitchen.closed) {
        enum hlk_status status = hlk_condition_wait(cook->more, cook->lock, 1000);
        if (status != HLK_TIMEOUT && !is_ok(cook, status))
            return false; /* the lock is not held: the text says so */
    }
    return true;
}

static void *work(void *arg)
{
    struct worker *cook = arg;
    bool at_work = true;
    while (at_work && is_ok(cook, hlk_lock_acquire(cook->lock, HLK_FOREVER))) {
        if (!wait_for_order(cook))
            break;
        at_work = kitchen.open > 0;
        if (at_work) {
            kitchen.open--;
            kitchen.cooked++;
        }
        if (!is_ok(cook, hlk_lock_release(cook->lock)))
            break;
    }
    return NULL;
}

static bool take_orders(struct worker *counter)
{
    for (int i = 1; i <= ORDERS; i++) {
        if (!is_ok(counter, hlk_lock_acquire(counter->lock, HLK_FOREVER)))
            return false;
        kitchen.open++;
        kitchen.closed = i == ORDERS;
        bool told = is_ok(counter, i < ORDERS ? hlk_condition_signal(counter->more)
                                              : hlk_condition_broadcast(counter->more)); /* all look, and go home */
        if (!is_ok(counter, hlk_lock_release(counter->lock)) || !told)
            return false;
    }
    return true;
}

static bool begin(struct worker *worker, const char *url)
{
    if (!is_ok(worker, hlk_client_open(&worker->client, url, NULL)))
        return false;
    worker->lock = hlk_lock_create(worker->client, "kitchen", NULL);
    worker->more = hlk_condition_create(worker->client, "kitchen:orders", 0);
    return worker->lock && worker->more ? true : is_ok(worker, hlk_last_status());
}

static void end(struct worker *worker)
{
    hlk_condition_destroy(worker->more);
    hlk_lock_destroy(worker->lock);
    hlk_client_close(worker->client);
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "local:";
    static struct worker counter, cooks[COOKS];
    bool ok = begin(&counter, url);
    int started = 0;
    for (; ok && started < COOKS; started += ok)
        ok = begin(&cooks[started], url) && pthread_create(&cooks[started].thread, NULL, work, &cooks[started]) == 0;
    ok = ok && take_orders(&counter);
    for (int i = 0; i < started; i++) {
        if (!ok)
            pthread_cancel(cooks[i].thread);
        pthread_join(cooks[i].thread, NULL);
        ok = ok && !cooks[i].failed;
    }
    if (ok)
        printf("%d orders, %d cooked\n", ORDERS, kitchen.cooked);
    for (int i = 0; i < COOKS; i++)
        end(&cooks[i]);
    end(&counter);
    return ok && kitchen.cooked == ORDERS ? 0 : 1;
}
