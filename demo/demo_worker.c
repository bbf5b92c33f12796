/* demo_worker.c - a shop: threads that read the stock, work, and write it back.
 *
 * With the lock an order is: acquire, read, work, check how much of the lease is left, write, release. Without it:
 * read, work, write, in the same program and the same file. The thread that takes an accident (demo_shared.h) waits
 * between read and write until its process is killed, or stopped and woken again. */
#include "demo_worker.h"
#include "demo_shared.h"
#include "demo_stock.h"
#include "say.h"

#include <hasplock/hasplock.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#define THINK_MIN_US 300 /* the work between read and write: a price, a payment, a mail */
#define THINK_MAX_US 1200
#define PAUSE_MAX_US 500 /* between two orders of one thread */
#define LOOK_NS 2000000  /* how often the main thread checks whether the phase is over */

struct shop { /* one process */
    struct demo_shared *shared;
    int process;
    hlk_client *client; /* NULL without the lock, like the next two */
    hlk_lock *lock;
    hlk_cancel *over;                      /* ends the waits at the end of the phase */
    _Atomic int at_work;                   /* threads */
    int64_t passed_before, granted_before; /* of killed processes of this number */
};

struct seller { /* one thread */
    struct shop *shop;
    struct demo_stock *stock;
    int row;
    uint64_t random;
    pthread_t thread;
};

/* Keeps the first reason. The parent ends the demo when it sees the code. */
static void shop_fails(struct shop *shop, int code, const char *what, const char *why)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    struct demo_process *me = &shop->shared->processes[shop->process];

    pthread_mutex_lock(&once);
    if (!atomic_load(&me->failed)) {
        snprintf(me->error, sizeof me->error, "%s: %s", what, why);
        atomic_store(&me->failed, code);
    }
    pthread_mutex_unlock(&once);
}

static void pause_us(uint64_t us)
{
    nanosleep(&(struct timespec){ (time_t)(us / 1000000), (long)(us % 1000000) * 1000 }, NULL);
}

static uint64_t seller_random(struct seller *seller, uint64_t below) /* splitmix64 */
{
    uint64_t z = seller->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static void hold_ends(struct demo_hold *hold, int how)
{
    if (!hold)
        return;
    if (!atomic_load(&hold->ended_ns))
        atomic_store(&hold->ended_ns, demo_now_ns());
    atomic_store(&hold->how, how);
}

/* When the lease ends, as this process knows it now: until then no other client can hold the lock. */
static int64_t shop_valid_ns(const struct shop *shop)
{
    return hlk_lock_held_until(shop->lock) * 1000000;
}

/* The accident that this holder must take, or NULL. The stop comes after the kill, and to another process while the
 * stock lasts. */
static struct demo_accident *accident_take(struct demo_shared *shared, int row, int left)
{
    struct demo_accident *killed = &shared->accidents[DEMO_KILL], *stopped = &shared->accidents[DEMO_STOP];
    int threads = shared->order.threads;

    if (atomic_load(&killed->state) == DEMO_ARMED)
        return left <= atomic_load(&killed->at_left) ? killed : NULL;
    int at_left = atomic_load(&stopped->at_left);
    if (row / threads == killed->row / threads)
        at_left /= 2;
    return atomic_load(&stopped->state) == DEMO_ARMED && left <= at_left ? stopped : NULL;
}

/* Waits between read and write, as the holder, until the parent's signal. Only the stopped process continues, long
 * after its lease is over. What it finds then goes into the report. */
static void seller_has_accident(struct seller *seller, struct demo_accident *accident, struct demo_hold *hold, int left)
{
    struct shop *shop = seller->shop;

    accident->row = seller->row;
    accident->pid = (int)getpid();
    accident->stock_read = left;
    accident->hold = hold ? (uint32_t)(hold - shop->shared->holds) : 0;
    atomic_store(&accident->state, DEMO_STANDING);
    while (atomic_load(&accident->state) == DEMO_STANDING) {
        atomic_store(&accident->valid_ns, shop_valid_ns(shop));
        pause_us(500);
    }
    accident->left_ms = hlk_lock_left_ms(shop->lock); /* as every holder does before it writes */
    accident->awake_ns = demo_now_ns();
    demo_stock_read(seller->stock, &accident->stock_found);
}

/* One order, from read to write. False: nothing is left to sell, or an error. */
static bool seller_sells(struct seller *seller, struct demo_hold *hold)
{
    struct shop *shop = seller->shop;
    struct demo_shared *shared = shop->shared;
    int left = 0;

    if (!demo_stock_read(seller->stock, &left)) {
        shop_fails(shop, EX_IOERR, "read", demo_stock_error(seller->stock));
        return false;
    }
    if (hold)
        hold->stock_read = left;
    if (left <= 0)
        return false;
    pause_us(THINK_MIN_US + seller_random(seller, THINK_MAX_US - THINK_MIN_US));

    if (shop->lock) {
        struct demo_accident *accident = accident_take(shared, seller->row, left);
        if (accident)
            seller_has_accident(seller, accident, hold, left);
        int64_t left_ms = hlk_lock_left_ms(shop->lock);
        if (hold)
            hold->valid_ns = accident ? atomic_load(&accident->valid_ns) : demo_now_ns() + left_ms * 1000000;
        if (left_ms < DEMO_WRITE_MS)
            return true; /* too late: the lease may end during the write */
    }
    if (!demo_stock_write(seller->stock, left - 1, seller->row)) {
        shop_fails(shop, EX_IOERR, "write", demo_stock_error(seller->stock));
        return false;
    }
    atomic_store(&shared->stock_left, left - 1);
    atomic_fetch_add(&shared->cells[seller->row].sold, 1);
    if (hold) {
        hold->stock_wrote = left - 1;
        atomic_store(&hold->wrote_ns, demo_now_ns());
    }
    return true;
}

/* The reply to the stopped holder's release completes its record. */
static void accident_tell(struct demo_shared *shared, const struct demo_hold *hold, int status)
{
    struct demo_accident *stop = &shared->accidents[DEMO_STOP];
    if (atomic_load(&stop->state) != DEMO_HIT || hold != &shared->holds[stop->hold])
        return;
    stop->release_status = status;
    atomic_store(&stop->state, DEMO_AWAKE);
}

/* One order under the lock. False: this thread is done. */
static bool seller_locked_order(struct seller *seller, struct demo_hold *hold)
{
    struct shop *shop = seller->shop;
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.cancel = shop->over;

    demo_cell_set(shop->shared, seller->row, DEMO_WAITING);
    enum hlk_status status = hlk_lock_acquire_with(shop->lock, &opts);
    if (status != HLK_OK) {
        hold_ends(hold, DEMO_LEFT);
        if (status != HLK_INTERRUPTED)
            shop_fails(shop, say_exit_code(status), hlk_status_name(status), hlk_last_error());
        return false;
    }
    if (hold)
        atomic_store(&hold->got_ns, demo_now_ns());
    demo_cell_set(shop->shared, seller->row, DEMO_HOLDING);
    bool more = seller_sells(seller, hold);
    if (hold)
        atomic_store(&hold->ended_ns, demo_now_ns());
    status = hlk_lock_release(shop->lock);
    if (status != HLK_OK && status != HLK_LOST && status != HLK_E_UNSURE) /* UNSURE: it goes on in the background */
        shop_fails(shop, say_exit_code(status), hlk_status_name(status), hlk_last_error());
    hold_ends(hold, status == HLK_LOST ? DEMO_LOST : DEMO_RELEASED);
    accident_tell(shop->shared, hold, status);
    return more;
}

static bool seller_unlocked_order(struct seller *seller, struct demo_hold *hold)
{
    if (hold)
        atomic_store(&hold->got_ns, hold->asked_ns);
    demo_cell_set(seller->shop->shared, seller->row, DEMO_HOLDING);
    bool more = seller_sells(seller, hold);
    hold_ends(hold, DEMO_RELEASED);
    return more;
}

static void *seller_main(void *arg)
{
    struct seller *seller = arg;
    struct shop *shop = seller->shop;
    struct demo_shared *shared = shop->shared;
    bool more = true;

    while (more && atomic_load(&shared->go) == DEMO_GO && !atomic_load(&shared->processes[shop->process].failed)) {
        struct demo_hold *hold = demo_hold_begin(shared, seller->row);
        more = shop->lock ? seller_locked_order(seller, hold) : seller_unlocked_order(seller, hold);
        demo_cell_set(shared, seller->row, DEMO_IDLE);
        pause_us(seller_random(seller, PAUSE_MAX_US));
    }
    demo_cell_set(shared, seller->row, DEMO_DONE);
    atomic_fetch_sub(&shop->at_work, 1);
    return NULL;
}

/* On the events thread. The loss of the stopped holder is recorded, any other is counted. */
static void on_event(const struct hlk_event *event, void *ctx)
{
    struct shop *shop = ctx;
    struct demo_accident *stop = &shop->shared->accidents[DEMO_STOP];

    if (event->kind != HLK_EVENT_LOST)
        return;
    atomic_fetch_add(&shop->shared->processes[shop->process].lost, 1);
    if (atomic_load(&stop->state) < DEMO_HIT || stop->pid != (int)getpid() || atomic_load(&stop->lost_ns))
        return;
    snprintf(stop->why, sizeof stop->why, "%s", event->why ? event->why : "");
    atomic_store(&stop->lost_ns, demo_now_ns());
}

static void on_log(int level, const char *line, void *ctx) /* losses are expected, and the screen belongs to the view */
{
    (void)level, (void)line, (void)ctx;
}

static bool shop_opens(struct shop *shop)
{
    const struct demo_order *order = &shop->shared->order;
    struct hlk_client_opts copts = HLK_CLIENT_OPTS_INIT;
    struct hlk_lock_opts lopts = HLK_LOCK_OPTS_INIT;

    copts.watchdog_ms = DEMO_WATCHDOG_MS;
    copts.label = "demo";
    copts.log = on_log;
    enum hlk_status status = hlk_client_open(&shop->client, order->url, &copts);
    if (status != HLK_OK) {
        shop_fails(shop, say_exit_code(status), "open", hlk_last_error());
        return false;
    }
    lopts.on_event = on_event;
    lopts.event_ctx = shop;
    shop->lock = hlk_lock_create(shop->client, order->lock, &lopts);
    shop->over = hlk_cancel_create(shop->client);
    if (shop->lock && shop->over)
        return true;
    shop_fails(shop, say_exit_code(hlk_last_status()), "open", hlk_last_error());
    return false;
}

static void shop_closes(struct shop *shop)
{
    hlk_cancel_destroy(shop->over);
    hlk_client_close(shop->client); /* it may still call on_event, which uses the shop */
    hlk_lock_destroy(shop->lock);
}

/* Opens every thread's connection before the first order. Later an accident may stop the process, and then no thread of
 * it may have the file locked. */
static bool sellers_prepare(struct shop *shop, struct seller *sellers, int count)
{
    const struct demo_order *order = &shop->shared->order;
    char error[256];

    for (int i = 0; i < count; i++) {
        int row = shop->process * count + i;
        sellers[i] = (struct seller){ .shop = shop, .row = row, .random = order->seed * 1000003u + (uint64_t)row };
        sellers[i].stock = demo_stock_open(order->stock, error, sizeof error);
        if (!sellers[i].stock) {
            shop_fails(shop, EX_IOERR, "stock", error);
            return false;
        }
    }
    return true;
}

/* Called often, because a killed process cannot report its counters at the end. */
static void shop_counts(const struct shop *shop)
{
    struct demo_process *me = &shop->shared->processes[shop->process];
    struct hlk_counters counters = { .size = sizeof counters };

    if (!shop->client || hlk_client_counters(shop->client, &counters) != HLK_OK)
        return;
    atomic_store(&me->passed, shop->passed_before + (int64_t)counters.passed);
    atomic_store(&me->granted, shop->granted_before + (int64_t)counters.granted);
}

static void sellers_work(struct shop *shop, struct seller *sellers, int count)
{
    struct demo_shared *shared = shop->shared;
    int started = 0;

    atomic_store(&shared->processes[shop->process].ready, 1);
    while (atomic_load(&shared->go) == DEMO_READY)
        pause_us(1000);
    atomic_store(&shop->at_work, count);
    for (; started < count; started++) {
        if (pthread_create(&sellers[started].thread, NULL, seller_main, &sellers[started]) == 0)
            continue;
        shop_fails(shop, EX_OSERR, "start", "no thread");
        atomic_fetch_sub(&shop->at_work, count - started);
        break;
    }
    while (atomic_load(&shop->at_work) > 0) {
        if (atomic_load(&shared->go) == DEMO_END || atomic_load(&shared->processes[shop->process].failed))
            hlk_cancel_trigger(shop->over);
        shop_counts(shop);
        nanosleep(&(struct timespec){ 0, LOOK_NS }, NULL);
    }
    for (int i = 0; i < started; i++)
        pthread_join(sellers[i].thread, NULL);
    shop_counts(shop);
}

int demo_worker_main(int process)
{
    struct shop shop = { .process = process };
    struct seller sellers[DEMO_MAX_THREADS] = { 0 };
    char error[] = "hasplock: demo: --worker is for the demo's own processes\n";

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    shop.shared = demo_shared_attach(DEMO_WORKER_FD);
    if (!shop.shared || process < 0 || process >= shop.shared->order.processes) {
        fputs(error, stderr);
        return EX_USAGE;
    }
    shop.passed_before = atomic_load(&shop.shared->processes[process].passed);
    shop.granted_before = atomic_load(&shop.shared->processes[process].granted);
    if (getppid() != shop.shared->order.parent_pid) /* the parent died before prctl */
        return EX_SOFTWARE;
    signal(SIGINT, SIG_IGN); /* Ctrl-C goes to the parent too, which ends the workers */

    int threads = shop.shared->order.threads;
    if ((!shop.shared->order.locked || shop_opens(&shop)) && sellers_prepare(&shop, sellers, threads))
        sellers_work(&shop, sellers, threads);
    shop_closes(&shop);
    for (int i = 0; i < threads; i++)
        demo_stock_close(sellers[i].stock);
    int code = atomic_load(&shop.shared->processes[process].failed);
    demo_shared_destroy(shop.shared);
    return code;
}
