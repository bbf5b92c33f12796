#include "net/reply.h"

#include "base/debug.h"

#include <stdbool.h>
#include <string.h>

/* Redis 7 begins the error of a command inside a script with its code; 6.2 buries it: "ERR Error running script ...:
 * -OOM". */
static const struct {
    const char *word;
    enum hlk_reply_kind kind;
    enum hlk_status status;
} known[] = {
    { "NOSCRIPT", HLK_REPLY_NOSCRIPT, HLK_E_SERVER },
    { "LOADING ", HLK_REPLY_LATER, HLK_E_SERVER },
    { "BUSY ", HLK_REPLY_LATER, HLK_E_SERVER },
    { "MASTERDOWN", HLK_REPLY_REPLICA, HLK_E_SERVER },
    { "TRYAGAIN", HLK_REPLY_LATER, HLK_E_SERVER },
    { "CLUSTERDOWN", HLK_REPLY_LATER, HLK_E_SERVER },
    { "non local key in a cluster", HLK_REPLY_LATER, HLK_E_SERVER }, /* by a script: its slot is being moved */
    { "READONLY", HLK_REPLY_REPLICA, HLK_E_SERVER },
    { "OOM ", HLK_REPLY_NO_WRITES, HLK_E_SERVER },
    { "MISCONF", HLK_REPLY_NO_WRITES, HLK_E_SERVER },
    { "NOREPLICAS", HLK_REPLY_NO_WRITES, HLK_E_SERVER },
    { "NOPERM", HLK_REPLY_NO_RIGHT, HLK_E_AUTH },
    { "NOAUTH", HLK_REPLY_NO_RIGHT, HLK_E_AUTH },
    { "can't run this command", HLK_REPLY_NO_RIGHT, HLK_E_AUTH },
    { "can't access", HLK_REPLY_NO_RIGHT, HLK_E_AUTH },
    { "ACL failure in script", HLK_REPLY_NO_RIGHT, HLK_E_AUTH }, /* 7.2 and later */
    { "WRONGTYPE", HLK_REPLY_WRONG_TYPE, HLK_E_SERVER },
};

static bool says(const char *text, const char *word)
{
    if (strncmp(text, word, strlen(word)) == 0)
        return true;
    return strncmp(text, "ERR ", 4) == 0 && strstr(text, word) != NULL;
}

/* The part of a text that concerns the caller: without the script's SHA-1 and line, which 7 and Valkey append ("...
 * script: <sha>, on @user_script:68.") and 6.2 puts before it ("...: @user_script:68: ..."). Returns its length. */
static int core(const char **text)
{
    static const char place[] = "@user_script:";
    bool old = strncmp(*text, "ERR Error running script", 24) == 0;
    for (const char *at; old && (at = strstr(*text, place));) /* once, or twice */
        *text = at + strlen(place) + strspn(at + strlen(place), " 0123456789:-");
    const char *tail = NULL;
    for (const char *at = *text; !old && (at = strstr(at, " script: ")); at++)
        tail = at;
    return (int)(tail && strstr(tail, "on @user_script:") ? (size_t)(tail - *text) : strlen(*text));
}

static void reply_set_error(struct hlk_error *error, enum hlk_reply_kind kind, enum hlk_status status, const char *text)
{
    HLK_DEBUG_ASSERT(kind != HLK_REPLY_ANSWER && status != HLK_OK);
    int len = core(&text);
    if (kind == HLK_REPLY_WRONG_TYPE)
        (void)hlk_error_set(error, status,
                            "the key is not a lock: another type is stored under this name, or under that of its queue "
                            "or tokens (%.*s)",
                            len, text);
    else if (kind == HLK_REPLY_NO_RIGHT && strncmp(text, "NOAUTH", 6) != 0)
        (void)hlk_error_set(error, status, "%.*s (docs/acl.md has the rights it needs)", len, text);
    else
        (void)hlk_error_set(error, status, "%.*s", len, text);
}

enum hlk_reply_kind hlk_reply_read(const redisReply *reply, struct hlk_error *error)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return HLK_REPLY_ANSWER;
    enum hlk_reply_kind redirect = strncmp(reply->str, "MOVED ", 6) == 0 ? HLK_REPLY_MOVED
                                   : strncmp(reply->str, "ASK ", 4) == 0 ? HLK_REPLY_ASK
                                                                         : HLK_REPLY_ANSWER;
    if (redirect != HLK_REPLY_ANSWER) { /* of the whole command, never from inside a script */
        (void)hlk_error_set(error, HLK_E_SERVER, "%s", reply->str);
        return redirect;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (says(reply->str, known[i].word)) {
            reply_set_error(error, known[i].kind, known[i].status, reply->str);
            return known[i].kind;
        }
    }
    static const char ours[] = "HASPLOCK "; /* of our scripts: it is the code, and no word for people */
    bool own = strncmp(reply->str, ours, sizeof ours - 1) == 0;
    (void)hlk_error_set(error, HLK_E_SERVER, "%s", reply->str + (own ? sizeof ours - 1 : 0));
    return HLK_REPLY_FAULT;
}
