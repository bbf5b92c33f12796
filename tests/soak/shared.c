#include "shared.h"

#include "support/wait.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int64_t soak_zero;

int64_t soak_now(void)
{
    return test_now_ns();
}

static struct soak *map(int fd)
{
    void *at = mmap(NULL, sizeof(struct soak), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        test_give_up("shared memory: %s", strerror(errno));
    return at;
}

struct soak *soak_create(int *fd)
{
    *fd = memfd_create("hlk-soak", MFD_CLOEXEC);
    if (*fd < 0 || ftruncate(*fd, (off_t)sizeof(struct soak)) != 0)
        test_give_up("shared memory: %s", strerror(errno));
    struct soak *soak = map(*fd);
    soak->parent = getpid();
    return soak;
}

struct soak *soak_map(void)
{
    return map(SOAK_FD);
}

void soak_new_round(struct soak *soak)
{
    size_t used = atomic_load(&soak->claimed);
    used = used < HOLDS ? used : HOLDS;
    memset(soak->holds, 0, used * sizeof soak->holds[0]);
    memset(soak->slot, 0, sizeof soak->slot);
    used = atomic_load(&soak->claimed_events);
    memset(soak->events, 0, (used < EVENTS ? used : EVENTS) * sizeof soak->events[0]);
    atomic_store(&soak->claimed_events, 0);
    memset((void *)soak->semaphore_closed, 0, sizeof soak->semaphore_closed);
    atomic_store(&soak->semaphore, 0);
    atomic_store(&soak->semaphore_kept, 0);
    atomic_store(&soak->claimed, 0);
    atomic_store(&soak->stop, false);
}

/* --- random numbers: splitmix64 */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

struct soak_rng soak_rng(const struct soak *soak, uint64_t slot, uint64_t incarnation, uint64_t thread)
{
    struct soak_rng rng = { mix(mix(mix(mix(mix(soak->seed) + soak->round) + slot) + incarnation) + thread) };
    return rng;
}

uint64_t soak_draw(struct soak_rng *rng, uint64_t below)
{
    rng->state = mix(rng->state);
    return below ? (rng->state >> 11) % below : 0;
}

bool soak_chance(struct soak_rng *rng, unsigned percent)
{
    return soak_draw(rng, 100) < percent;
}

int soak_draw_lock(struct soak_rng *rng)
{
    int all = 0, lock = 0;
    for (int i = 0; i < TURNS; i++)
        all += soak_locks[i].weight;
    for (int at = (int)soak_draw(rng, (uint64_t)all); at >= soak_locks[lock].weight; lock++)
        at -= soak_locks[lock].weight;
    return lock;
}

void soak_rest(int64_t us)
{
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    if (us > 0)
        nanosleep(&time, NULL);
}

/* --- what went wrong */

void soak_wrong(struct soak *soak, const char *format, ...)
{
    char text[sizeof soak->wrong[0]];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int i = atomic_fetch_add(&soak->wrongs, 1);
    if (i < WRONGS)
        snprintf(soak->wrong[i], sizeof soak->wrong[i], "%s", text);
    if (i < 4 * WRONGS)
        fprintf(stderr, "soak: VIOLATION at %.3f ms, round %d, seed %llu: %s\n", (double)soak_now() / 1e6,
                (int)soak->round, (unsigned long long)soak->seed, text);
}

/* --- recording */

struct soak_hold *soak_acquired(struct soak *soak, int64_t asked, int lock, int slot, int holder, int how)
{
    static struct soak_hold nowhere; /* beyond the memory; soak_judge says so */
    int64_t now = soak_now();
    size_t i = atomic_fetch_add(&soak->claimed, 1);
    struct soak_hold *hold = i < HOLDS ? &soak->holds[i] : &nowhere;
    hold->asked = asked;
    hold->from = now;
    hold->pid = getpid();
    hold->lock = (int16_t)lock;
    hold->slot = (int16_t)slot;
    hold->holder = (int16_t)holder;
    hold->how = (int16_t)how;
    for (int bit = 0; bit < 8; bit++)
        if (how & 1 << bit)
            atomic_fetch_add_explicit(&soak->kinds[bit], 1, memory_order_relaxed);
    soak_waited(soak, now - asked);
    return hold;
}

struct soak_event *soak_event_begin(struct soak *soak, int what, int64_t n)
{
    static struct soak_event nowhere; /* beyond the memory; the judge says so */
    size_t i = atomic_fetch_add(&soak->claimed_events, 1);
    struct soak_event *event = i < EVENTS ? &soak->events[i] : &nowhere;
    event->what = what;
    event->n = n;
    event->pid = getpid();
    event->begin = soak_now();
    atomic_store(&event->ready, 1);
    return event;
}

void soak_event_end(struct soak_event *event, int status, int64_t n)
{
    event->status = status;
    event->n = n;
    atomic_store(&event->end, soak_now());
}

void soak_process_died(struct soak *soak, int pid)
{
    size_t n = atomic_load(&soak->claimed_events);
    for (size_t i = 0; i < n && i < EVENTS; i++)
        if (soak->events[i].pid == pid && !soak->events[i].end)
            soak_event_end(&soak->events[i], EVENT_DIED, soak->events[i].n);
}

/* Buckets: 8 for each doubling of the microseconds. */
void soak_waited(struct soak *soak, int64_t ns)
{
    double us = (double)ns / 1e3;
    int i = us < 1 ? 0 : (int)(log2(us) * 8) + 1;
    atomic_fetch_add_explicit(&soak->waits[i < WAIT_BUCKETS ? i : WAIT_BUCKETS - 1], 1, memory_order_relaxed);
}

void soak_longest(_Atomic uint64_t *longest, int64_t ns)
{
    for (uint64_t seen = *longest, took = ns > 0 ? (uint64_t)ns : 0; took > seen;)
        if (atomic_compare_exchange_weak(longest, &seen, took))
            break;
}

uint64_t soak_wait_quantile(const struct soak *soak, double q)
{
    uint64_t all = 0, seen = 0;
    for (int i = 0; i < WAIT_BUCKETS; i++)
        all += soak->waits[i];
    for (int i = 0; i < WAIT_BUCKETS; i++) {
        seen += soak->waits[i];
        if (seen && (double)seen >= q * (double)all)
            return (uint64_t)exp2((double)i / 8);
    }
    return 0;
}

void soak_doing(struct soak_thread *thread, int doing, int lock, int64_t wait_ms)
{
    atomic_store(&thread->doing, DOING_NOTHING); /* who reads between sees this, not a mix */
    atomic_store(&thread->lock, lock);
    atomic_store(&thread->wait_ms, wait_ms);
    atomic_store(&thread->since, soak_now());
    atomic_store(&thread->doing, doing);
}

static double shown(int64_t ns)
{
    return ns ? (double)(ns - soak_zero) / 1e6 : -1;
}

void soak_show_hold(const struct soak_hold *hold)
{
    fprintf(stderr,
            "soak:   %-20s slot %d holder %d pid %d h %llu: asked %.3f from %.3f until %.3f end %.3f lost %.3f "
            "token %lld how %d permits %d\n",
            soak_turn_name(hold->lock), hold->slot, hold->holder, hold->pid, (unsigned long long)hold->h,
            shown(hold->asked), shown(hold->from), shown(hold->until), shown(hold->end), shown(hold->lost),
            (long long)hold->token, hold->how, hold->permits);
}
