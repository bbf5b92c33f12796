/* A server that sends endless bytes or announces impossible sizes: an endless line, bulk or array, a huge header,
 * nesting, surplus replies, a reply byte by byte. On the command connection and on the subscriber connection. Every
 * call keeps its deadline, close keeps its time, and memory is bounded. */
#include "fixture.h"

#include <string.h>

enum {
    SILENCE_MS = 300,
    WAIT_ONCE_MS = 1000,
    SLACK_MS = 1500, /* for a busy machine, and for the time that reading takes */
    MEMORY_KB = 32 * 1024
};

static const char xs[] =
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";

static const struct hostile {
    const char *what, *head, *body;
    int64_t gap_ms;
} hostile[] = {
    { "an endless line", "+", xs, 0 },
    { "an endless error", "-ERR ", xs, 0 },
    { "an endless bulk", "$2147483647\r\n", xs, 0 },
    { "an endless array", "*2147483647\r\n", ":1\r\n", 0 },
    { "a long array", "*200000\r\n", "$5\r\nhello\r\n", 0 },
    { "many arrays", "", "*1000\r\n", 0 },
    { "a huge header", "*2147483647\r\n", "", 0 },
    { "a huge number of empty strings", "*100000\r\n", "+\r\n", 0 },
    { "nesting", "", "*1\r\n", 0 },
    { "answers that nobody asked for", "", ":1\r\n", 0 },
    { "messages that nobody asked for", "", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n", 0 },
    { "what is no reply", "", "HTTP/1.1 200 OK\r\n", 0 },
    { "a byte now and then", "$100000\r\n", "x", 20 },
    { "an element now and then", "*3\r\n", "*3\r\n", 20 },
};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

static void start(void)
{
    fault_up(STAGE_PROXY);
}

TestSuite(hostile, .init = start, .fini = fixture_end, .timeout = 120);

static int64_t status_kb(const char *field)
{
    char line[256];
    long long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = strtoll(line + strlen(field) + 1, NULL, 10);
    if (file)
        fclose(file);
    return kb;
}

/* Resets the peak of the memory. */
static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file) {
        fputs("5", file);
        fclose(file);
    }
}

static hlk_client *open_it(void)
{
    struct hlk_client_opts opts = fault_opts();
    opts.reply_timeout_ms = SILENCE_MS;
    opts.reconnect_timeout_ms = 500;
    return fixture_open(&opts);
}

static void expect_within(int64_t began_ms, int64_t limit_ms, const struct hostile *h, const char *what)
{
    int64_t took = test_now_ms() - began_ms;
    cr_assert_leq(running_ms(began_ms), limit_ms + SLACK_MS, "%s: %s took %lld ms of %lld", h->what, what,
                  (long long)took, (long long)limit_ms);
}

static void expect_little_memory(int64_t before_kb, const struct hostile *h)
{
    int64_t used = status_kb("VmHWM") - before_kb;
    if (!STAGE_UNDER_ASAN && !STAGE_UNDER_TSAN)
        cr_assert_leq(used, MEMORY_KB, "%s: %lld KiB", h->what, (long long)used);
}

/* Each call, and close, while the server does so on each new connection. */
static void expect_deadlines(const struct hostile *h, enum proxy_filter filter)
{
    hlk_client *client = open_it();
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    forget_peak();
    int64_t before_kb = status_kb("VmRSS"), began = test_now_ms();
    proxy_flood(fixture.proxy, filter, 1, true, h->head, h->body, h->gap_ms);
    enum hlk_status status = hlk_lock_acquire(lock, WAIT_ONCE_MS);
    expect_within(began, WAIT_ONCE_MS, h, "acquire");
    cr_assert(ONE_OF(status, HLK_TIMEOUT, HLK_E_UNSURE, HLK_E_CONNECT), "%s: %s", h->what, hlk_last_error());
    began = test_now_ms();
    status = hlk_lock_acquire(lock, HLK_NOWAIT);
    expect_within(began, 500 + SILENCE_MS, h, "a try");
    cr_assert(ONE_OF(status, HLK_BUSY, HLK_E_UNSURE, HLK_E_CONNECT), "%s: %s", h->what, hlk_last_error());
    hlk_lock_destroy(lock);
    began = test_now_ms();
    fixture_close(client);
    expect_within(began, 2 * SILENCE_MS, h, "close");
    expect_little_memory(before_kb, h);
    cr_assert(proxy_struck(fixture.proxy), "%s", h->what);
    proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
    proxy_cut_all(fixture.proxy);
}

/* Shows: S28 */
Test(hostile, answers_end_no_deadline)
{
    for (int i = 0; i < HOSTILE; i++)
        expect_deadlines(&hostile[i], PROXY_SCRIPTS);
    raw(fixture.redis, "DEL t");
}

/* Shows: S28 */
Test(hostile, answers_to_a_subscription_end_no_deadline)
{
    hlk_lock *theirs = fixture_held_elsewhere("t", 0);
    for (int i = 0; i < HOSTILE; i++)
        expect_deadlines(&hostile[i], PROXY_SUBSCRIBES);
    cr_assert_eq(hlk_lock_release(theirs), HLK_OK);
}

/* Once: the connection is dropped, and the call is answered on the next one. */
Test(hostile, answer_costs_its_connection_and_no_more)
{
    for (int i = 0; i < HOSTILE; i++) {
        const struct hostile *h = &hostile[i];
        struct hlk_client_opts opts = fault_opts();
        opts.reply_timeout_ms = SILENCE_MS;
        hlk_client *client = fixture_open(&opts);
        hlk_lock *lock = hlk_lock_create(client, "t", NULL);
        proxy_flood(fixture.proxy, PROXY_SCRIPTS, 1, false, h->head, h->body, h->gap_ms);
        int64_t began = test_now_ms();
        cr_assert_eq(hlk_lock_acquire(lock, HLK_FOREVER), HLK_OK, "%s: %s", h->what, hlk_last_error());
        expect_within(began, 10 * SILENCE_MS, h, "acquire");
        cr_assert_eq(hlk_lock_release(lock), HLK_OK, "%s: %s", h->what, hlk_last_error());
        hlk_lock_destroy(lock);
        fixture_close(client);
    }
}

/* Open returns in time, whatever the reply to the greeting. */
/* Shows: S28 */
Test(hostile, answers_to_the_greeting_end_no_deadline)
{
    for (int i = 0; i < HOSTILE; i++) {
        const struct hostile *h = &hostile[i];
        struct hlk_client_opts opts = fault_opts();
        hlk_client *client = NULL;
        opts.reply_timeout_ms = SILENCE_MS;
        opts.reconnect_timeout_ms = 500;
        forget_peak();
        int64_t before_kb = status_kb("VmRSS"), began = test_now_ms();
        proxy_flood(fixture.proxy, PROXY_ALL, 1, true, h->head, h->body, h->gap_ms);
        enum hlk_status status = hlk_client_open(&client, fixture.url, &opts);
        expect_within(began, opts.reconnect_timeout_ms, h, "open");
        cr_assert(ONE_OF(status, HLK_E_CONNECT, HLK_E_SERVER, HLK_E_AUTH), "%s: %s", h->what, hlk_last_error());
        expect_little_memory(before_kb, h);
        proxy_arm(fixture.proxy, PROXY_NONE, PROXY_ALL, 0);
        proxy_cut_all(fixture.proxy);
    }
}
