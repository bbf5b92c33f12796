/* How a thread sleeps and is woken: no wake-up is lost, made twice or left behind. */
#include "base/park.h"

#include "base/clock.h"
#include "base/thread.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct hlk_park park;
static int event_fd;

static void init(void)
{
    hlk_park_init(&park);
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cr_assert_geq(event_fd, 0);
}

static void fini(void)
{
    hlk_clock_play(NULL);
    close(event_fd);
}

TestSuite(park, .init = init, .fini = fini, .timeout = 20);

static int tokens(void)
{
    int n = -1;
    cr_assert_eq(sem_getvalue(&park.sem, &n), 0);
    return n;
}

static bool token_in_fd(void)
{
    eventfd_t n;
    return eventfd_read(event_fd, &n) == 0;
}

static bool asleep(void)
{
    return atomic_load(&park.bits) & HLK_PARK_ASLEEP;
}

/* --- by hand, one thread --- */

Test(park, a_wake_up_before_the_sleep_prevents_it_at_no_cost)
{
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    cr_assert_not(hlk_park_begin(&park, HLK_WAKE_QUEUE));
    cr_assert_not(asleep());
    cr_assert_eq(tokens(), 0);
}

Test(park, a_wake_up_in_the_sleep_is_paid)
{
    cr_assert(hlk_park_begin(&park, HLK_WAKE_QUEUE));
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    cr_assert_eq(tokens(), 1);
    cr_assert_not(hlk_park_end(&park));
    cr_assert_eq(hlk_park_peek(&park, HLK_WAKE_ALL), HLK_WAKE_QUEUE);
}

Test(park, a_wake_up_in_two_steps_is_paid_in_the_second)
{
    cr_assert_null(hlk_park_signal(&park, HLK_WAKE_QUEUE), "nobody sleeps");
    cr_assert(hlk_park_begin(&park, HLK_WAKE_MESSAGE));
    struct hlk_park *woken = hlk_park_signal(&park, HLK_WAKE_MESSAGE);
    cr_assert_eq(woken, &park);
    cr_assert_null(hlk_park_signal(&park, HLK_WAKE_MESSAGE), "somebody pays already");
    cr_assert_eq(tokens(), 0);
    hlk_park_wake_signalled(NULL);
    hlk_park_wake_signalled(woken);
    cr_assert_eq(tokens(), 1);
    cr_assert_eq(hlk_park_peek(&park, HLK_WAKE_ALL), HLK_WAKE_QUEUE | HLK_WAKE_MESSAGE);
}

Test(park, the_second_waker_pays_nothing)
{
    cr_assert(hlk_park_begin(&park, HLK_WAKE_ALL));
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    hlk_park_wake(&park, HLK_WAKE_MESSAGE);
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    cr_assert_eq(tokens(), 1);
    cr_assert_eq(hlk_park_peek(&park, HLK_WAKE_ALL), HLK_WAKE_QUEUE | HLK_WAKE_MESSAGE);
}

Test(park, a_bit_that_is_not_wanted_does_not_keep_awake)
{
    hlk_park_wake(&park, HLK_WAKE_REPLY);
    cr_assert(hlk_park_begin(&park, HLK_WAKE_QUEUE));
    cr_assert(hlk_park_end(&park));
    cr_assert_eq(hlk_park_peek(&park, HLK_WAKE_ALL), HLK_WAKE_REPLY);
}

Test(park, any_bit_wakes_a_sleeper)
{
    cr_assert(hlk_park_begin(&park, HLK_WAKE_QUEUE));
    hlk_park_wake(&park, HLK_WAKE_REPLY); /* of no interest here: it checks, and sleeps again */
    cr_assert_eq(tokens(), 1);
}

Test(park, who_leaves_by_itself_owes_nothing)
{
    cr_assert(hlk_park_begin(&park, HLK_WAKE_QUEUE));
    cr_assert(hlk_park_end(&park));
    cr_assert_not(asleep());
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    cr_assert_eq(tokens(), 0);
}

Test(park, take_takes_what_was_asked_for)
{
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    hlk_park_wake(&park, HLK_WAKE_MESSAGE);
    cr_assert_eq(hlk_park_take(&park, HLK_WAKE_QUEUE | HLK_WAKE_REPLY), HLK_WAKE_QUEUE);
    cr_assert_eq(hlk_park_peek(&park, HLK_WAKE_ALL), HLK_WAKE_MESSAGE);
    cr_assert_eq(hlk_park_take(&park, HLK_WAKE_QUEUE), 0);
}

Test(park, bits_are_distinct_and_all_in_all)
{
    static const unsigned bits[] = { HLK_WAKE_REPLY,
                                     HLK_WAKE_LEAD,
                                     HLK_WAKE_UP,
                                     HLK_WAKE_QUEUE,
                                     HLK_WAKE_MESSAGE,
                                     HLK_WAKE_SUBSCRIBED,
                                     HLK_WAKE_SUBSCRIBE_FAILED,
                                     HLK_WAKE_CANCEL,
                                     HLK_WAKE_CLOSED,
                                     HLK_WAKE_SETTLED,
                                     HLK_WAKE_READ };
    unsigned all = 0;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        cr_assert_not(all & bits[i]);
        all |= bits[i];
    }
    cr_assert_eq(all, HLK_WAKE_ALL);
    cr_assert_not(all & HLK_PARK_ASLEEP);
}

/* --- sleeping, with a clock that each reading advances by 1 ms: deadlines pass without real time --- */

static int64_t played_ns;

static int64_t step(void)
{
    return played_ns += 1000000;
}

/* The waker stops between the bit and the system call. Then the other end wakes the sleeper, and its client is
 * closed. */
Test(park, a_wake_up_after_the_sleep_spares_its_descriptor)
{
    int ends[2], kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct hlk_thread *self = hlk_thread_get();
    cr_assert_eq(pipe(ends), 0);
    atomic_store(&self->park.poll_fd, kick_fd);
    cr_assert(hlk_park_begin(&self->park, HLK_WAKE_LEAD));
    struct hlk_park *woken = hlk_park_signal(&self->park, HLK_WAKE_REPLY);
    cr_assert_not_null(woken);
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    cr_assert_eq(write(ends[1], "x", 1), 1);
    hlk_thread_poll(self, ends[0], POLLIN, kick_fd, HLK_WAKE_LEAD, INT64_MAX);
    hlk_park_wake_signalled(woken);
    eventfd_t paid;
    cr_assert_eq(eventfd_read(kick_fd, &paid), -1);
    close(kick_fd);
    close(ends[0]);
    close(ends[1]);
}

/* The waker stops after it has read the descriptor's number. By then the sleeper has woken up, so the write would come
 * too late. The sleeper waits asleep, because a waker of lower priority has to get the CPU. */
static atomic_bool halts, halted, awake, paid_late;
static _Atomic(pid_t) sleeper;
static atomic_int yields;

ssize_t __real_write(int fd, const void *buffer, size_t len);
ssize_t __wrap_write(int fd, const void *buffer, size_t len);
ssize_t __wrap_write(int fd, const void *buffer, size_t len)
{
    if (atomic_exchange(&halts, false)) {
        atomic_store(&halted, true);
        WAIT_FOR((atomic_load(&sleeper) && test_sleeps(atomic_load(&sleeper))) || atomic_load(&yields) > 100 ||
                 atomic_load(&awake));
        atomic_store(&paid_late, atomic_load(&awake));
    }
    return __real_write(fd, buffer, len);
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (atomic_load(&sleeper) == gettid())
        atomic_fetch_add(&yields, 1);
    return __real_sched_yield();
}

static void *pays(void *woken)
{
    atomic_store(&halts, true);
    hlk_park_wake_signalled(woken);
    return NULL;
}

static void expect_payer_waited_for(void (*sleeps)(struct hlk_thread *self))
{
    struct hlk_thread *self = hlk_thread_get();
    pthread_t payer;
    atomic_store(&self->park.poll_fd, event_fd);
    cr_assert(hlk_park_begin(&self->park, HLK_WAKE_LEAD));
    cr_assert_not_null(hlk_park_signal(&self->park, HLK_WAKE_LEAD));
    cr_assert_eq(pthread_create(&payer, NULL, pays, &self->park), 0);
    while (!atomic_load(&halted))
        __real_sched_yield();
    atomic_store(&sleeper, gettid());
    sleeps(self);
    atomic_store(&awake, true);
    pthread_join(payer, NULL);
    cr_assert_not(atomic_load(&paid_late), "the descriptor may be another file by now");
    cr_assert_eq(atomic_load(&yields), 0);
    int left = -1;
    cr_assert_eq(sem_getvalue(&self->park.sem, &left), 0);
    cr_assert_eq(left, 0);
}

static void sleeps_at_a_connection(struct hlk_thread *self)
{
    hlk_thread_poll(self, -1, 0, event_fd, HLK_WAKE_QUEUE, 0);
}

static void is_woken_before_it_sleeps_at_a_connection(struct hlk_thread *self)
{
    hlk_thread_poll(self, -1, 0, event_fd, HLK_WAKE_LEAD, INT64_MAX);
}

static void sleeps_until_a_signal(struct hlk_thread *self)
{
    bool eintr;
    cr_assert_not(hlk_park_until(&self->park, HLK_WAKE_QUEUE, 0, event_fd, &eintr));
}

Test(park, a_sleeper_at_a_connection_waits_for_who_pays)
{
    expect_payer_waited_for(sleeps_at_a_connection);
}

Test(park, a_sleeper_that_did_not_sleep_waits_for_who_pays)
{
    expect_payer_waited_for(is_woken_before_it_sleeps_at_a_connection);
}

Test(park, a_sleeper_until_a_signal_waits_for_who_pays)
{
    expect_payer_waited_for(sleeps_until_a_signal);
}

Test(park, until_is_awake_at_once_when_the_bit_is_there)
{
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    cr_assert(hlk_park_until(&park, HLK_WAKE_QUEUE, INT64_MAX, -1, NULL));
    cr_assert_eq(tokens(), 0);
}

Test(park, until_leaves_the_bit_set)
{
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    cr_assert(hlk_park_until(&park, HLK_WAKE_QUEUE, INT64_MAX, -1, NULL));
    cr_assert_eq(hlk_park_take(&park, HLK_WAKE_ALL), HLK_WAKE_QUEUE);
}

Test(park, until_ends_at_its_time_and_leaves_no_token)
{
    played_ns = 0;
    hlk_clock_play(step);
    cr_assert_not(hlk_park_until(&park, HLK_WAKE_QUEUE, 50, -1, NULL));
    cr_assert_geq(played_ns, 50 * 1000000);
    cr_assert_eq(tokens(), 0);
    cr_assert_not(asleep());
}

Test(park, until_of_a_time_that_is_over_does_not_sleep)
{
    cr_assert_not(hlk_park_until(&park, HLK_WAKE_QUEUE, 1, -1, NULL));
    cr_assert_not(asleep());
    cr_assert_eq(tokens(), 0);
}

Test(park, until_in_poll_ends_at_its_time)
{
    bool eintr = false;
    cr_assert_not(hlk_park_until(&park, HLK_WAKE_QUEUE, hlk_clock_ms() + 2, event_fd, &eintr));
    cr_assert_not(eintr);
    cr_assert_not(asleep());
    cr_assert_not(token_in_fd());
}

/* A waker clears ASLEEP, the sleeper's deadline passes, and the waker makes the system call. The sleeper waits for
 * that. */
static atomic_bool half_woken;

static int64_t half_wake(void)
{
    if (asleep()) {
        atomic_store(&park.bits, HLK_WAKE_QUEUE);
        atomic_store(&half_woken, true);
    }
    return step();
}

static void *other_half(void *arg)
{
    while (!atomic_load(&half_woken))
        sched_yield();
    for (int i = 0; i < 500; i++)
        sched_yield();
    sem_post(&park.sem);
    return arg;
}

Test(park, a_wake_up_that_is_paid_late_leaves_no_token)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, other_half, NULL), 0);
    played_ns = 0;
    hlk_clock_play(half_wake);
    cr_assert(hlk_park_until(&park, HLK_WAKE_QUEUE, 5, -1, NULL));
    pthread_join(thread, NULL);
    cr_assert_eq(tokens(), 0);
}

/* --- two threads --- */

struct sleeper {
    pthread_t thread;
    bool polls, eintr, woken;
    int64_t at_ms;
    atomic_bool done;
};

static void *sleep_once(void *arg)
{
    struct sleeper *s = arg;
    s->woken = hlk_park_until(&park, HLK_WAKE_QUEUE, s->at_ms, event_fd, s->polls ? &s->eintr : NULL);
    atomic_store(&s->done, true);
    return NULL;
}

static void start(struct sleeper *s, bool polls)
{
    s->polls = polls;
    s->at_ms = INT64_MAX;
    cr_assert_eq(pthread_create(&s->thread, NULL, sleep_once, s), 0);
    while (!asleep())
        sched_yield();
}

Test(park, a_sleeper_is_woken)
{
    struct sleeper s = { .polls = false };
    start(&s, false);
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    pthread_join(s.thread, NULL);
    cr_assert(s.woken);
    cr_assert_eq(tokens(), 0);
    cr_assert_not(asleep());
}

Test(park, a_sleeper_in_poll_is_woken)
{
    struct sleeper s = { .polls = true };
    start(&s, true);
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    pthread_join(s.thread, NULL);
    cr_assert(s.woken);
    cr_assert_not(s.eintr);
    cr_assert_eq(tokens(), 0);
    cr_assert_not(token_in_fd());
}

Test(park, a_bit_that_is_not_wanted_lets_a_sleeper_sleep_on)
{
    struct sleeper s = { .polls = false };
    start(&s, false);
    hlk_park_wake(&park, HLK_WAKE_REPLY);
    while (!asleep())
        sched_yield();
    cr_assert_not(atomic_load(&s.done));
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    pthread_join(s.thread, NULL);
    cr_assert(s.woken);
}

static void on_signal(int signo)
{
    (void)signo;
}

static void handle_usr1(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

Test(park, a_signal_ends_a_sleep_that_asked_for_it)
{
    struct sleeper s = { .polls = true };
    handle_usr1();
    start(&s, true);
    while (!atomic_load(&s.done)) { /* a signal just before the poll has no effect, as with pause() */
        pthread_kill(s.thread, SIGUSR1);
        sched_yield();
    }
    pthread_join(s.thread, NULL);
    cr_assert(s.eintr);
    cr_assert_not(s.woken);
    cr_assert_not(asleep());
}

Test(park, a_signal_does_not_end_another_sleep)
{
    struct sleeper s = { .polls = false };
    handle_usr1();
    start(&s, false);
    for (int i = 0; i < 100; i++) {
        pthread_kill(s.thread, SIGUSR1);
        sched_yield();
    }
    cr_assert_not(atomic_load(&s.done));
    hlk_park_wake(&park, HLK_WAKE_QUEUE);
    pthread_join(s.thread, NULL);
    cr_assert(s.woken);
    cr_assert_eq(tokens(), 0);
}

static void cancel_one(bool polls, bool wake)
{
    struct sleeper s = { .polls = polls };
    atomic_store(&park.bits, 0);
    start(&s, polls);
    if (wake)
        hlk_park_wake(&park, HLK_WAKE_QUEUE);
    pthread_cancel(s.thread);
    pthread_join(s.thread, NULL);
    cr_assert_not(asleep());
    cr_assert_eq(tokens(), 0);
}

Test(park, a_cancelled_sleeper_leaves_no_token)
{
    for (int i = 0; i < 200; i++)
        cancel_one(i % 2, false);
}

Test(park, a_cancelled_sleeper_that_was_woken_leaves_no_token)
{
    for (int i = 0; i < 200; i++)
        cancel_one(i % 2, true);
}
