/* answers.h - what is asked of the server, and the fields of its answers. Pure: a unit test feeds replies. */
#ifndef HLK_DIAGNOSE_ANSWERS_H
#define HLK_DIAGNOSE_ANSWERS_H

#include "diagnose/finding.h"

#include <hiredis/hiredis.h>

#define HLK_VALUE_MAX 128           /* a field of an answer, for people; cut if longer */

enum hlk_ask {
    HLK_ASK_PING,
    HLK_ASK_SELECT,                 /* the URL's database */
    HLK_ASK_WHOAMI,
    HLK_ASK_INFO,
    HLK_ASK_COMMANDSTATS,
    HLK_ASK_ROLE,
    HLK_ASK_SENTINELS,              /* subscribers of the channel that Sentinels use */
    HLK_ASK_SLOWLOG,
    HLK_ASK_LATENCY,
    HLK_ASK_POLICY,                 /* from here on CONFIG GET */
    HLK_ASK_MAXMEMORY,
    HLK_ASK_SAVE,
    HLK_ASK_APPENDONLY,
    HLK_ASK_APPENDFSYNC,
    HLK_ASK_STOP_WRITES,
    HLK_ASK_MIN_REPLICAS,
    HLK_ASK_MAXCLIENTS,
    HLK_ASK_BUFFERS,
    HLK_ASK_TIMEOUT,
    HLK_ASK_KEEPALIVE,
    HLK_ASK_BUSY,
    HLK_ASK_EVALSHA,                /* from here on rights (rights.h) */
    HLK_ASK_RIGHTS,
    HLK_ASK_SCAN,
    HLK_ASK_WAIT,
    HLK_ASK_INBOX,                  /* SUBSCRIBE */
    HLK_ASK_UNSUBSCRIBE,
    HLK_ASK_CHANNEL,                /* SUBSCRIBE, of a lock, of a lock with a brace in its name; each unsubscribed */
    HLK_ASK_CHANNEL_END,
    HLK_ASK_BRACE_CHANNEL,
    HLK_ASK_BRACE_CHANNEL_END,
    HLK_ASK_CLUSTER,                /* CLUSTER INFO; from here on only of a cluster */
    HLK_ASK_SLOTS,
    HLK_ASK_ASKING,
    HLK_ASK_SHARD_INBOX,            /* SSUBSCRIBE */
    HLK_ASK_SHARD_UNSUBSCRIBE,
    HLK_ASK_COUNT
};

struct hlk_answers {                /* owned by the caller; NULL: not asked */
    redisReply *reply[HLK_ASK_COUNT];
};

/* The words of a question that is the same for every server; NULL: it is not (rights.h, HLK_ASK_SELECT). */
const char *const *hlk_ask_words(enum hlk_ask ask);

/* A field of INFO, or of CLUSTER INFO, or the value of a CONFIG GET, as people may see it. False, and "": it is not
 * there. */
bool hlk_answers_field(const struct hlk_answers *answers, enum hlk_ask ask, const char *field,
                       char value[HLK_VALUE_MAX]);
bool hlk_answers_info(const struct hlk_answers *answers, const char *field, char value[HLK_VALUE_MAX]);
bool hlk_answers_config(const struct hlk_answers *answers, enum hlk_ask ask, char value[HLK_VALUE_MAX]);
/* The same as a number. `otherwise`: it is not there. */
int64_t hlk_answers_info_number(const struct hlk_answers *answers, const char *field, int64_t otherwise);
int64_t hlk_answers_config_number(const struct hlk_answers *answers, enum hlk_ask ask, int64_t otherwise);

/* Is it an error about a right? Does the error name the command, and not a key or channel? */
bool hlk_answers_refused(const struct hlk_answers *answers, enum hlk_ask ask);
bool hlk_answers_refused_command(const struct hlk_answers *answers, enum hlk_ask ask);

/* "not known: this user may not run CONFIG GET", a note, and how to let it. */
void hlk_found_unknown(struct hlk_found *found, const struct hlk_answers *answers, enum hlk_ask ask);

#endif
