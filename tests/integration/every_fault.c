/* The promises about faults: lost commands and answers, restarts, a holder that is killed. */
#include "every_promise.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The fault hits the acquire, then the release. */
static void survive(const struct every_kind *kind, enum proxy_fault fault)
{
    struct hlk_client_opts opts = every_opts();
    opts.reply_timeout_ms = 1000;
    struct every_handle own = every_handle(kind, every_open(&opts), NULL), other = every_other(kind, every_open(NULL));
    every_allow_tombstones(kind);
    every_is_free(own); /* the scripts are loaded */
    every_place->arm(fault);
    every_acquired(own);
    every_place->wait_struck();
    every_is_held(other);
    every_place->arm(fault);
    enum hlk_status status = every_release(own);
    cr_assert(status == HLK_OK || status == HLK_E_UNSURE, "%s", hlk_last_error());
    every_place->wait_struck();
    every_is_free(other);
    every_is_free(own);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

void survives_a_cut_before_its_command(const struct every_kind *kind)
{
    survive(kind, PROXY_CUT_BEFORE);
}

void survives_a_cut_before_its_answer(const struct every_kind *kind)
{
    survive(kind, PROXY_CUT_AFTER);
}

void survives_an_answer_that_never_comes(const struct every_kind *kind)
{
    survive(kind, PROXY_SWALLOW);
}

/* The same of calls with completions, in the mode of `flags`. */
static void complete_after(const struct every_kind *kind, enum proxy_fault fault, unsigned flags)
{
    static struct every_done done, end;
    struct hlk_client_opts opts = every_opts();
    opts.reply_timeout_ms = 200;
    opts.flags = flags;
    hlk_client *client = every_open(&opts);
    hlk_owner *owner = hlk_owner_create(client, "o");
    struct every_handle own = every_handle(kind, client, owner), other = every_other(kind, every_open(NULL));
    memset(&done, 0, sizeof done);
    memset(&end, 0, sizeof end);
    every_is_free(other); /* the scripts are loaded */
    every_place->arm(fault);
    every_acquire_async(own, NULL, &done);
    cr_assert_eq(every_result(client, &done), HLK_OK, "%s", done.error);
    every_place->wait_struck();
    every_is_held(other);
    every_place->arm(fault);
    every_release_async(own, &end);
    enum hlk_status status = every_result(client, &end);
    cr_assert(status == HLK_OK || status == HLK_E_UNSURE, "%s", end.error);
    every_place->wait_struck();
    every_is_free(other);
    cr_assert(atomic_load(&done.runs) == 1 && atomic_load(&end.runs) == 1);
    hlk_owner_destroy(owner);
}

static void complete_in_both_modes(const struct every_kind *kind, enum proxy_fault fault)
{
    every_allow_tombstones(kind);
    complete_after(kind, fault, 0);
    complete_after(kind, fault, HLK_OPEN_DISPATCH);
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
}

void completes_after_a_cut_before_its_command(const struct every_kind *kind)
{
    complete_in_both_modes(kind, PROXY_CUT_BEFORE);
}

void completes_after_a_cut_before_its_answer(const struct every_kind *kind)
{
    complete_in_both_modes(kind, PROXY_CUT_AFTER);
}

void completes_after_an_answer_that_never_comes(const struct every_kind *kind)
{
    complete_in_both_modes(kind, PROXY_SWALLOW);
}

static void stay(const struct every_kind *kind, bool with_data)
{
    hlk_client *client = every_open(NULL);
    struct every_handle own = every_handle(kind, client, NULL), other = every_other(kind, every_open(NULL));
    every_acquired(own);
    uint64_t before = fixture_counters(client).reconnects;
    every_place->restart(with_data);
    WAIT_FOR(fixture_counters(client).reconnects > before);
    every_is_held(other);
    if (own.lock)
        cr_assert_eq(hlk_lock_extend(own.lock, LONG_MS), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(fixture_events(HLK_EVENT_LOST, NULL), 0);
    every_released(own);
    every_is_free(other);
}

void stays_when_its_server_restarts_with_data(const struct every_kind *kind)
{
    stay(kind, true);
}

void stays_when_a_master_restarts_without(const struct every_kind *kind)
{
    stay(kind, false);
}

/* Who waits has it then. A semaphore is gone with its number: somebody makes it again. */
void is_gone_when_its_server_restarts_without(const struct every_kind *kind)
{
    hlk_client *client = every_open(NULL);
    struct every_handle own = every_handle(kind, every_open_with_watchdog(), NULL), other = every_other(kind, client);
    struct every_call call;
    every_allow_tombstones(kind);
    every_acquired(own);
    call_start_wait(&call, other, RECONNECT_MS);
    every_wait_for_waiters(client, 1);
    every_place->restart(false);
    if (own.semaphore)
        cr_assert_eq(hlk_semaphore_try_set(own.semaphore, 1, 0), HLK_OK, "%s", hlk_last_error());
    else
        fixture_wait_event(HLK_EVENT_LOST, "t");
    call_acquired(&call);
    if (own.lock)
        cr_assert_eq(every_release(own), HLK_LOST);
    every_is_free(own);
}

static _Noreturn void hold_until_killed(const struct every_kind *kind, int to)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hlk_client *client = every_open_with_watchdog();
    if (every_acquire(every_make(kind, client, NULL), RECONNECT_MS) != HLK_OK || write(to, "h", 1) != 1) {
        fprintf(stderr, "[----] the holder: %s\n", hlk_last_error());
        _exit(1);
    }
    for (;;)
        pause();
}

/* Forked before this process has clients. */
void is_free_when_its_holder_is_killed(const struct every_kind *kind)
{
    int ends[2];
    char held;
    struct every_call call;
    if (STAGE_UNDER_TSAN || STAGE_UNDER_ASAN) /* the child of a process with threads allocates */
        return;
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0)
        hold_until_killed(kind, ends[1]);
    close(ends[1]);
    cr_assert_eq(read(ends[0], &held, 1), 1);
    close(ends[0]);
    hlk_client *client = every_open(NULL);
    call_start_wait(&call, every_other(kind, client), RECONNECT_MS);
    every_wait_for_waiters(client, 1);
    kill(pid, SIGKILL);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    call_acquired(&call);
}
