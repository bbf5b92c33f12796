#include "torture/torture.h"

#include "support/acl.h"
#include "support/wait.h"

#include <criterion/criterion.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct server *torture_server;
redisContext *torture_admin;

static redisContext *user, *inboxes, *java;

/* --- the server */

void torture_start(void)
{
    torture_server = server_start(0, NULL);
    torture_admin = raw_open(torture_server);
    user = torture_server->acl ? raw_open_as(torture_server, ACL_USER, ACL_PASSWORD) : raw_open(torture_server);
    inboxes = raw_open(torture_server);
    raw(inboxes, "SUBSCRIBE " ME_INBOX);
    raw(inboxes, "SUBSCRIBE " OTHER_INBOX);
}

void torture_stop(void)
{
    redisFree(java);
    redisFree(inboxes);
    redisFree(user);
    redisFree(torture_admin);
    java = NULL;
    server_stop(torture_server);
}

void torture_subscribe_java(bool subscribes)
{
    static const char *const channels[] = { CHANNEL, RW_CHANNEL, SC_CHANNEL, LATCH_CHANNEL, CHANNEL ":" JAVA };
    redisFree(java);
    java = NULL;
    if (!subscribes)
        WAIT_FOR(strstr(raw(torture_admin, "PUBSUB NUMSUB " RW_CHANNEL), ":0]"));
    for (size_t i = 0; subscribes && i < sizeof channels / sizeof *channels; i++) {
        java = java ? java : raw_open(torture_server);
        raw(java, "SUBSCRIBE %s", channels[i]);
    }
}

/* Messages are of no interest here, and would fill the buffers. */
static void read_messages(redisContext *listener)
{
    if (listener)
        redisAppendCommand(listener, "PING");
    for (bool more = listener != NULL; more;) {
        redisReply *reply = NULL;
        if (redisGetReply(listener, (void **)&reply) != REDIS_OK)
            test_give_up("a listener's connection: %s", listener->errstr);
        more = reply->elements == 3;
        freeReplyObject(reply);
    }
}

/* --- texts of the table */

enum { WORDS = 16, WORD_SIZE = 256 };

struct words {
    char texts[WORDS][WORD_SIZE];
    const char *argv[WORDS];
    int n;
};

static int64_t now_ms(void) /* the server is on this host */
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* "$1e15+500": see table.h */
static void expand(char out[WORD_SIZE], const char *word, size_t len, int64_t now)
{
    char copy[WORD_SIZE], *rest;
    snprintf(copy, sizeof copy, "%.*s", (int)len, word);
    if (copy[0] != '$') {
        snprintf(out, WORD_SIZE, "%s", copy);
        return;
    }
    bool hundredths = copy[1] == '$';
    double base = strtod(copy + (hundredths ? 2 : 1), &rest);
    base += strtod(rest, NULL) + (double)now * (hundredths ? 100 : 1);
    snprintf(out, WORD_SIZE, "%.0f", base);
}

/* The words of `text` up to its end or a ';'. Returns what follows. An empty text has no word. */
static const char *split(struct words *words, const char *text, int64_t now)
{
    words->n = 0;
    while (*text && *text != ';') {
        size_t len = strcspn(text, "|;");
        if (words->n == WORDS)
            test_give_up("too many words: %s", text);
        expand(words->texts[words->n], text, len, now);
        words->argv[words->n] = words->texts[words->n];
        words->n++;
        text += len;
        if (*text == '|' && (text[1] == '\0' || text[1] == ';')) /* the last word is empty */
            words->argv[words->n++] = "";
        text += *text == '|';
    }
    return *text == ';' ? text + 1 : text;
}

/* --- states */

static int append_dead(const struct torture_family *family, int n)
{
    char member[WORD_SIZE];
    bool list = strcmp(family->dead_at, FAIR_QUEUE) == 0;
    for (int i = 1; i <= n; i++) {
        snprintf(member, sizeof member, family->dead, i);
        redisAppendCommand(torture_admin, list ? "RPUSH %s %s" : "ZADD %s 1 %s", family->dead_at, member);
        if (list)
            redisAppendCommand(torture_admin, "ZADD " FAIR_SCORES " 1 %s", member);
    }
    redisAppendCommand(torture_admin, "PEXPIRE %s 300000", family->dead_at);
    if (list)
        redisAppendCommand(torture_admin, "PEXPIRE " FAIR_SCORES " 300000");
    return list ? 2 * n + 2 : n + 1;
}

static redisReply *read_reply(void)
{
    redisReply *reply = NULL;
    if (redisGetReply(torture_admin, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR)
        test_give_up("a state: %s", reply ? reply->str : torture_admin->errstr);
    return reply;
}

static int append_all(const struct torture_family *family, const char *commands, int64_t ahead_ms)
{
    int64_t now = now_ms() + ahead_ms;
    int sent = 0;
    while (*commands) {
        struct words words;
        commands = split(&words, commands, now);
        if (strcmp(words.argv[0], "DEAD") == 0)
            sent += append_dead(family, atoi(words.argv[1]));
        else
            sent += redisAppendCommandArgv(torture_admin, words.n, words.argv, NULL) == REDIS_OK;
    }
    return sent;
}

void torture_commands(const struct torture_family *family, const char *commands, int64_t ahead_ms)
{
    for (int n = append_all(family, commands, ahead_ms); n > 0; n--)
        freeReplyObject(read_reply());
}

void torture_build(const struct torture_case *at, int64_t ahead_ms)
{
    redisAppendCommand(torture_admin, "FLUSHALL ASYNC");
    for (int n = 1 + append_all(at->family, at->state->commands, ahead_ms); n > 0; n--)
        freeReplyObject(read_reply());
}

void torture_for_states(const struct torture_family *family, const struct torture_state *states, const char *how,
                        void (*each)(const struct torture_case *at))
{
    for (const struct torture_state *state = states; state->name; state++)
        for (const struct torture_row *row = family->rows; row->what; row++) {
            struct torture_case at = { family, state, row, how };
            each(&at);
        }
}

void torture_for_all(const struct torture_family *family, const char *how, void (*each)(const struct torture_case *at))
{
    torture_for_states(family, family->states, how, each);
}

/* --- a run */

/* All keys; read_reply has them. Thousands of runs: what belongs together is sent together. */
static void append_look(void)
{
    static const char all[] = "local keys, all = redis.call('keys', '*'), {} table.sort(keys) "
                              "for i, key in ipairs(keys) do "
                              "all[i] = { key, redis.call('dump', key), redis.call('pttl', key) } end return all";
    redisAppendCommand(torture_admin, "EVAL %s 0", all);
}

/* Of INFO commandstats: commands since CONFIG RESETSTAT, those that were refused included. */
static int64_t count_commands(void)
{
    int64_t n = 0;
    redisReply *stats = read_reply();
    for (const char *at = stats->str; (at = strstr(at, "cmdstat_")) != NULL; at++) {
        const char *calls = strstr(at, "calls="), *refused = strstr(at, "rejected_calls="), *end = strchr(at, '\n');
        if (strncmp(at, "cmdstat_config", 14) == 0 || strncmp(at, "cmdstat_eval", 12) == 0)
            continue;
        n += strtoll(calls + 6, NULL, 10);
        n += refused && (!end || refused < end) ? strtoll(refused + 15, NULL, 10) : 0;
    }
    freeReplyObject(stats);
    return n;
}

static void expect_end(const struct torture_case *at, const redisReply *reply)
{
    if (reply)
        return;
    server_kill(torture_server);
    cr_assert(false, "%s (%s), %s, %s: does not end: %s", hlk_script_table[at->row->script].name, at->row->what,
              at->state->name, at->how, user->errstr);
}

/* Redis 6 writes where in the script an error came up, once or twice, before the error itself. */
static void unwrap(char *answer)
{
    static const char wrapped[] = "-ERR Error running script", place[] = "@user_script:";
    const char *error = NULL;
    if (strncmp(answer, wrapped, strlen(wrapped)) != 0)
        return;
    for (const char *at = answer; (at = strstr(at, place)) != NULL;)
        error = at += strlen(place);
    if (!error)
        return;
    error += strspn(error, " 0123456789:-");
    memmove(answer + 1, error, strlen(error) + 1);
}

void torture_run(const struct torture_case *at, struct torture_run *run)
{
    const struct hlk_script_text *script = &hlk_script_table[at->row->script];
    const char *argv[3 + 2 * WORDS] = { "EVAL", script->text };
    char keys_text[8];
    struct words keys, args;
    split(&keys, at->row->keys, 0);
    split(&args, at->row->args, 0);
    snprintf(keys_text, sizeof keys_text, "%d", keys.n);
    argv[2] = keys_text;
    memcpy(argv + 3, keys.argv, (size_t)keys.n * sizeof *argv);
    memcpy(argv + 3 + keys.n, args.argv, (size_t)args.n * sizeof *argv);
    append_look();
    redisAppendCommand(torture_admin, "CONFIG RESETSTAT");
    run->before = read_reply();
    freeReplyObject(read_reply());
    redisReply *reply = redisCommandArgv(user, 3 + keys.n + args.n, argv, NULL);
    expect_end(at, reply);
    redisAppendCommand(torture_admin, "INFO commandstats");
    append_look();
    run->commands = count_commands();
    run->after = read_reply();
    snprintf(run->answer, sizeof run->answer, "%s", raw_show(reply));
    unwrap(run->answer);
    freeReplyObject(reply);
    read_messages(inboxes);
    read_messages(java);
}

void torture_free(struct torture_run *run)
{
    freeReplyObject(run->before);
    freeReplyObject(run->after);
}

/* --- what it changed */

static const redisReply *find(const redisReply *all, const char *key)
{
    for (size_t i = 0; i < all->elements; i++)
        if (strcmp(all->element[i]->element[0]->str, key) == 0)
            return all->element[i];
    return NULL;
}

static bool has_ttl(const redisReply *key)
{
    return key->element[2]->integer >= 0;
}

static bool same(const redisReply *a, const redisReply *b)
{
    const redisReply *dump_a = a->element[1], *dump_b = b->element[1];
    return dump_a->len == dump_b->len && memcmp(dump_a->str, dump_b->str, dump_a->len) == 0 && has_ttl(a) == has_ttl(b);
}

bool torture_kept(const struct torture_run *run, const char *key)
{
    const redisReply *before = find(run->before, key), *after = find(run->after, key);
    return !before && !after ? true : before && after && same(before, after);
}

/* Nothing is changed, but dead waiters may have been removed. */
static bool kept_all(const struct torture_case *at, const struct torture_run *run)
{
    const char *cleaned = strstr(at->state->commands, "DEAD|") ? at->family->dead_at : "";
    bool kept = run->before->elements == run->after->elements;
    for (size_t i = 0; kept && i < run->before->elements; i++) {
        const char *key = run->before->element[i]->element[0]->str;
        kept = torture_kept(run, key) || strcmp(key, cleaned) == 0;
    }
    return kept;
}

/* --- what is expected of it */

void torture_expect(bool ok, const struct torture_case *at, const struct torture_run *run, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cr_expect(ok, "%s (%s), %s, %s: %s; answer %.300s", hlk_script_table[at->row->script].name, at->row->what,
              at->state->name, at->how, text, run->answer);
}

bool torture_matches(const char *text, const char *pattern)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        test_give_up("no regular expression: %s", pattern);
    bool found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

void torture_expect_answer(const struct torture_case *at, const struct torture_run *run, const char *errors)
{
    char pattern[512];
    snprintf(pattern, sizeof pattern, "^(%s)$|^-(%s)", at->row->answers, errors);
    torture_expect(torture_matches(run->answer, pattern), at, run, "not as the head says");
    torture_expect(run->answer[0] != '-' || kept_all(at, run), at, run, "an error reply, and something is changed");
}

void torture_expect_unchanged(const struct torture_case *at, const struct torture_run *run)
{
    torture_expect(kept_all(at, run), at, run, "something is changed");
}

void torture_expect_bounded(const struct torture_case *at, const struct torture_run *run)
{
    const char *dead = strstr(at->state->commands, "DEAD|");
    int64_t most = 60 + 5 * (dead ? atoi(dead + 5) : 0);
    torture_expect(run->commands <= most, at, run, "%lld commands", (long long)run->commands);
}

/* `key` is one of the words of `list`. */
static bool is_in(const char *list, const char *key)
{
    size_t len = strlen(key);
    for (const char *at = list; (at = strstr(at, key)) != NULL; at++)
        if ((at == list || at[-1] == '|') && (at[len] == '\0' || at[len] == '|'))
            return true;
    return false;
}

void torture_expect_ttls(const struct torture_case *at, const struct torture_run *run)
{
    for (size_t i = 0; i < run->after->elements; i++) {
        const redisReply *key = run->after->element[i];
        const char *name = key->element[0]->str;
        const redisReply *before = find(run->before, name);
        bool persists = at->family->persisting_use && strcmp(at->family->persisting_use, at->row->what) == 0;
        bool may_lose = persists || is_in(at->family->may_lose_ttl, name);
        bool may_lack = before ? !has_ttl(before) || may_lose : is_in(at->family->may_lack_ttl, name);
        torture_expect(has_ttl(key) || may_lack, at, run, "%s has no ttl", name);
    }
}

void torture_expect_no_ticket(const struct torture_case *at, const struct torture_run *run)
{
    const char *name = hlk_script_table[at->row->script].name;
    bool acquires = strlen(name) > 8 && strcmp(name + strlen(name) - 8, "_acquire") == 0;
    if (!at->family->dead_at || !acquires || !torture_matches(run->answer, "^(\\[:[0-9]+, )?\"" ME "\"\\]?$"))
        return;
    struct words args;
    split(&args, at->row->args, 0);
    bool list = strcmp(at->family->dead_at, FAIR_QUEUE) == 0;
    for (int i = 0; i < args.n; i++)
        if (strncmp(args.argv[i], ME " ", strlen(ME " ")) == 0 || (list && strcmp(args.argv[i], ME) == 0)) {
            const char *left =
                raw(torture_admin, list ? "LPOS %s %s" : "ZSCORE %s %s", at->family->dead_at, args.argv[i]);
            torture_expect(strcmp(left, "(nil)") == 0, at, run, "it has its ticket still: %s", left);
        }
}

void torture_expect_sound(const struct torture_case *at, const struct torture_run *run)
{
    if (!at->family->unsound[0])
        return;
    const char *wrong = raw(torture_admin, "EVAL %s 0", at->family->unsound);
    torture_expect(strcmp(wrong, "(nil)") == 0, at, run, "%s", wrong);
}
