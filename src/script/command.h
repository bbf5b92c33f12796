/* command.h - one command to the server by script: what it says, and how it is written. How it gets its answer:
 * script/engine.h. */
#ifndef HLK_SCRIPT_COMMAND_H
#define HLK_SCRIPT_COMMAND_H

#include "net/pipeline.h"
#include "net/reply.h"
#include "script/keys.h"
#include "script/router.h"
#include "script/table.h"
#include "script/wire.h"

#define HLK_PAUSE_MS 50             /* between two attempts when the server asked us to come later */
#define HLK_TOMBSTONE_MS 600000     /* how long a hold that ended in doubt is remembered */

/* How long a semaphore's note of a command that has run lives: NOTE_MS of lua/include_permits.lua. */
#define HLK_NOTE_MS 600000
/* For so long after an attempt was sent, another one finds the note if the first one has run. The rest of the note's
 * life is for an attempt that runs long after it was sent, and for clocks that differ in rate. */
#define HLK_REPEAT_MS (HLK_NOTE_MS - 120000)

#define HLK_TICKET_MS 300000         /* how long a ticket may outlive its waiter (lua/lock_acquire.lua) */

struct hlk_limits {                 /* how long a command is tried */
    int64_t at_ms;                  /* no longer than this; INT64_MAX: no limit */
    int64_t began_ms;               /* when its caller's call began */
    /* Without a connection no longer than this from began_ms, or from the loss of the connection if that was later; and
     * as long while the server refuses for now. < 0: no limit */
    int64_t reconnect_timeout_ms;
    int64_t first_timeout_ms;       /* the same, as long as the server was never there; 0: reconnect_timeout_ms too */
    int64_t refused_ms;             /* since when the server refuses for now; 0: it does not. Written by the engine */
    bool once;                      /* an attempt that broke is not repeated */
    bool waits_out_writes;          /* OOM and the like are refusals for now */
};

/* What a wait that holds nothing has seen and heard, from its first attempt on. */
struct hlk_seen {
    bool asked;                     /* it has an answer, and `mark` is in it: what changes when the wait is over */
    bool listening;                 /* the attempt was sent while its channel was subscribed */
    bool heard, heard_since;        /* there was a message: between the answer before and this attempt, or after that */
    bool sure;                      /* there was something to wait for while it was listening */
    int64_t missing_ms;             /* since then that is gone, and no message has come; 0: it is not */
    uint64_t mark;                  /* a message with this number says that the wait is over */
    uint64_t data;                  /* of a barrier: which data this client knows (lua/barrier_arrive.lua); 0: none */
    uint64_t slot;                  /*   the party is <client id>:<slot>; */
    unsigned index;                 /*   the order in which it has arrived */
};

struct hlk_command;

/* What a command says: its script, and how that is written. Those of a format: script/format.h. */
struct hlk_command_type {
    enum hlk_script script;
    /* Writes all of it, into no more room than HLK_COMMAND_MAX and, cmd->whole, the script's text. Returns its end. */
    char *(*put)(char *at, struct hlk_command *cmd);
    /* Keys besides the lock, for people when the server refuses one; the last is NULL. NULL: nothing is explained. */
    hlk_key_fn *const *keys;
    const char *rights;             /* for people when a right is missing. NULL: nothing */
};

/* Six names, a field, a ticket, five numbers, and a head for each and the command. */
#define HLK_COMMAND_MAX (6 * HLK_KEY_MAX + HLK_FIELD_MAX + HLK_MEMBER_MAX + 5 * 24 + 17 * HLK_WIRE_HEAD)

struct hlk_renewal { const char *name; size_t name_len; uint64_t hold; int64_t lease_ms; };

struct hlk_command {
    struct hlk_call call;           /* the attempt that is in flight, or was last */
    hlk_pipeline *pipeline;         /* where it is sent: the last attempt, or with a router the next one */
    struct hlk_router *router;      /* in a cluster: chooses the pipeline. NULL: one server */
    hlk_pipeline *asking;           /* the next attempt goes there, behind ASKING. NULL: where the router says */
    uint16_t slot;                  /* for the router */
    uint8_t redirects;              /* since the last pause */
    unsigned reroutes;              /* the pipeline's, when the router chose it */
    struct hlk_limits limits;
    const struct hlk_command_type *type;
    const char *client_id;          /* borrowed, like name */
    const char *name;
    size_t name_len;
    uint64_t hold;
    int64_t lease_ms;               /* acquire, reacquire */
    int64_t count;                  /* reacquire; query: the most waiters that it names; renew: how many locks; of a
                                     * semaphore: how many permits; acquire of a permit: how many there are, or 0 */
    const char *drop_notes;         /* of a semaphore: hold ids whose notes are needed no more (lua/semaphore_*.lua);
                                     * borrowed. NULL: none */
    int64_t change;                 /* of a semaphore: enum hlk_semaphore_change; of permits: enum hlk_permits_change */
    const char *id;                 /* of a permit, in the place of client_id and hold; borrowed. NULL: these */
    size_t id_len;
    const char *only;               /* ask: the holder that is asked. break: the one from which the lock is taken. Of a
                                     * note: whose it is. < HLK_FIELD_MAX; borrowed while an attempt is sent. NULL: any;
                                     * of a note: client_id and hold */
    const char *note;               /* a note's text, which lives for lease_ms; borrowed while an attempt is sent */
    const struct hlk_renewal *renewals; /* renew: of many locks; borrowed while an attempt is sent */
    uint64_t beside;                /* acquire: the holder's hold by the lock's other half; 0: none */
    bool shares;                    /* acquire: the process may share the hold, if the server says so */
    uint64_t cursor;                /* list */
    const char *prefix;             /* list: of the names; borrowed */
    const char *list_type;          /* list: ARGV[4] of lua/lock_list.lua; NULL: none */
    struct hlk_seen seen;           /* acquire, of a format that holds nothing */
    struct hlk_member member;       /* acquire, end: its ticket in the queue; since_ms 0: none, it does not wait. Of
                                     * which tokens and floor concern a fenced acquire too. In a fair lock's queue it
                                     * is the field alone */
    int64_t short_hold_ms;          /* release: a hold by grant that was short (lua/lock_release.lua); 0: another one */
    int64_t yield_ms;               /* end: with a yield window */
    bool drops;                     /* end of a permit: HLK_PERMITS_DROP */
    bool fenced;                    /* acquire, end: the counter of tokens is among the keys */
    bool checks_other_kinds;        /* fair acquire: is it held as a plain lock, too? */
    bool tombstone;                 /* end: leaves a tombstone */
    bool whole;                     /* the next attempt carries the script's text */
    bool unbatched;                 /* the next attempt is none of many (script/batch.h) */
    bool doubt;                     /* some attempt of it is in doubt */
    int64_t doubt_ms;               /* when the first such attempt was sent; of a semaphore's acquire, since the last
                                     * answer. 0: none */
    bool resends;                   /* PAUSED: at until_ms it is sent again (script/engine.h) */
    int64_t until_ms;               /* PAUSED, UNCONNECTED */
    unsigned attempts;
};

/* The script's text for the server: in a cluster with sharded pub/sub another one. */
static inline const struct hlk_script_text *hlk_command_script(const struct hlk_command *cmd, enum hlk_script script)
{
    bool sharded = cmd->router && atomic_load(&cmd->router->sharded);
    return sharded ? &hlk_script_sharded_table[script] : &hlk_script_table[script];
}

_Static_assert(HLK_SCRIPT_COUNT < HLK_TEXTS, "a number for each script");

static inline uint8_t hlk_command_text(const struct hlk_command *cmd) { return (uint8_t)(cmd->type->script + 1); }

/* Formats an attempt and puts it into the stream. Status as hlk_pipeline_send. For the engine. */
enum hlk_status hlk_command_write(struct hlk_command *cmd);

void hlk_command_drop_reply(struct hlk_command *cmd);
static inline int64_t hlk_command_sent_ms(const struct hlk_command *cmd) { return cmd->call.sent_ns / 1000000; }

/* Its attempt has ended, and it is not known whether it ran. */
static inline void hlk_command_note_doubt(struct hlk_command *cmd)
{
    cmd->doubt = true;
    if (!cmd->doubt_ms)
        cmd->doubt_ms = hlk_command_sent_ms(cmd);
}

/* An attempt that is sent now may run when the note of an earlier one, which may have run, is gone. */
bool hlk_command_note_may_be_gone(const struct hlk_command *cmd);

/* Adds to an error about rights what the operator needs to mend it. */
void hlk_command_explain_rights(const struct hlk_command *cmd, struct hlk_error *error);

#endif
