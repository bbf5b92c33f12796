/* In a run of lock_batch an acquire or a release does the same as unbatched (lock_acquire, lock_release), or nothing:
 * the same reply, the same state afterwards, the same messages. */
/* Shows: P1 */
#include "integration/scripts_batch_fixture.h"

SCRIPTS_SUITE(lock_many_alike);

/* The same command unbatched. */
static const char *alone(const struct part *part)
{
    const char *queue = queue_of(part->lock);
    char channel[64];
    raw_channel(channel, sizeof channel, part->lock);
    if (part->letter == 'a')
        return script_run(user, HLK_SCRIPT_LOCK_ACQUIRE, 2, part->lock, queue, script_number(LEASE), part->hold, NULL);
    if (part->letter == 'e')
        return script_run(user, HLK_SCRIPT_LOCK_RELEASE, 2, part->lock, queue, part->hold, channel, NULL);
    return script_run(user, HLK_SCRIPT_LOCK_RELEASE, 2, part->lock, queue, part->hold, channel, "0", "600000", NULL);
}

static bool is_alone(const char *answer)
{
    return strcmp(answer, ":-2") == 0;
}

static void assert_answer(const char *expected, const char *answer, const char *what)
{
    char text[256];
    snprintf(text, sizeof text, "%s", answered(expected));
    cr_assert_str_eq(answered(answer), text, "%s", what);
    if (answer[0] == '[')
        cr_assert(llabs((long long)(answered_ttl(answer) - answered_ttl(expected))) < WAIT_MS, "%s", what);
}

/* --- initial states */

static const struct lock_state {
    const char *name, *make;
    bool ends;
    const char *simple;
} lock_states[] = {
    { "free", NULL, false, "aeo" },
    { "own", "HSET %s " A " 1", true, "eo" },
    { "own, twice", "HSET %s " A " 2", true, "eo" },
    { "own without end", "HSET %s " A " 1", false, "eo" },
    { "another's", "HSET %s " B " 1", true, "aeo" },
    { "another's without end", "HSET %s " B " 1", false, "eo" },
    { "a foreign client's", "HSET %s " FOREIGN " 2", true, "aeo" },
    { "no lock, own first", "HSET %s " A " 1 mail x", true, "eo" },
    { "no lock, own last", "HSET %s name bob " A " 1", true, "eo" },
    { "no lock, without end", "HSET %s name bob mail x", false, "eo" },
    { "text", "SET %s text", true, "" },
    { "zset", "ZADD %s 1 " A, false, "" },
};

static const struct queue_state {
    const char *name;
    struct {
        const char *score, *member;
    } in[3];
    const char *other; /* instead: a command */
} queue_states[] = {
    { "none", { { 0 } }, NULL },
    { "waiter", { { "1", TICKET(B) } }, NULL },
    { "own place", { { "1", TICKET(A) } }, NULL },
    { "two waiters", { { "3", TICKET(C) }, { "4", TICKET(B) } }, NULL },
    { "void", { { "2000000000001000", C } }, NULL },
    { "own void", { { "2000000000001000", A } }, NULL },
    { "window of a clock set back", { { "1009000000000000", "open" } }, NULL },
    { "window is over", { { "1000000000001000", "open" } }, NULL },
    { "all of them", { { "1", TICKET(B) }, { "1009000000000000", "open" }, { "2000000000001000", C } }, NULL },
    { "text", { { 0 } }, "SET %s text" },
    { "hash", { { 0 } }, "HSET %s a 1" },
};

enum {
    LOCK_STATES = sizeof lock_states / sizeof *lock_states,
    QUEUE_STATES = sizeof queue_states / sizeof *queue_states
};

static void make(const char *lock, const struct lock_state *as, const struct queue_state *line)
{
    const char *queue = queue_of(lock);
    if (as->make)
        raw(admin, as->make, lock);
    if (as->ends)
        raw(admin, "PEXPIRE %s %d", lock, TTL);
    if (line->other)
        raw(admin, line->other, queue);
    for (int i = 0; i < 3 && line->in[i].score; i++)
        raw(admin, "ZADD %s %s %s", queue, line->in[i].score, line->in[i].member);
    raw(admin, "PEXPIRE %s %d", queue, QUEUE_TTL);
}

static const char *just(char letter, const struct lock_state *as, const struct queue_state *line)
{
    static char text[160];
    raw(admin, "FLUSHALL");
    make(LOCK, as, line);
    snprintf(text, sizeof text, "'%c', lock: %s, queue: %s", letter, as->name, line->name);
    return text;
}

/* The commands that are batchable in this state. */
static bool is_simple(char letter, const struct lock_state *as, const struct queue_state *line, bool heard)
{
    return line == queue_states && strchr(as->simple, letter) && !(letter == 'o' && heard);
}

static void by_itself_and_in_a_run(char letter, const struct lock_state *as, const struct queue_state *line, bool heard)
{
    char expected[256], heard_then[4096];
    const char *what = just(letter, as, line);
    struct state before = look();
    snprintf(expected, sizeof expected, "%s", alone(&(struct part){ letter, LOCK, A }));
    struct state then = look();
    snprintf(heard_then, sizeof heard_then, "%s", heard ? said() : "");

    what = just(letter, as, line);
    const char *answer = one(letter, A);
    cr_assert_eq(!is_alone(answer), is_simple(letter, as, line, heard), "%s: %s", what, answer);
    if (is_alone(answer)) {
        assert_state(&before, what);
        cr_assert(!heard || strcmp(said(), "|||") == 0, "%s", what);
        return;
    }
    assert_answer(expected, answer, what);
    assert_state(&then, what);
    cr_assert(!heard || strcmp(said(), heard_then) == 0, "%s", what);
}

static void all_by_itself_and_in_a_run(bool heard)
{
    for (int i = 0; i < LOCK_STATES; i++)
        for (int k = 0; k < QUEUE_STATES; k++)
            for (const char *letter = "aeo"; *letter; letter++)
                by_itself_and_in_a_run(*letter, &lock_states[i], &queue_states[k], heard);
}

Test(lock_many_alike, is_what_it_is_by_itself_or_changes_nothing)
{
    all_by_itself_and_in_a_run(false);
}

Test(lock_many_alike, is_as_by_itself_or_changes_nothing_if_all_listen)
{
    all_listen();
    all_by_itself_and_in_a_run(true);
    nobody_listens();
}

static unsigned dice(unsigned sides)
{
    static uint32_t seed = 7;
    seed = seed * 1664525 + 1013904223;
    return (seed >> 16) % sides;
}

/* The commands of a batch that were done, run unbatched one after the other from the same initial state. */
static void assert_one_after_the_other(const struct part *parts, unsigned n, const redisReply *reply, unsigned *done)
{
    cr_assert_eq(reply->elements, n, "%s", raw_show(reply));
    for (unsigned i = 0; i < n; i++) {
        char answer[256], what[64];
        snprintf(answer, sizeof answer, "%s", raw_show(reply->element[i]));
        snprintf(what, sizeof what, "%u: %c %s", i, parts[i].letter, parts[i].lock);
        if (is_alone(answer))
            continue;
        assert_answer(alone(&parts[i]), answer, what);
        done[(unsigned char)parts[i].letter]++;
    }
}

Test(lock_many_alike, of_any_several_does_them_one_after_the_other)
{
    redisContext *first = subscribe(CHANNEL), *second = subscribe("redisson_lock__channel:{t2}");
    unsigned done[256] = { 0 };
    for (int round = 0; round < 150; round++) {
        struct part parts[MOST];
        unsigned n = 1 + dice(MOST), as[LOCKS], line[LOCKS];
        char what[32], messages[2048];
        snprintf(what, sizeof what, "round %d", round);
        for (unsigned i = 0; i < n; i++)
            parts[i] = (struct part){ "aeo"[dice(3)], locks[dice(LOCKS)], dice(2) ? A : B };
        for (int i = 0; i < LOCKS; i++) {
            as[i] = dice(2) ? dice(LOCK_STATES) : 0;
            line[i] = dice(4) ? 0 : dice(QUEUE_STATES);
        }
        raw(admin, "FLUSHALL");
        for (int i = 0; i < LOCKS; i++)
            make(locks[i], &lock_states[as[i]], &queue_states[line[i]]);
        redisReply *reply = run(parts, n);
        struct state then = look();
        snprintf(messages, sizeof messages, "%s|%s", published(first), published(second));
        raw(admin, "FLUSHALL");
        for (int i = 0; i < LOCKS; i++)
            make(locks[i], &lock_states[as[i]], &queue_states[line[i]]);
        assert_one_after_the_other(parts, n, reply, done);
        assert_state(&then, what);
        const char *to_first = published(first), *to_second = published(second);
        cr_assert_eq(strncmp(messages, to_first, strlen(to_first)), 0, "%s", what);
        cr_assert_str_eq(messages + strlen(to_first) + 1, to_second, "%s", what);
        freeReplyObject(reply);
    }
    cr_assert(done['a'] > 50 && done['e'] > 50 && done['o'] > 50);
    redisFree(first);
    redisFree(second);
}
