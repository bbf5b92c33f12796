#include "faults.h"
#include "semaphores.h"

#include "support/wait.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

const char *const fault_names[FAULTS] = {
    "kill -9", "SIGSTOP",     "kill pubsub",    "kill normal",        "delay",
    "cut",     "cut before",  "cut after",      "late copy",          "freeze",
    "unread",  "refuse",      "drop messages",  "hold confirmations", "script flush",
    "break",   "DEL",         "server SIGSTOP", "server restart",     "server wipe",
    "full",    "no replicas", "replica",
};

static void show(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void show(struct run *run, const char *format, ...)
{
    va_list args;
    if (run->shown_count == FAULTS_SHOWN)
        return;
    va_start(args, format);
    run->shown[run->shown_count].at = soak_now();
    vsnprintf(run->shown[run->shown_count].text, sizeof run->shown[0].text, format, args);
    va_end(args);
    run->shown_count++;
}

static int64_t draw(struct run *run, int64_t below)
{
    return (int64_t)soak_draw(&run->rng, (uint64_t)below);
}

void faults_begin(struct run *run)
{
    static const int64_t gaps[] = { 20, 60, 150, 400 };
    run->kinds = 0;
    for (int i = 0; i < FAULTS; i++)
        if (soak_chance(&run->rng, 60))
            run->kinds |= 1u << i;
    const char *only = getenv("SOAK_KINDS"); /* for hunting: a mask */
    if (only)
        run->kinds = (uint32_t)strtoul(only, NULL, 0);
    run->gap_ms = gaps[draw(run, 4)];
    run->deed_count = run->shown_count = 0;
}

/* --- processes */

static void kill_one(struct run *run, int slot)
{
    if (run->pids[slot] <= 0)
        return;
    kill(run->pids[slot], SIGKILL);
    while (waitpid(run->pids[slot], NULL, 0) < 0 && errno == EINTR)
        ;
    soak_process_died(run->soak, run->pids[slot]);
    show(run, "kill -9 of slot %d, pid %d", slot, (int)run->pids[slot]);
    run->stopped[slot] = false;
    semaphores_renew_at(test_now_ms() + draw(run, 1000)); /* what it had of them is gone */
    run_start_process(run, slot);
}

static void stop_one(struct run *run, int slot)
{
    int64_t ms = soak_chance(&run->rng, 70) ? draw(run, 200) : draw(run, LONGEST_LEASE_MS * 4 / 3);
    if (run->pids[slot] <= 0 || run->stopped[slot])
        return;
    show(run, "SIGSTOP of slot %d for %d ms", slot, (int)ms);
    kill(run->pids[slot], SIGSTOP);
    run->stopped[slot] = true;
    run->heal_slot_at[slot] = test_now_ms() + ms;
}

static int any_slot(struct run *run)
{
    int n = (int)draw(run, run->soak->slots + 1);
    return n == run->soak->slots ? FOREIGN : n;
}

/* --- an operator */

/* A wait that has begun may learn of it some seconds later. */
static void delete_counted(struct run *run, int turn, const char *keys)
{
    if (run->deed_count == sizeof run->deeds / sizeof *run->deeds)
        return;
    struct soak_deed deed = { .begin = soak_now(), .lock = turn };
    char command[256];
    unsigned long long round = run->soak->round;
    snprintf(command, sizeof command, keys, round, round);
    raw(run->redis, command);
    deed.end = soak_now();
    run->deeds[run->deed_count++] = deed;
    show(run, "%s", command);
}

static void delete_other(struct run *run, int which)
{
    char name[SEMAPHORE_NAME];
    if (which == 1)
        delete_counted(run, TURN_LATCH, "DEL t-latch-%llu");
    if (which == 2)
        delete_counted(run, TURN_BARRIER, "DEL hasplock_barrier:{t-barrier-%llu} hasplock_arrived:{t-barrier-%llu}");
    if (which)
        return;
    semaphores_lose(run->soak, soak_now());
    semaphore_name(name, run->soak, atomic_load(&run->soak->semaphore));
    raw(run->redis, "DEL %s", name);
    show(run, "DEL of %s", name);
}

static void break_one(struct run *run, bool by_del)
{
    int lock = (int)draw(run, LOCKS + 3);
    if (lock >= LOCKS) {
        delete_other(run, lock - LOCKS);
        return;
    }
    by_del = by_del || lock == LOCK_PERMITS; /* they cannot be broken */
    if (run->deed_count == sizeof run->deeds / sizeof *run->deeds)
        return;
    struct soak_deed *deed = &run->deeds[run->deed_count++];
    *deed = (struct soak_deed){ .begin = soak_now(), .lock = lock };
    bool done = true;
    if (by_del) {
        if (raw(run->redis, "DEL %s {%s}:timeout", soak_lock_name(lock), soak_lock_name(lock))[0] ==
            '-') { /* by a server that does not write now */
            run->deed_count--;
            return;
        }
    } else {
        enum hlk_status status = hlk_lock_break(run->locks[lock]);
        done = status == HLK_OK || status == HLK_NOT_HOLDER;
        deed->took_nothing = status == HLK_NOT_HOLDER;
    }
    deed->end = soak_now() + (done ? 0 : LATE_MS * INT64_C(1000000));
    show(run, "%s of %s", by_del ? "DEL" : "break", soak_lock_name(lock));
}

/* --- the network, for those who speak through the proxies */

static void arm(struct run *run, struct proxy *proxy, enum proxy_fault fault, int filter)
{
    proxy_arm(proxy, fault, filter ? PROXY_SCRIPTS : PROXY_ALL, (uint64_t)draw(run, 8) + 1);
}

static void harm_network(struct run *run, enum fault fault, int which)
{
    struct proxy *proxy = run->proxies[which];
    int64_t ms = draw(run, soak_chance(&run->rng, 80) ? 250 : 1500);
    show(run, "%s at proxy %d, %d ms", fault_names[fault], which, (int)ms);
    switch (fault) {
    case FAULT_DELAY:
        proxy_delay(proxy, draw(run, 15), draw(run, 15));
        break;
    case FAULT_CUT:
        proxy_cut_all(proxy);
        return;
    case FAULT_CUT_BEFORE:
        arm(run, proxy, PROXY_CUT_BEFORE, 0); /* no SWALLOW: on a shared stream it would shift all answers behind it,
                                                 * which TCP does not */
        return;
    case FAULT_CUT_AFTER:
        arm(run, proxy, PROXY_CUT_AFTER, 1);
        return;
    case FAULT_LATE:
        arm(run, proxy, PROXY_HOLD, 1);
        break;
    case FAULT_FREEZE:
        proxy_freeze(proxy, true);
        break;
    case FAULT_UNREAD:
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
    run->heal_at[fault] = test_now_ms() + ms;
    run->heal_proxy[fault] = which;
}

static void heal_network(struct run *run, enum fault fault)
{
    struct proxy *proxy = run->proxies[run->heal_proxy[fault]];
    run->heal_at[fault] = 0;
    show(run, "%s at proxy %d is over", fault_names[fault], run->heal_proxy[fault]);
    switch (fault) {
    case FAULT_DELAY:
        proxy_delay(proxy, 0, 0);
        break;
    case FAULT_LATE:
        proxy_arm(proxy, PROXY_NONE, PROXY_ALL, 0);
        proxy_deliver(proxy, draw(run, 2));
        break;
    case FAULT_FREEZE:
        proxy_freeze(proxy, false);
        break;
    case FAULT_UNREAD:
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

static void stop_server(struct run *run)
{
    int64_t ms = draw(run, soak_chance(&run->rng, 80) ? 150 : 1200);
    show(run, "server SIGSTOP for %d ms", (int)ms);
    server_pause(run->server);
    test_sleep_ms(ms);
    server_resume(run->server);
    show(run, "server goes on");
}

static void restart_server(struct run *run, bool keep_data)
{
    if (!keep_data && run->deed_count == sizeof run->deeds / sizeof *run->deeds)
        return;
    show(run, keep_data ? "server restart" : "server restart without its data");
    struct soak_deed deed = { .begin = soak_now(), .lock = ALL_LOCKS };
    if (!keep_data)
        semaphores_lose(run->soak, deed.begin);
    redisFree(run->redis);
    server_restart(run->server, keep_data);
    run->redis = raw_open(run->server);
    for (int fault = FAULT_FULL; fault <= FAULT_REPLICA; fault++)
        run->heal_at[fault] = 0;
    deed.end = soak_now();
    if (!keep_data)
        run->deeds[run->deed_count++] = deed;
    show(run, "server is up");
}

/* It goes on, and does not write: the first one not what takes memory, the others nothing at all, renewals too. */
static const struct refusal {
    const char *begin, *end;
    int64_t max_ms;
} refusals[FAULTS] = {
    [FAULT_FULL] = { "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", 500 },
    [FAULT_NO_REPLICAS] = { "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0",
                            LONGEST_LEASE_MS },
    [FAULT_REPLICA] = { "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", LONGEST_LEASE_MS },
};

static void refuse(struct run *run, enum fault fault)
{
    raw(run->redis, refusals[fault].begin);
    run->heal_at[fault] = test_now_ms() + draw(run, soak_chance(&run->rng, 80) ? 500 : refusals[fault].max_ms);
    show(run, "server: %s", fault_names[fault]);
}

static void allow(struct run *run, enum fault fault)
{
    raw(run->redis, refusals[fault].end);
    run->heal_at[fault] = 0;
    show(run, "server: %s is over", fault_names[fault]);
}

/* --- any */

static void strike(struct run *run, enum fault fault)
{
    int proxy = (int)draw(run, PROXIES), slot = any_slot(run);
    if (run->heal_at[fault])
        return; /* goes on */
    run->counts[fault]++;
    switch (fault) {
    case FAULT_KILL:
        kill_one(run, slot);
        break;
    case FAULT_STOP:
        stop_one(run, slot);
        break;
    case FAULT_KILL_PUBSUB:
        show(run, "CLIENT KILL TYPE pubsub");
        raw(run->redis, "CLIENT KILL TYPE pubsub");
        break;
    case FAULT_KILL_NORMAL:
        show(run, "CLIENT KILL TYPE normal");
        raw(run->redis, "CLIENT KILL TYPE normal SKIPME yes");
        break;
    case FAULT_SCRIPT_FLUSH:
        show(run, "SCRIPT FLUSH");
        raw(run->redis, "SCRIPT FLUSH");
        break;
    case FAULT_BREAK:
    case FAULT_DEL:
        break_one(run, fault == FAULT_DEL);
        break;
    case FAULT_SERVER_STOP:
        stop_server(run);
        break;
    case FAULT_SERVER_RESTART:
    case FAULT_SERVER_WIPE:
        restart_server(run, fault == FAULT_SERVER_RESTART);
        break;
    case FAULT_FULL:
    case FAULT_NO_REPLICAS:
    case FAULT_REPLICA:
        refuse(run, fault);
        break;
    default:
        harm_network(run, fault, proxy);
    }
}

void faults_one(struct run *run)
{
    enum fault fault = (enum fault)draw(run, FAULTS);
    if (!(run->kinds & 1u << fault))
        return;
    bool restart = fault == FAULT_SERVER_RESTART || fault == FAULT_SERVER_WIPE;
    if (restart && soak_chance(&run->rng, 75))
        return; /* they take long */
    strike(run, fault);
}

static void go_on(struct run *run, int slot)
{
    if (run->stopped[slot] && run->pids[slot] > 0)
        kill(run->pids[slot], SIGCONT);
    if (run->stopped[slot])
        show(run, "SIGCONT of slot %d", slot);
    run->stopped[slot] = false;
}

static void heal_one(struct run *run, enum fault fault)
{
    if (refusals[fault].end)
        allow(run, fault);
    else
        heal_network(run, fault);
}

static void heal(struct run *run, int64_t until_ms)
{
    for (int slot = 0; slot < SLOTS; slot++)
        if (run->stopped[slot] && run->heal_slot_at[slot] <= until_ms)
            go_on(run, slot);
    for (int fault = 0; fault < FAULTS; fault++)
        if (fault != FAULT_LATE && run->heal_at[fault] && run->heal_at[fault] <= until_ms)
            heal_one(run, (enum fault)fault);
    bool frozen = run->heal_at[FAULT_FREEZE] || run->heal_at[FAULT_UNREAD]; /* nothing can be delivered */
    if (run->heal_at[FAULT_LATE] && run->heal_at[FAULT_LATE] <= until_ms && !frozen)
        heal_one(run, FAULT_LATE);
}

void faults_heal_due(struct run *run)
{
    heal(run, test_now_ms());
}

void faults_heal_all(struct run *run)
{
    heal(run, INT64_MAX);
    for (int i = 0; i < PROXIES; i++) {
        proxy_arm(run->proxies[i], PROXY_NONE, PROXY_ALL, 0);
        proxy_deliver(run->proxies[i], false);
    }
}
