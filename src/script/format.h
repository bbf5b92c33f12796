/* format.h - how a family of locks is written in Redis: its keys, its scripts, their arguments and their replies.
 *
 * Kinds of lock that share a format are one lock in Redis under one name: plain and fenced. The layers below src/kinds
 * know formats as data: a command has a pointer to its type, an entry the number of its format. */
#ifndef HLK_SCRIPT_FORMAT_H
#define HLK_SCRIPT_FORMAT_H

#include "script/command.h"

#define HLK_FORMATS_MAX 32

/* What a script has answered to an acquire. */
enum hlk_answer_kind {
    HLK_ANSWER_ACQUIRED,            /* held, with `token` if it is fenced. The answer names the hold */
    HLK_ANSWER_BUSY,                /* held by another client: all but `token` is set */
    HLK_ANSWER_TOMBSTONE,           /* this hold id has ended */
    HLK_ANSWER_AGAIN,               /* it is to be sent again, with the `seen` of the answer */
    HLK_ANSWER_FAILED,              /* the wait is over: `status`, and `holder` says why, for people */
    HLK_ANSWER_NONE                 /* no answer of this script */
};

struct hlk_answer {
    int64_t token;                  /* the last one of its block */
    int64_t ttl_ms;                 /* of the holder's lease; < 0: no end */
    int64_t position;               /* so many are before it in Redis' queue; < 0: it is not in it */
    const char *holder;             /* its field; "": none yet. The reply's */
    size_t holder_len;
    bool foreign;                   /* one of Redisson's clients will call it, and no other */
    bool mixed;                     /* others wait by another kind of lock of this name */
    bool silent;                    /* the holder sends no message when it releases: the first waiter polls */
    bool shared;                    /* acquired, and nobody waits: the process may share the hold */
    enum hlk_status status;
    struct hlk_seen seen;           /* of a format that holds nothing: the wait's from now on */
};

struct hlk_format {
    struct hlk_command_type acquire, release, break_it, query;
    /* Of a format that holds nothing: a wait that ends without having got what it waits for sends this, and its answer,
     * read by read_acquire, is how the wait has ended: acquired, or failed. put NULL: nothing is sent */
    struct hlk_command_type leave;
    /* A hold is raised, and many are renewed: hlk_command_reacquire, hlk_command_renew where the key is a hash. renew
     * NULL: its holds have no lease in Redis, so that none is renewed, nor verified after a reconnect. */
    const struct hlk_command_type *reacquire, *renew;
    /* What the reply to an acquire means. */
    enum hlk_answer_kind (*read_acquire)(const struct hlk_command *cmd, const redisReply *reply,
                                         struct hlk_answer *out);
    /* Where one of Redisson's clients calls a waiter: a channel's name. Returns its length. NULL: none does. */
    size_t (*foreign_channel)(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const struct hlk_command *cmd);
    /* The other half of a lock that has two. beside: the acquire of a holder that has it says so (hlk_command.beside).
     * excludes: that is HLK_DEADLOCK at once. NULL: neither. */
    const struct hlk_format *beside, *excludes;
    /* Stands before each word of its inbox messages, and tells its entries from those of other formats. 0 for one
     * format only. */
    char letter;
    /* Each holder has an entry, and so a position in Redis' queue. Its messages find it by the hold id. Else the
     * process has one entry, and its holders wait in the local queue. */
    bool per_holder;
    /* A wait takes its position by its first command, and asks again when its inbox is subscribed. Else it takes it
     * only then. */
    bool queues_first;
    /* A wait that polls asks whether others wait by another kind of lock of this name. */
    bool checks_other_kinds;
    /* "Acquired" means that the wait is over, and that nothing is held, renewed or released: a latch. Each wait has its
     * own hold id (per_holder), and neither a place in a queue nor an inbox. Each message of the foreign channel is for
     * all waits, and each answer BUSY is `foreign`. */
    bool holds_nothing;
    /* "open" is the only inbox message of its scripts: the waiter sends its acquire again. They grant and break
     * nothing: a semaphore. */
    bool sends_only_open;
    /* Other holders of the same key, Redisson's, may shorten its ttl. */
    bool shares_ttl;
    /* Many may hold it, and holders of one process may share one hold (lease/shared_hold.h). */
    bool shares_holds;
    const char *verb;               /* in errors: what an acquire is called. NULL: "acquire" */
    /* In errors: what a wait still waits for, by `holder` of the last answer. NULL: for the release of that holder */
    void (*describe)(struct hlk_text *text, const char *holder);
    /* Of an answer FAILED: why, by its `holder`. NULL: that is the text */
    void (*explain)(struct hlk_text *text, const char *why);
};

/* --- for the files of formats: what their commands are written with. Each answers the end of what it wrote --- */

/* The command, the script (cmd->whole: its text), and how many keys come next. words: of them and of the arguments. */
char *hlk_put_script(char *at, enum hlk_script script, const struct hlk_command *cmd, size_t words, size_t keys);

static inline char *hlk_put_name(char *at, const struct hlk_command *cmd)
{
    return hlk_wire_word(at, cmd->name, cmd->name_len);
}

/* In here, so that a key that is known where this is compiled is a direct call. */
static inline char *hlk_put_key(char *at, const struct hlk_command *cmd, hlk_key_fn *key)
{
    char name[HLK_KEY_MAX];
    size_t len = key(name, cmd->name, cmd->name_len);
    /* cppcheck-suppress uninitvar; it does not look through the pointer */
    return hlk_wire_word(at, name, len);
}

static inline char *hlk_put_field(char *at, const char *client_id, uint64_t hold)
{
    char field[HLK_FIELD_MAX];
    size_t len = hlk_field(field, client_id, hold);
    return hlk_wire_word(at, field, len);
}

/* Break: the only holder from which the lock is taken, if there is one. */
static inline char *hlk_put_only(char *at, const struct hlk_command *cmd)
{
    return cmd->only ? hlk_wire_word(at, cmd->only, strlen(cmd->only)) : at;
}

/* "Acquired", "raised", and the end of a list of renewals: the reply is the hold that the command was about, with or
 * without an ending (":write"). A reply that names another one is no answer to it. */
bool hlk_answer_names(const redisReply *reply, const char *client_id, uint64_t hold);

/* What a script has answered to a reacquire. */
enum hlk_raised {
    HLK_RAISED_YES,                 /* held. The answer names the hold, or the permit's id */
    HLK_RAISED_GONE,                /* not held, or by another client */
    HLK_RAISED_REFUSED,             /* an error, or no reply */
    HLK_RAISED_NONE                 /* no answer to this command */
};
enum hlk_raised hlk_answer_read_raised(const struct hlk_command *cmd);
/* Reads {ttl, holder, position, ...}. False: it is no such array, or shorter than that. */
bool hlk_answer_read_busy(const redisReply *reply, struct hlk_answer *out);
/* read_acquire of formats without tokens whose busy reply has one more number: 1: foreign. An acquired hold with the
 * ending ":shared" may be shared. */
enum hlk_answer_kind hlk_answer_read_foreign(const struct hlk_command *cmd, const redisReply *reply,
                                             struct hlk_answer *out);

#endif
