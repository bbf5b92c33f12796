#include "faults.h"

#include "support/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { LATE_MS = 5000 }; /* when a command of an operator that was not answered has certainly run */

const char *const fault_names[FAULTS] = {
    "kill -9", "SIGSTOP",     "kill pubsub",    "kill normal",        "delay",
    "cut",     "cut before",  "cut after",      "late copy",          "freeze",
    "deaf",    "refuse",      "drop messages",  "hold confirmations", "script flush",
    "break",   "DEL",         "server SIGSTOP", "server restart",     "server wipe",
    "full",    "no replicas", "replica",
};

static void show(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void show(struct world *world, const char *format, ...)
{
    va_list args;
    if (world->shown_count == FAULTS_SHOWN)
        return;
    va_start(args, format);
    world->shown[world->shown_count].at = soak_now();
    vsnprintf(world->shown[world->shown_count].text, sizeof world->shown[0].text, format, args);
    va_end(args);
    world->shown_count++;
}

static int64_t draw(struct world *world, int64_t below)
{
    return (int64_t)soak_draw(&world->rng, (uint64_t)below);
}

void faults_begin(struct world *world)
{
    static const int64_t gaps[] = { 20, 60, 150, 400 };
    world->kinds = 0;
    for (int i = 0; i < FAULTS; i++)
        if (soak_chance(&world->rng, 60))
            world->kinds |= 1u << i;
    const char *only = getenv("SOAK_KINDS"); /* for hunting: a mask */
    if (only)
        world->kinds = (uint32_t)strtoul(only, NULL, 0);
    world->gap_ms = gaps[draw(world, 4)];
    world->deed_count = world->shown_count = 0;
}

/* --- processes */

static void kill_one(struct world *world, int slot)
{
    if (world->pids[slot] <= 0)
        return;
    kill(world->pids[slot], SIGKILL);
    while (waitpid(world->pids[slot], NULL, 0) < 0 && errno == EINTR)
        ;
    show(world, "kill -9 of slot %d, pid %d", slot, (int)world->pids[slot]);
    world->stopped[slot] = false;
    world_start_process(world, slot);
}

static void stop_one(struct world *world, int slot)
{
    int64_t ms = soak_chance(&world->rng, 70) ? draw(world, 200) : draw(world, LONGEST_LEASE_MS * 4 / 3);
    if (world->pids[slot] <= 0 || world->stopped[slot])
        return;
    show(world, "SIGSTOP of slot %d for %d ms", slot, (int)ms);
    kill(world->pids[slot], SIGSTOP);
    world->stopped[slot] = true;
    world->heal_slot_at[slot] = test_now_ms() + ms;
}

static int any_slot(struct world *world)
{
    int n = (int)draw(world, world->soak->slots + 1);
    return n == world->soak->slots ? FOREIGN : n;
}

/* --- an operator */

static void break_one(struct world *world, bool by_del)
{
    int lock = (int)draw(world, LOCKS);
    if (world->deed_count == sizeof world->deeds / sizeof *world->deeds)
        return;
    struct soak_deed *deed = &world->deeds[world->deed_count++];
    deed->lock = lock;
    deed->begin = soak_now();
    bool done = true;
    if (by_del) {
        if (raw(world->redis, "DEL %s", soak_lock_name(lock))[0] == '-') { /* by a server that does not write now */
            world->deed_count--;
            return;
        }
    } else {
        enum hlk_status status = hlk_lock_break(world->locks[lock]);
        done = status == HLK_OK || status == HLK_NOT_HOLDER;
    }
    deed->end = soak_now() + (done ? 0 : LATE_MS * INT64_C(1000000));
    show(world, "%s of %s", by_del ? "DEL" : "break", soak_lock_name(lock));
}

/* --- the network, for those who speak through the proxies */

static void arm(struct world *world, struct proxy *proxy, enum proxy_fault fault, int filter)
{
    proxy_arm(proxy, fault, filter ? PROXY_SCRIPTS : PROXY_ALL, (uint64_t)draw(world, 8) + 1);
}

static void harm_network(struct world *world, enum fault fault, int which)
{
    struct proxy *proxy = world->proxies[which];
    int64_t ms = draw(world, soak_chance(&world->rng, 80) ? 250 : 1500);
    show(world, "%s at proxy %d, %d ms", fault_names[fault], which, (int)ms);
    switch (fault) {
    case FAULT_DELAY:
        proxy_delay(proxy, draw(world, 15), draw(world, 15));
        break;
    case FAULT_CUT:
        proxy_cut_all(proxy);
        return;
    case FAULT_CUT_BEFORE:
        arm(world, proxy, PROXY_CUT_BEFORE, 0); /* no SWALLOW: on a shared stream it would shift all answers behind it,
                                                 * which TCP does not */
        return;
    case FAULT_CUT_AFTER:
        arm(world, proxy, PROXY_CUT_AFTER, 1);
        return;
    case FAULT_LATE:
        arm(world, proxy, PROXY_HOLD, 1);
        break;
    case FAULT_FREEZE:
        proxy_freeze(proxy, true);
        break;
    case FAULT_DEAF:
        proxy_freeze_subscribers(proxy, true);
        break;
    case FAULT_REFUSE:
        proxy_refuse(proxy, true);
        proxy_cut_all(proxy);
        break;
    case FAULT_DROP_MESSAGES:
        proxy_drop_messages(proxy, true);
        break;
    default:
        proxy_hold_confirmations(proxy, true);
    }
    world->heal_at[fault] = test_now_ms() + ms;
    world->heal_proxy[fault] = which;
}

static void heal_network(struct world *world, enum fault fault)
{
    struct proxy *proxy = world->proxies[world->heal_proxy[fault]];
    world->heal_at[fault] = 0;
    show(world, "%s at proxy %d is over", fault_names[fault], world->heal_proxy[fault]);
    switch (fault) {
    case FAULT_DELAY:
        proxy_delay(proxy, 0, 0);
        break;
    case FAULT_LATE:
        proxy_arm(proxy, PROXY_NONE, PROXY_ALL, 0);
        proxy_deliver(proxy, draw(world, 2));
        break;
    case FAULT_FREEZE:
        proxy_freeze(proxy, false);
        break;
    case FAULT_DEAF:
        proxy_freeze_subscribers(proxy, false);
        break;
    case FAULT_REFUSE:
        proxy_refuse(proxy, false);
        break;
    case FAULT_DROP_MESSAGES:
        proxy_drop_messages(proxy, false);
        break;
    default:
        proxy_hold_confirmations(proxy, false);
    }
}

/* --- the server */

static void stop_server(struct world *world)
{
    int64_t ms = draw(world, soak_chance(&world->rng, 80) ? 150 : 1200);
    show(world, "server SIGSTOP for %d ms", (int)ms);
    server_pause(world->server);
    test_sleep_ms(ms);
    server_resume(world->server);
    show(world, "server goes on");
}

static void restart_server(struct world *world, bool keep_data)
{
    if (!keep_data && world->deed_count == sizeof world->deeds / sizeof *world->deeds)
        return;
    show(world, keep_data ? "server restart" : "server restart without its data");
    struct soak_deed deed = { .begin = soak_now(), .lock = ALL_LOCKS };
    redisFree(world->redis);
    server_restart(world->server, keep_data);
    world->redis = raw_open(world->server);
    for (int fault = FAULT_FULL; fault <= FAULT_REPLICA; fault++)
        world->heal_at[fault] = 0;
    deed.end = soak_now();
    if (!keep_data)
        world->deeds[world->deed_count++] = deed;
    show(world, "server is up");
}

/* It goes on, and does not write: the first one not what takes memory, the others nothing at all, renewals too. */
static const struct refusal {
    const char *begin, *end;
    int64_t most_ms;
} refusals[FAULTS] = {
    [FAULT_FULL] = { "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", 500 },
    [FAULT_NO_REPLICAS] = { "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
                            LONGEST_LEASE_MS },
    [FAULT_REPLICA] = { "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", LONGEST_LEASE_MS },
};

static void refuse(struct world *world, enum fault fault)
{
    raw(world->redis, refusals[fault].begin);
    world->heal_at[fault] = test_now_ms() + draw(world, soak_chance(&world->rng, 80) ? 500 : refusals[fault].most_ms);
    show(world, "server: %s", fault_names[fault]);
}

static void allow(struct world *world, enum fault fault)
{
    raw(world->redis, refusals[fault].end);
    world->heal_at[fault] = 0;
    show(world, "server: %s is over", fault_names[fault]);
}

/* --- any */

static void strike(struct world *world, enum fault fault)
{
    int proxy = (int)draw(world, PROXIES), slot = any_slot(world);
    if (world->heal_at[fault])
        return; /* goes on */
    world->counts[fault]++;
    switch (fault) {
    case FAULT_KILL:
        kill_one(world, slot);
        break;
    case FAULT_STOP:
        stop_one(world, slot);
        break;
    case FAULT_KILL_PUBSUB:
        show(world, "CLIENT KILL TYPE pubsub");
        raw(world->redis, "CLIENT KILL TYPE pubsub");
        break;
    case FAULT_KILL_NORMAL:
        show(world, "CLIENT KILL TYPE normal");
        raw(world->redis, "CLIENT KILL TYPE normal SKIPME yes");
        break;
    case FAULT_SCRIPT_FLUSH:
        show(world, "SCRIPT FLUSH");
        raw(world->redis, "SCRIPT FLUSH");
        break;
    case FAULT_BREAK:
    case FAULT_DEL:
        break_one(world, fault == FAULT_DEL);
        break;
    case FAULT_SERVER_STOP:
        stop_server(world);
        break;
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_WIPE:
        restart_server(world, fault == FAULT_SERVER_RESTART);
        break;
    case FAULT_FULL:
    case FAULT_NO_REPLICAS:
    case FAULT_REPLICA:
        refuse(world, fault);
        break;
    default:
        harm_network(world, fault, proxy);
    }
}

void faults_one(struct world *world)
{
    enum fault fault = (enum fault)draw(world, FAULTS);
    if (!(world->kinds & 1u << fault))
        return;
    bool restart = fault == FAULT_SERVER_RESTART || fault == FAULT_SERVER_WIPE;
    if (restart && soak_chance(&world->rng, 75))
        return; /* they take long */
    strike(world, fault);
}

static void go_on(struct world *world, int slot)
{
    if (world->stopped[slot] && world->pids[slot] > 0)
        kill(world->pids[slot], SIGCONT);
    if (world->stopped[slot])
        show(world, "SIGCONT of slot %d", slot);
    world->stopped[slot] = false;
}

static void heal_one(struct world *world, enum fault fault)
{
    if (refusals[fault].end)
        allow(world, fault);
    else
        heal_network(world, fault);
}

static void heal(struct world *world, int64_t until_ms)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (world->stopped[slot] && world->heal_slot_at[slot] <= until_ms)
            go_on(world, slot);
    for (int fault = 0; fault < FAULTS; fault++)
        if (fault != FAULT_LATE && world->heal_at[fault] && world->heal_at[fault] <= until_ms)
            heal_one(world, (enum fault)fault);
    bool frozen = world->heal_at[FAULT_FREEZE] || world->heal_at[FAULT_DEAF]; /* nothing can be delivered */
    if (world->heal_at[FAULT_LATE] && world->heal_at[FAULT_LATE] <= until_ms && !frozen)
        heal_one(world, FAULT_LATE);
}

void faults_heal_due(struct world *world)
{
    heal(world, test_now_ms());
}

void faults_heal_all(struct world *world)
{
    heal(world, INT64_MAX);
    for (int i = 0; i < PROXIES; i++) {
        proxy_arm(world->proxies[i], PROXY_NONE, PROXY_ALL, 0);
        proxy_deliver(world->proxies[i], false);
    }
}
