#include "diagnose/rights.h"

#include "base/debug.h"
#include "script/keys.h"

#include <stdio.h>
#include <string.h>

/* --- commands of the scripts. `lua` changes nothing: it finds nothing to change, or fails after its right was looked
 * at. rpush cannot fail: it is the last, the script removes what it has made, and without a right to do that it counts
 * as refused. */

static const struct {
    enum hlk_need need;
    const char *name, *lua;
} commands[] = {
    { HLK_NEED_LOCK, "exists", "'exists',key" },
    { HLK_NEED_LOCK, "hexists", "'hexists',key,'x'" },
    { HLK_NEED_LOCK, "hkeys", "'hkeys',key" },
    { HLK_NEED_LOCK, "hgetall", "'hgetall',key" },
    { HLK_NEED_LOCK, "hset", "'hset',key,'x',1,'y'" },
    { HLK_NEED_LOCK, "hdel", "'hdel',key,'x'" },
    { HLK_NEED_LOCK, "del", "'del',key" },
    { HLK_NEED_LOCK, "pttl", "'pttl',key" },
    { HLK_NEED_LOCK, "pexpire", "'pexpire',key,1" },
    { HLK_NEED_LOCK, "zscore", "'zscore',key,'x'" },
    { HLK_NEED_LOCK, "zadd", "'zadd',key,'xx',0,'x'" },
    { HLK_NEED_LOCK, "zrem", "'zrem',key,'x'" },
    { HLK_NEED_LOCK, "zremrangebyscore", "'zremrangebyscore',key,0,0" },
    { HLK_NEED_LOCK, "zrangebyscore", "'zrangebyscore',key,1,2" },
    { HLK_NEED_LOCK, "zrange", "'zrange',key,0,0" },
    { HLK_NEED_LOCK, "zrevrank", "'zrevrank',key,'x'" },
    { HLK_NEED_LOCK, "zrevrangebyscore", "'zrevrangebyscore',key,2,1" },
    { HLK_NEED_LOCK, "zcount", "'zcount',key,1,2" },
    { HLK_NEED_LOCK, "zrank", "'zrank',key,'x'" },
    { HLK_NEED_LOCK, "zmscore", "'zmscore',key,'x'" },
    { HLK_NEED_LOCK, "zpopmin", "'zpopmin',key" },
    { HLK_NEED_LOCK, "time", "'time'" },
    { HLK_NEED_PUBSUB, "pubsub|numsub", "'pubsub','numsub'" },
    { HLK_NEED_PUBSUB, "publish", "'publish',key,''" },
    { HLK_NEED_FENCED, "get", "'get',key" },
    { HLK_NEED_FENCED, "set", "'set',key,'x','x'" },
    { HLK_NEED_FENCED, "incrby", "'incrby',key,'x'" },
    { HLK_NEED_STRING, "get", "'get',key" },
    { HLK_NEED_STRING, "set", "'set',key,'x','x'" },
    { HLK_NEED_STRING, "getrange", "'getrange',key,0,0" },
    { HLK_NEED_LIST, "type", "'type',key" },
    { HLK_NEED_LIST, "hlen", "'hlen',key" },
    { HLK_NEED_LIST, "getrange", "'getrange',key,0,0" },
    { HLK_NEED_RW, "hget", "'hget',key,'x'" },
    { HLK_NEED_RW, "hlen", "'hlen',key" },
    { HLK_NEED_RW, "hrandfield", "'hrandfield',key" },
    { HLK_NEED_BARRIER, "hget", "'hget',key,'x'" },
    { HLK_NEED_BARRIER, "hmget", "'hmget',key,'x'" },
    { HLK_NEED_BARRIER, "hlen", "'hlen',key" },
    { HLK_NEED_BARRIER, "hrandfield", "'hrandfield',key" },
    { HLK_NEED_BARRIER, "zcard", "'zcard',key" },
    { HLK_NEED_CONDITION, "zcard", "'zcard',key" },
    { HLK_NEED_NOTE, "get", "'get',key" },
    { HLK_NEED_NOTE, "set", "'set',key,'x','x'" },
    { HLK_NEED_CLUSTER, "spublish", "'spublish',key,''" },
    { HLK_NEED_CLUSTER, "pubsub|shardnumsub", "'pubsub','shardnumsub'" },
    { HLK_NEED_FAIR, "lindex", "'lindex',key,0" },
    { HLK_NEED_FAIR, "llen", "'llen',key" },
    { HLK_NEED_FAIR, "lpop", "'lpop',key" },
    { HLK_NEED_FAIR, "lpos", "'lpos',key,'x'" },
    { HLK_NEED_FAIR, "lrange", "'lrange',key,0,0" },
    { HLK_NEED_FAIR, "lrem", "'lrem',key,0,'x'" },
    { HLK_NEED_FAIR, "persist", "'persist',key" },
    { HLK_NEED_FAIR, "rpush", "'rpush',key,'x'" },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* --- commands of a connection */

static const struct {
    enum hlk_need need;
    enum hlk_ask ask;
    const char *name;
} direct[] = {
    { HLK_NEED_LOCK, HLK_ASK_EVALSHA, "evalsha" },
    { HLK_NEED_LOCK, HLK_ASK_RIGHTS, "eval" },
    { HLK_NEED_LOCK, HLK_ASK_PING, "ping" },
    { HLK_NEED_LOCK, HLK_ASK_SELECT, "select" },
    { HLK_NEED_LOCK, HLK_ASK_INFO, "info" },
    { HLK_NEED_PUBSUB, HLK_ASK_INBOX, "subscribe" },
    { HLK_NEED_PUBSUB, HLK_ASK_UNSUBSCRIBE, "unsubscribe" },
    { HLK_NEED_LIST, HLK_ASK_SCAN, "scan" },
    { HLK_NEED_REPLICAS, HLK_ASK_WAIT, "wait" },
    { HLK_NEED_CLUSTER, HLK_ASK_ASKING, "asking" },
    { HLK_NEED_CLUSTER, HLK_ASK_SLOTS, "cluster|slots" },
    { HLK_NEED_CLUSTER, HLK_ASK_CLUSTER, "cluster|info" },
    { HLK_NEED_CLUSTER, HLK_ASK_SHARD_INBOX, "ssubscribe" },
    { HLK_NEED_CLUSTER, HLK_ASK_SHARD_UNSUBSCRIBE, "sunsubscribe" },
};

/* --- keys and channels: the beginnings of their names, and of those of a lock that has a brace in its name */

enum place {
    LOCK,
    QUEUE,
    TOKEN,
    FAIR,
    FAIR_QUEUE,
    FAIR_SCORES,
    CHANNEL,
    INBOX,
    RW_LEASES,
    RW_QUEUE,
    RW_CHANNEL,
    LATCH_CHANNEL,
    SEMAPHORE_CHANNEL,
    PERMIT_LEASES,
    BARRIER,
    ARRIVED,
    BARRIER_CHANNEL,
    CONDITION,
    CONDITION_LEASES,
    CONDITION_CHANNEL,
    NOTE,
    PLACES
};
_Static_assert(2 * PLACES <= HLK_PROBED_PLACES_MAX, "the probe has room for all of them");

static size_t key_lock(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    memcpy(out, name, len + 1);
    return len;
}

static size_t key_condition(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_condition", name, len);
}

static size_t key_condition_leases(char out[HLK_KEY_MAX], const char *name, size_t len)
{
    return hlk_key_own(out, "hasplock_condition_leases", name, len);
}

/* How a place is tried: a key; a channel, to which one subscribes too; a channel that is only published to. */
enum place_type { KEY = 'k', SUBSCRIBED = 'c', PUBLISHED = 'p' };

static const struct {
    enum hlk_need need;
    const char *begin, *brace_begin; /* NULL: covered by the first one */
    hlk_key_fn *key;
    enum place_type type;
} places[PLACES] = {
    [LOCK] = { HLK_NEED_LOCK, "", NULL, key_lock, KEY },
    [QUEUE] = { HLK_NEED_LOCK, "hasplock_queue:{", "hasplock_queue::", hlk_key_queue, KEY },
    [TOKEN] = { HLK_NEED_FENCED, "redisson_lock_token:{", "redisson_lock_token:", hlk_key_token, KEY },
    [FAIR] = { HLK_NEED_FAIR, "hasplock_fair:{", "hasplock_fair:", hlk_key_fair, KEY },
    [FAIR_QUEUE] = { HLK_NEED_FAIR, "redisson_lock_queue:{", "redisson_lock_queue:", hlk_key_fair_queue, KEY },
    [FAIR_SCORES] = { HLK_NEED_FAIR, "redisson_lock_timeout:{", "redisson_lock_timeout:", hlk_key_fair_scores, KEY },
    [CHANNEL] = { HLK_NEED_PUBSUB, "redisson_lock__channel:{", "redisson_lock__channel:", hlk_key_channel, SUBSCRIBED },
    [INBOX] = { HLK_NEED_PUBSUB, "hasplock_inbox:", NULL, NULL, SUBSCRIBED },
    [RW_LEASES] = { HLK_NEED_RW, "{", NULL, hlk_key_tag, KEY },
    [RW_QUEUE] = { HLK_NEED_RW, "hasplock_rwlock:{", "hasplock_rwlock::", hlk_key_rw_queue, KEY },
    [RW_CHANNEL] = { HLK_NEED_RW, "redisson_rwlock:{", "redisson_rwlock:", hlk_key_rw_channel, PUBLISHED },
    [LATCH_CHANNEL] = { HLK_NEED_LATCH, "redisson_countdownlatch__channel__{", "redisson_countdownlatch__channel__",
                        hlk_key_latch_in_slot, PUBLISHED },
    [SEMAPHORE_CHANNEL] = { HLK_NEED_SEMAPHORE, "redisson_sc:{", "redisson_sc:", hlk_key_semaphore_channel, PUBLISHED },
    [PERMIT_LEASES] = { HLK_NEED_PERMIT, "{", NULL, hlk_key_leases, KEY },
    [BARRIER] = { HLK_NEED_BARRIER, "hasplock_barrier:{", "hasplock_barrier::", hlk_key_barrier, KEY },
    [ARRIVED] = { HLK_NEED_BARRIER, "hasplock_arrived:{", "hasplock_arrived::", hlk_key_arrived, KEY },
    [BARRIER_CHANNEL] = { HLK_NEED_BARRIER, "hasplock_barrier:{", "hasplock_barrier::", hlk_key_barrier, PUBLISHED },
    [CONDITION] = { HLK_NEED_CONDITION, "hasplock_condition:{", "hasplock_condition::", key_condition, KEY },
    [CONDITION_LEASES] = { HLK_NEED_CONDITION, "hasplock_condition_leases:{",
                           "hasplock_condition_leases::", key_condition_leases, KEY },
    [CONDITION_CHANNEL] = { HLK_NEED_CONDITION, "hasplock_condition:{", "hasplock_condition::", key_condition,
                            PUBLISHED },
    [NOTE] = { HLK_NEED_NOTE, "hasplock_note:{", "hasplock_note::", hlk_key_note, KEY },
};

#define REFUSED_PLACE 100 /* of the probe's answer: place and this, or with a brace in the name and twice this */

static size_t sample_name(char *name, size_t size, const char *prefix, const char *id, bool brace)
{
    return (size_t)snprintf(name, size, brace ? "%s{%s}" : "%s%s", prefix, id);
}

static void sample_key(char *key, size_t size, enum place place, const char *prefix, const char *id, bool brace)
{
    HLK_DEBUG_ASSERT(place < PLACES && id);
    char name[HLK_NAME_MAX], whole[HLK_KEY_MAX];
    size_t len = sample_name(name, sizeof name, prefix, id, brace);
    len = place == INBOX ? hlk_key_inbox(whole, id) : places[place].key(whole, name, len);
    (void)snprintf(key, size, "%.*s", (int)len, whole); /* a key of keys.h has a length, and no 0 behind it */
}

/* A prefix with a brace makes every name one with a brace. */
static bool has_place(enum place place, const char *prefix, bool brace)
{
    if (brace)
        return places[place].brace_begin != NULL;
    return places[place].brace_begin == NULL || !strchr(prefix, '{');
}

/* --- the probe */

static const char script_head[] =
    "local key=ARGV[1] local out={}\n"
    "local function refused(...)\n"
    "  local answer=redis.pcall(...)\n"
    "  local text=type(answer)=='table' and answer.err\n"
    "  if not text then return nil end\n"
    "  local function says(words) return string.find(text,words,1,true) end\n"
    "  if says('run this command') or says('permissions to run the') then return 'command' end\n"
    "  if says(\"can't access\") or says(\"can't publish\") or says('permissions to access') then return 'access' end\n"
    "end\n"
    "local no={}\n"
    "for i,try in ipairs({";

/* A place is read and written: a pattern may allow one of them. One that no command can try, because the user may run
 * none of them, counts as refused; but one to which the examination subscribes. */
static const char script_tail[] =
    "}) do\n"
    "  if try[1]=='rpush' and no.del and no.lpop then no.rpush=true\n"
    "  else no[try[1]]=refused(unpack(try))=='command' end\n"
    "  if no[try[1]] then out[#out+1]=i end\n"
    "end\n"
    "redis.pcall(no.del and 'lpop' or 'del',key)\n"
    "for i=2,#ARGV,2 do\n"
    "  local where=ARGV[i+1]\n"
    "  local what=string.sub(ARGV[i],1,1)\n"
    "  local tries=what=='k' and {{'exists',where},{'del',where}} or {{'publish',where,''}}\n"
    "  local tried,access=what=='c',false\n"
    "  for _,try in ipairs(tries) do\n"
    "    local by=refused(unpack(try))\n"
    "    tried=tried or by~='command'\n"
    "    access=access or by=='access'\n"
    "  end\n"
    "  if access or not tried then out[#out+1]=tonumber(string.sub(ARGV[i],2)) end\n"
    "end\n"
    "return out\n";

static void add_argument(struct hlk_rights_probe *probe, const char *argument)
{
    HLK_DEBUG_ASSERT((size_t)probe->argc < sizeof probe->argv / sizeof *probe->argv);
    probe->argv[probe->argc++] = argument;
}

void hlk_rights_probe(struct hlk_rights_probe *probe, const char *prefix, const char *id)
{
    HLK_DEBUG_ASSERT(prefix && id);
    struct hlk_text text;
    int n = 0;
    hlk_text_init(&text, probe->script, sizeof probe->script);
    hlk_text_add(&text, "%s", script_head);
    for (size_t i = 0; i < COMMANDS; i++)
        hlk_text_add(&text, "{%s},", commands[i].lua);
    hlk_text_add(&text, "%s", script_tail);
    probe->argc = 0;
    add_argument(probe, "EVAL");
    add_argument(probe, probe->script);
    add_argument(probe, "0");
    (void)snprintf(probe->keys[n], sizeof probe->keys[n], "hasplock_probe:{%s}", id);
    add_argument(probe, probe->keys[n++]);
    for (int brace = 0; brace < 2; brace++)
        for (int place = 0; place < PLACES; place++)
            if (has_place((enum place)place, prefix, brace)) {
                char *number = probe->ids[n - 1];
                sample_key(probe->keys[n], sizeof probe->keys[n], (enum place)place, prefix, id, brace);
                (void)snprintf(number, sizeof probe->ids[0], "%c%d", (int)places[place].type,
                               (brace + 1) * REFUSED_PLACE + place);
                add_argument(probe, number);
                add_argument(probe, probe->keys[n++]);
            }
}

const char *hlk_rights_channel(char *channel, size_t size, enum hlk_ask ask, const char *prefix, const char *id)
{
    HLK_DEBUG_ASSERT(ask < HLK_ASK_COUNT && size > 0);
    static const struct {
        const char *command;
        enum place place;
        bool brace;
    } of[HLK_ASK_COUNT] = { [HLK_ASK_INBOX] = { "SUBSCRIBE", INBOX, false },
                            [HLK_ASK_UNSUBSCRIBE] = { "UNSUBSCRIBE", INBOX, false },
                            [HLK_ASK_CHANNEL] = { "SUBSCRIBE", CHANNEL, false },
                            [HLK_ASK_CHANNEL_END] = { "UNSUBSCRIBE", CHANNEL, false },
                            [HLK_ASK_BRACE_CHANNEL] = { "SUBSCRIBE", CHANNEL, true },
                            [HLK_ASK_BRACE_CHANNEL_END] = { "UNSUBSCRIBE", CHANNEL, true },
                            [HLK_ASK_SHARD_INBOX] = { "SSUBSCRIBE", INBOX, false },
                            [HLK_ASK_SHARD_UNSUBSCRIBE] = { "SUNSUBSCRIBE", INBOX, false } };
    if (of[ask].command)
        sample_key(channel, size, of[ask].place, prefix, id, of[ask].brace);
    return of[ask].command;
}

/* --- what the answers say */

static bool is_listed(const redisReply *reply, long long n)
{
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_INTEGER && reply->element[i]->integer == n)
            return true;
    return false;
}

static bool is_command_refused(const struct hlk_answers *answers, const char *name)
{
    if (hlk_answers_refused(answers, HLK_ASK_RIGHTS))
        return true;
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return is_listed(answers->reply[HLK_ASK_RIGHTS], (long long)i + 1);
    return false;
}

/* A key is tried in the probe; a channel by PUBLISH there, and of plain locks by SUBSCRIBE. What could not be tried
 * counts as refused. */
static bool is_refused(const struct hlk_answers *answers, enum place place, bool brace)
{
    HLK_DEBUG_ASSERT(place < PLACES);
    bool subscribed = places[place].type == SUBSCRIBED;
    enum hlk_ask ask = place == INBOX ? HLK_ASK_INBOX : brace ? HLK_ASK_BRACE_CHANNEL : HLK_ASK_CHANNEL;
    if (is_listed(answers->reply[HLK_ASK_RIGHTS], (brace + 1) * REFUSED_PLACE + (int)place))
        return true;
    if (!subscribed)
        return hlk_answers_refused(answers, HLK_ASK_RIGHTS);
    return hlk_answers_refused(answers, ask) &&
           (!hlk_answers_refused_command(answers, ask) || is_command_refused(answers, "publish"));
}

/* As a glob, and as a word that redis-cli does not split: what is special to the one is escaped, to the other "?". */
static void add_glob(struct hlk_text *line, const char *prefix)
{
    for (; *prefix; prefix++) {
        unsigned char c = (unsigned char)*prefix;
        if (c <= ' ' || c == '"' || c == '\'' || c >= 0x7f)
            hlk_text_add(line, "?");
        else
            hlk_text_add(line, strchr("*?[]\\", c) ? "\\%c" : "%c", c);
    }
}

static void add_places(const struct hlk_answers *answers, const char *prefix, enum hlk_need need,
                       struct hlk_missing *missing, struct hlk_text *line)
{
    for (int brace = 0; brace < 2; brace++)
        for (int i = 0; i < PLACES; i++) {
            enum place place = (enum place)i;
            bool channel = places[place].type != KEY;
            if (places[place].need != need || !has_place(place, prefix, brace) || !is_refused(answers, place, brace))
                continue;
            if (missing->names && place != INBOX)
                continue;
            hlk_text_add(line, " %s%s", channel ? "&" : "~", brace ? places[place].brace_begin : places[place].begin);
            if (place != INBOX)
                add_glob(line, prefix);
            hlk_text_add(line, "*");
            missing->n++;
            missing->info_only = false;
        }
}

static void add_command(const char *name, struct hlk_missing *missing, struct hlk_text *line)
{
    hlk_text_add(line, " +%s", name);
    missing->info_only = (missing->n == 0 || missing->info_only) && strcmp(name, "info") == 0;
    missing->n++;
}

void hlk_rights_missing(const struct hlk_answers *answers, const char *prefix, enum hlk_need need,
                        struct hlk_missing *missing, struct hlk_text *line)
{
    HLK_DEBUG_ASSERT(prefix && missing && line);
    missing->untried = hlk_answers_refused(answers, HLK_ASK_RIGHTS);
    missing->names = !*prefix && is_refused(answers, LOCK, false);
    add_places(answers, prefix, need, missing, line);
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
        bool channel = direct[i].ask == HLK_ASK_INBOX || direct[i].ask == HLK_ASK_SHARD_INBOX;
        bool refused =
            channel ? hlk_answers_refused_command(answers, direct[i].ask) : hlk_answers_refused(answers, direct[i].ask);
        if (direct[i].need == need && refused)
            add_command(direct[i].name, missing, line);
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (commands[i].need == need && is_command_refused(answers, commands[i].name))
            add_command(commands[i].name, missing, line);
}
