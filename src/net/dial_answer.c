#include "net/dial_answer.h"

#include "base/debug.h"
#include "net/reply.h"

#include <string.h>
#include <strings.h>

static bool starts(const redisReply *reply, const char *word)
{
    return strncasecmp(reply->str, word, strlen(word)) == 0;
}

/* The server is there and admits no client now. */
static bool passes(const redisReply *reply)
{
    HLK_DEBUG_ASSERT(reply->type == REDIS_REPLY_ERROR);
    enum hlk_reply_kind kind = hlk_reply_read(reply, NULL);
    return kind == HLK_REPLY_LATER || kind == HLK_REPLY_REPLICA || strstr(reply->str, "max number of clients");
}

/* The server does not accept the user or the password. Redis before 6.2 has no code for it. */
static bool bars(const redisReply *reply, bool to_auth)
{
    HLK_DEBUG_ASSERT(reply->type == REDIS_REPLY_ERROR);
    static const char *const texts[] = { "invalid username-password pair", "invalid password",
                                         "without any password configured", "no password is set" };
    if (starts(reply, "NOAUTH") || starts(reply, "WRONGPASS") || starts(reply, "NOPERM"))
        return true;
    for (size_t i = 0; to_auth && i < sizeof texts / sizeof *texts; i++)
        if (strstr(reply->str, texts[i]))
            return true;
    return false;
}

/* A server may well answer AUTH with what it was told: of that answer nothing is shown but a code that we know, and our
 * own words for the rest. */
static enum hlk_status auth_refused(struct hlk_dial *dial, enum hlk_status status, const redisReply *reply)
{
    HLK_DEBUG_ASSERT(reply->type == REDIS_REPLY_ERROR);
    static const char *const codes[] = { "ERR",  "WRONGPASS",  "NOAUTH",   "NOPERM",      "LOADING",
                                         "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "DENIED" };
    static const char *const words[][2] = { { "protected mode", " (it is in protected mode)" },
                                            { "max number of clients", " (max number of clients reached)" },
                                            { "invalid username-password pair", " (wrong user or password)" },
                                            { "invalid password", " (wrong user or password)" },
                                            { "without any password configured", " (it has no password set)" },
                                            { "no password is set", " (it has no password set)" },
                                            { "unknown command", " (it does not know that command)" },
                                            { "wrong number of arguments", " (it takes no user name)" } };
    const char *code = "an error", *why = "";
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        size_t len = strlen(codes[i]);
        if (strncmp(reply->str, codes[i], len) == 0 && (reply->str[len] == ' ' || !reply->str[len]))
            code = codes[i];
    }
    for (size_t i = 0; i < sizeof words / sizeof *words && !*why; i++)
        if (strstr(reply->str, words[i][0]))
            why = words[i][1];
    return hlk_error_set(&dial->error, status, "the server answers AUTH with %s%s", code, why);
}

/* A user without the right to ROLE finds out by a refused write. */
static enum hlk_status check_role(struct hlk_dial *dial, const redisReply *reply)
{
    dial->is_replica = reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 &&
                       reply->element[0]->type == REDIS_REPLY_STRING && strcmp(reply->element[0]->str, "slave") == 0;
    return dial->is_replica ? hlk_error_set(&dial->error, HLK_E_CONNECT, "is a replica") : HLK_OK;
}

/* Of INFO: not every user may run ROLE. One without the right to INFO finds out by a refused write, too. */
static bool is_replica(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && strstr(reply->str, "\nrole:slave");
}

/* Of PING, or SELECT, which an owner that bears refusals sends again itself, unless the server admits no client. */
static bool is_borne(const struct hlk_dial *dial, const redisReply *reply)
{
    return dial->greeting && dial->greeting->bears_refusals && !passes(reply) && !starts(reply, "NOAUTH") &&
           !starts(reply, "DENIED");
}

enum hlk_status hlk_dial_check_answer(struct hlk_dial *dial, unsigned i, const redisReply *reply)
{
    HLK_DEBUG_ASSERT(i < dial->own);
    bool error = reply->type == REDIS_REPLY_ERROR, to_role = dial->asks_role && i == dial->role_reply;
    if (to_role && dial->endpoint->locator && (!error || strncmp(reply->str, "NOPERM", 6) == 0))
        return check_role(dial, reply);
    if (to_role && !dial->endpoint->locator && !(error && passes(reply))) {
        dial->second_best = is_replica(reply);
        return HLK_OK;
    }
    if (!error || i == dial->own - 1) /* a name for CLIENT LIST is no reason to fail */
        return HLK_OK;
    bool to_auth = i < dial->auth_replies;
    if (!to_auth && is_borne(dial, reply))
        return HLK_OK;
    enum hlk_status status = passes(reply) ? HLK_E_CONNECT : bars(reply, to_auth) ? HLK_E_AUTH : HLK_E_SERVER;
    return to_auth ? auth_refused(dial, status, reply) : hlk_error_set(&dial->error, status, "%s", reply->str);
}
