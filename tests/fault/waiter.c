#include "waiter.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void play_acquire(struct waiter *me, hlk_lock *lock, struct history *history, struct hold **hold)
{
    me->status = hlk_lock_acquire(lock, HLK_FOREVER);
    me->left_ms = hlk_lock_left_ms(lock);
    me->answered_at_ms = test_now_ms();
    (void)hlk_lock_hold_id(lock, me->hold, sizeof me->hold);
    me->token = hlk_lock_token(lock);
    if (me->status == HLK_OK)
        *hold = history_acquired(history, me->who, 0, hlk_lock_held_until(lock));
    atomic_store(&me->answered, true);
}

static void play_release(struct waiter *me, hlk_lock *lock, struct hold *hold)
{
    if (hlk_lock_held_until(lock) > 0)
        history_valid_until(hold, hlk_lock_held_until(lock));
    history_released(hold);
    me->released = hlk_lock_release(lock);
    atomic_store(&me->let_go, true);
}

static _Noreturn void play(struct waiter *me, const char *name, int from, struct history *history)
{
    struct hlk_client_opts opts = HLK_CLIENT_OPTS_INIT;
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    hlk_client *client;
    struct hold *hold = NULL;
    char order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    opts.log_level = HLK_LOG_ERROR;
    lock_opts.lease_ms = me->lease_ms;
    if (hlk_client_open(&client, fixture.url, &opts) != HLK_OK)
        _exit(1);
    hlk_lock *plain = hlk_lock_create(client, name, &lock_opts), *lock = plain;
    lock_opts.kind = HLK_LOCK_FENCED;
    hlk_lock *fenced = hlk_lock_create(client, name, &lock_opts);
    while (read(from, &order, 1) == 1 && order != 'e') {
        if (order == 'r')
            play_release(me, lock, hold);
        else
            play_acquire(me, lock = order == 'f' ? fenced : plain, history, &hold);
        struct hlk_counters counters = fixture_counters(client);
        atomic_store(&me->handed_back, counters.handed_back);
        atomic_store(&me->granted, counters.granted);
    }
    hlk_lock_destroy(plain);
    hlk_lock_destroy(fenced);
    hlk_client_close(client);
    _exit(0);
}

struct waiter *waiters_fork(int n, const char *name, const int64_t *lease_ms, struct history *history)
{
    size_t size = (size_t)n * sizeof(struct waiter);
    struct waiter *all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        test_give_up("no memory for %d waiters", n);
    for (int i = 0; i < n; i++) {
        int ends[2];
        if (pipe(ends) != 0)
            test_give_up("no pipe");
        all[i].who = i;
        all[i].lease_ms = lease_ms ? lease_ms[i] : 0;
        all[i].to = ends[1];
        pid_t pid = fork();
        if (pid == 0) {
            for (int j = 0; j <= i; j++)
                close(all[j].to);
            play(&all[i], name, ends[0], history);
        }
        all[i].pid = pid;
        close(ends[0]);
    }
    return all;
}

static void order(struct waiter *waiter, char what)
{
    if (write(waiter->to, &what, 1) != 1)
        test_give_up("waiter %d is gone", waiter->who);
}

void waiter_acquire(struct waiter *waiter)
{
    atomic_store(&waiter->answered, false);
    order(waiter, 'a');
}

void waiter_acquire_fenced(struct waiter *waiter)
{
    atomic_store(&waiter->answered, false);
    order(waiter, 'f');
}

enum hlk_status waiter_answer(struct waiter *waiter)
{
    WAIT_FOR(atomic_load(&waiter->answered));
    return waiter->status;
}

enum hlk_status waiter_release(struct waiter *waiter)
{
    atomic_store(&waiter->let_go, false);
    order(waiter, 'r');
    WAIT_FOR(atomic_load(&waiter->let_go));
    return waiter->released;
}

void waiter_signal(struct waiter *waiter, int signal)
{
    int status;
    kill(waiter->pid, signal);
    if (signal == SIGCONT)
        return;
    cr_assert_eq(waitpid(waiter->pid, &status, WUNTRACED), waiter->pid);
    cr_assert(signal == SIGSTOP ? WIFSTOPPED(status) : WIFSIGNALED(status));
    if (signal == SIGKILL)
        waiter->pid = 0;
}

void waiters_end(struct waiter *waiters, int n)
{
    for (int i = 0; i < n; i++) {
        int status = 0;
        if (waiters[i].pid > 0) {
            order(&waiters[i], 'e');
            cr_assert_eq(waitpid(waiters[i].pid, &status, 0), waiters[i].pid);
        }
        close(waiters[i].to);
        cr_assert_eq(status, 0, "waiter %d", i);
    }
    munmap(waiters, (size_t)n * sizeof *waiters);
}

int64_t in_queue(const char *name)
{
    return raw_int(fixture.redis, "ZCOUNT hasplock_queue:{%s} 1 1e15", name);
}
