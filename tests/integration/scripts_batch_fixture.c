#include "scripts_batch_fixture.h"

const char *const locks[LOCKS] = { LOCK, "t2", "t3", "t4" };

const char *queue_of(const char *lock)
{
    static char texts[2 * MOST][48];
    static unsigned next;
    char *text = texts[next++ % (2 * MOST)];
    snprintf(text, sizeof texts[0], "hasplock_queue:{%s}", lock);
    return text;
}

redisReply *run(const struct part *parts, unsigned n)
{
    const char *argv[4 + 4 * MOST] = { "EVAL", hlk_script_table[HLK_SCRIPT_LOCK_BATCH].text, script_number(2 * n) };
    char letters[MOST + 1] = "", channels[MOST][64];
    const char *lease = script_number(LEASE);
    int argc = 3;
    for (unsigned i = 0; i < n; i++) {
        argv[argc++] = parts[i].lock;
        argv[argc++] = queue_of(parts[i].lock);
        letters[i] = parts[i].letter;
        raw_channel(channels[i], sizeof channels[i], parts[i].lock);
    }
    argv[argc++] = letters;
    for (unsigned i = 0; i < n; i++) {
        bool acquires = parts[i].letter == 'a';
        argv[argc++] = acquires ? lease : parts[i].hold;
        argv[argc++] = acquires ? parts[i].hold : channels[i];
    }
    redisReply *reply = redisCommandArgv(user, argc, argv, NULL);
    cr_assert_not_null(reply, "%s", user->errstr);
    return reply;
}

const char *many(const struct part *parts, unsigned n)
{
    redisReply *reply = run(parts, n);
    const char *text = raw_show(reply);
    freeReplyObject(reply);
    return text;
}

const char *one(char letter, const char *hold)
{
    static char texts[4][256];
    static unsigned next;
    char *text = texts[next++ % 4];
    const char *answer = MANY({ letter, LOCK, hold });
    size_t len = strlen(answer);
    cr_assert(len > 2 && answer[0] == '[' && answer[len - 1] == ']', "%s", answer);
    snprintf(text, sizeof texts[0], "%.*s", (int)len - 2, answer + 1);
    return text;
}

struct state look(void)
{
    struct state state;
    size_t len = (size_t)snprintf(state.text, sizeof state.text, "%s", everything());
    for (int i = 0; i < LOCKS; i++) {
        const char *queue = queue_of(locks[i]);
        len += (size_t)snprintf(state.text + len, sizeof state.text - len, "%s; ",
                                raw(admin, "ZRANGE %s 0 -1 WITHSCORES", queue));
        state.ttl[2 * i] = raw_pttl(admin, locks[i]);
        state.ttl[2 * i + 1] = raw_pttl(admin, queue);
    }
    return state;
}

void assert_state(const struct state *expected, const char *what)
{
    struct state now = look();
    cr_assert_str_eq(now.text, expected->text, "%s", what);
    for (int i = 0; i < 2 * LOCKS; i++) {
        int64_t a = now.ttl[i], b = expected->ttl[i];
        cr_assert(a < 0 || b < 0 ? a == b : llabs((long long)(a - b)) < WAIT_MS, "%s: ttl %d is %lld, not %lld", what,
                  i, (long long)a, (long long)b);
    }
}
