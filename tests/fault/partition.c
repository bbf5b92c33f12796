/* partition.c - partitions, many: "partition [RUNS]". A run is one lock in one partition; each partition has PAIRS of
 * them. A holder in a network namespace of its own is cut off from the server, or a waiter is, and a client on the
 * server's side gets the lock.
 *
 *   cable      the link is down
 *   answers    what the holder sends arrives, what the server answers does not. So its release after LOST arrives,
 *              and the margin is as short as that takes
 *   requests   the other way round
 *   half-open  the link is down, and the server has closed the connections: when it is up again, the holder's
 *              connections are to nobody
 *   waiter     the holder is beside the server; a waiter is cut off, granted the lock, and passed over
 *
 * The margin of a run is the time from the holder's LOST to the other's acquire; of `waiter` from the release of who
 * came next to the waiter's acquire. It must not be negative, nor may held_until come after the other's acquire. Prints
 * the smallest margins first, and how all are distributed. Exits with 1 if any run failed. Needs root, ip and nft. */
/* Shows: S15 */
#include "support/fixture.h"
#include "support/netns.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 10, WATCHDOG_MS = 300, RUNS = 1000, SHOWN = 10, PENDING = 1000 };
enum { PAUSE_MS = WATCHDOG_MS / 10 / 2 }; /* half of the margin that the library keeps */

struct run {
    hlk_lock *lock, *theirs; /* in the namespace; beside the server */
    atomic_llong ours_ns, theirs_ns;
    atomic_llong lost_ns, held_until_ns;
    atomic_int ours, status; /* of the acquires; PENDING */
};

struct way {
    const char *name;
    void (*cut)(void), (*heal)(void);
    bool waiter;
    int64_t *margins;
    int count;
};

static struct run runs[PAIRS];
static hlk_client *cut_off, *beside;
static int failures, excused;
static int64_t began_ms; /* the present partition */

/* --- the link between the two hosts */

static void pull_cable(void)
{
    netns_unplug(0);
}

static void plug_in(void)
{
    netns_plug_in(0);
}

static void lose_answers(void)
{
    netns_drop_from(fixture.server->port);
}

static void lose_requests(void)
{
    netns_drop_to(fixture.server->port);
}

static void lose_nothing(void)
{
    netns_pass(fixture.server->port);
}

/* The server's FIN is lost as well. */
static void leave_half_open(void)
{
    pull_cable();
    redisReply *reply = redisCommand(fixture.redis, "CLIENT LIST");
    char *save = NULL, *copy = strdup(reply->str);
    freeReplyObject(reply);
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (strstr(line, " addr=" NETNS_CLIENT ":"))
            (void)raw(fixture.redis, "CLIENT KILL ID %d", atoi(line + strlen("id=")));
    free(copy);
}

/* --- who holds, and when */

static void on_event(const struct hlk_event *event, void *ctx)
{
    (void)ctx;
    if (event->kind != HLK_EVENT_LOST)
        return;
    struct run *run = &runs[atoi(event->lock + 1)];
    atomic_store(&run->held_until_ns, event->held_until_at_ms * 1000000);
    atomic_store(&run->lost_ns, test_now_ns());
}

static void on_theirs(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct run *run = ctx;
    atomic_store(&run->theirs_ns, test_now_ns());
    atomic_store(&run->status, status);
}

static void on_ours(hlk_lock *lock, enum hlk_status status, void *ctx)
{
    (void)lock;
    struct run *run = ctx;
    atomic_store(&run->ours_ns, test_now_ns());
    atomic_store(&run->ours, status);
}

static void open_all(void)
{
    static const char *const anywhere[] = { "--bind", "0.0.0.0", "--protected-mode", "no", NULL };
    char url[64];
    fixture.server = server_start(SERVER_TCP | SERVER_NOACL, anywhere);
    fixture.redis = raw_open(fixture.server);
    fixture.url = hlk_test_url(fixture.server);
    server_allow(fixture.server, SERVER_QUEUE);
    snprintf(url, sizeof url, "redis://%s:%d", netns_address(0), fixture.server->port);
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = WATCHDOG_MS;
    opts.reply_timeout_ms = 200;
    opts.reconnect_timeout_ms = 60000;
    opts.on_event = on_event;
    netns_at_clients(); /* sockets are made by the client's loop thread: it is started there */
    cut_off = fixture_open_at(url, &opts);
    netns_at_servers();
    opts.reply_timeout_ms = 3000;
    opts.watchdog_ms = 30000; /* its holds are not the subject: a pause of the machine costs none */
    beside = fixture_open_at(fixture.url, &opts);
    hlk_owner *ours = hlk_owner_create(cut_off, "cut off"), *theirs = hlk_owner_create(beside, "beside");
    for (int i = 0; i < PAIRS; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        runs[i].lock = fixture_owned(cut_off, name, ours);
        runs[i].theirs = fixture_owned(beside, name, theirs);
    }
    hlk_owner_destroy(ours);
    hlk_owner_destroy(theirs);
}

static void acquire(hlk_lock *lock)
{
    if (hlk_lock_acquire(lock, 60000) != HLK_OK)
        test_give_up("partition: %s", hlk_last_error());
}

static void fail(const char *way, int i, const char *what, int64_t ns)
{
    failures++;
    printf("FAILED %s t%d: %s (%.3f ms)\n", way, i, what, (double)ns / 1e6);
}

/* "Held by two" also comes of a pause before LOST is reported, or before the other's acquire is. */
static bool is_excused(int i)
{
    int64_t pause = pause_longest_ms(began_ms);
    if (pause < PAUSE_MS || excused == 5 * PAIRS)
        return false;
    excused++;
    printf("t%d: not counted, the machine stood still for %d ms\n", i, (int)pause);
    return true;
}

static void note(struct way *way, int i, int64_t margin)
{
    if (margin < 0 && is_excused(i))
        return;
    way->margins[way->count++] = margin;
    if (margin < 0)
        fail(way->name, i, "held by two", margin);
}

/* --- a partition: the holder is cut off */

static bool all_lost_and_got(void)
{
    for (int i = 0; i < PAIRS; i++)
        if (!atomic_load(&runs[i].lost_ns) || atomic_load(&runs[i].status) == PENDING)
            return false;
    return true;
}

static void cut_holder(struct way *way)
{
    for (int i = 0; i < PAIRS; i++) {
        acquire(runs[i].lock);
        atomic_store(&runs[i].lost_ns, 0);
        atomic_store(&runs[i].status, PENDING);
        if (hlk_lock_acquire_async(runs[i].theirs, NULL, on_theirs, &runs[i]) != HLK_OK)
            test_give_up("partition: %s", hlk_last_error());
    }
    WAIT_FOR_WAITERS(beside, PAIRS);
    way->cut();
    WAIT_FOR(all_lost_and_got());
    way->heal();
    for (int i = 0; i < PAIRS; i++) {
        int64_t theirs = atomic_load(&runs[i].theirs_ns);
        if (atomic_load(&runs[i].status) != HLK_OK)
            fail(way->name, i, hlk_status_text((enum hlk_status)atomic_load(&runs[i].status)), 0);
        if (atomic_load(&runs[i].held_until_ns) > theirs)
            fail(way->name, i, "held_until was later", theirs - atomic_load(&runs[i].held_until_ns));
        note(way, i, theirs - atomic_load(&runs[i].lost_ns));
        if (hlk_lock_release(runs[i].lock) != HLK_LOST)
            fail(way->name, i, "its release was not LOST", 0);
        if (hlk_lock_release(runs[i].theirs) != HLK_OK)
            fail(way->name, i, hlk_last_error(), 0);
    }
}

/* --- a waiter is */

static bool all_ours(void)
{
    for (int i = 0; i < PAIRS; i++)
        if (atomic_load(&runs[i].ours) == PENDING)
            return false;
    return true;
}

static void cut_waiter(struct way *way)
{
    int64_t released[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        acquire(runs[i].theirs);
        atomic_store(&runs[i].ours, PENDING);
        if (hlk_lock_acquire_async(runs[i].lock, NULL, on_ours, &runs[i]) != HLK_OK)
            test_give_up("partition: %s", hlk_last_error());
    }
    WAIT_FOR_WAITERS(cut_off, PAIRS);
    for (int i = 0; i < PAIRS; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        WAIT_FOR(raw_listeners(fixture.redis, name) == 1);
    }
    WAIT_FOR(raw_inboxes(fixture.redis) >= 1);
    way->cut();
    for (int i = 0; i < PAIRS; i++)
        if (hlk_lock_release(runs[i].theirs) != HLK_OK)
            fail(way->name, i, hlk_last_error(), 0);
    for (int i = 0; i < PAIRS; i++)
        acquire(runs[i].theirs);
    way->heal();
    for (int i = 0; i < PAIRS; i++) {
        if (atomic_load(&runs[i].ours) != PENDING)
            fail(way->name, i, "the waiter has it beside its holder", 0);
        released[i] = test_now_ns();
        if (hlk_lock_release(runs[i].theirs) != HLK_OK)
            fail(way->name, i, hlk_last_error(), 0);
    }
    WAIT_FOR(all_ours());
    for (int i = 0; i < PAIRS; i++) {
        note(way, i, atomic_load(&runs[i].ours_ns) - released[i]);
        enum hlk_status status = hlk_lock_release(runs[i].lock);
        if (status != HLK_OK)
            fail(way->name, i, hlk_last_error(), 0);
    }
}

/* --- the account */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double ms_at(const struct way *way, double share)
{
    return (double)way->margins[(int)(share * (way->count - 1))] / 1e6;
}

static void print(struct way *way)
{
    if (way->count == 0)
        return;
    qsort(way->margins, (size_t)way->count, sizeof *way->margins, by_size);
    printf("%-10s %5d  min %7.1f  1%% %7.1f  50%% %7.1f  99%% %7.1f  max %7.1f ms;  smallest", way->name, way->count,
           ms_at(way, 0), ms_at(way, 0.01), ms_at(way, 0.5), ms_at(way, 0.99), ms_at(way, 1));
    for (int i = 0; i < SHOWN && i < way->count; i++)
        printf(" %.1f", (double)way->margins[i] / 1e6);
    printf("\n");
}

int main(int argc, char **argv)
{
    int wanted = argc > 1 ? atoi(argv[1]) : RUNS, done = 0;
    struct way ways[] = { { .name = "cable", .cut = pull_cable, .heal = plug_in },
                          { .name = "answers", .cut = lose_answers, .heal = lose_nothing },
                          { .name = "requests", .cut = lose_requests, .heal = lose_nothing },
                          { .name = "half-open", .cut = leave_half_open, .heal = plug_in },
                          { .name = "waiter", .cut = pull_cable, .heal = plug_in, .waiter = true } };
    int count = sizeof ways / sizeof *ways;
    if (wanted < 1) {
        fprintf(stderr, "usage: partition [RUNS]\n");
        return 64;
    }
    for (int i = 0; i < count; i++)
        if (!(ways[i].margins = calloc((size_t)wanted + PAIRS, sizeof *ways[i].margins)))
            test_give_up("partition: no memory");
    pause_watch();
    netns_begin(1);
    open_all();
    for (int round = 0; done < wanted; round++, done += PAIRS) {
        struct way *way = &ways[round % count];
        began_ms = test_now_ms();
        (way->waiter ? cut_waiter : cut_holder)(way);
    }
    fixture_end();
    printf("%d runs, %d failures. Margins, from LOST to the next holder's acquire (waiter: from a release to it):\n",
           done, failures);
    for (int i = 0; i < count; i++) {
        print(&ways[i]);
        free(ways[i].margins);
    }
    return failures ? 1 : 0;
}
