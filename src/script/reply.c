#include "script/reply.h"

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
    { "MASTERDOWN", HLK_REPLY_LATER, HLK_E_SERVER },
    { "TRYAGAIN", HLK_REPLY_LATER, HLK_E_SERVER },
    { "CLUSTERDOWN", HLK_REPLY_LATER, HLK_E_SERVER },
    { "READONLY", HLK_REPLY_LATER, HLK_E_SERVER },
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

enum hlk_reply_kind hlk_reply_read(const redisReply *reply, struct hlk_error *error)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return HLK_REPLY_ANSWER;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (says(reply->str, known[i].word)) {
            (void)hlk_error_set(error, known[i].status, "%s", reply->str);
            return known[i].kind;
        }
    }
    (void)hlk_error_set(error, HLK_E_SERVER, "%s", reply->str);
    return HLK_REPLY_FAULT;
}
