/* rights.h - which rights locks need, as commands that try them without any effect. docs/acl.md says the same. */
#ifndef HLK_DIAGNOSE_RIGHTS_H
#define HLK_DIAGNOSE_RIGHTS_H

#include "diagnose/answers.h"

#include <stddef.h>

enum hlk_need {
    HLK_NEED_LOCK,
    HLK_NEED_PUBSUB,
    HLK_NEED_FENCED,
    HLK_NEED_FAIR,
    HLK_NEED_STRING,
    HLK_NEED_LIST,
    HLK_NEED_RW,
    HLK_NEED_LATCH,
    HLK_NEED_SEMAPHORE,
    HLK_NEED_PERMIT,                /* besides those of a semaphore */
    HLK_NEED_BARRIER,
    HLK_NEED_CONDITION,
    HLK_NEED_NOTE,
    HLK_NEED_CLUSTER,
    HLK_NEED_REPLICAS
};

/* What of it is refused, as words for ACL SETUSER: " ~app:* +get". */
struct hlk_missing {
    unsigned n;                     /* how many */
    bool info_only;                 /* only +info is */
    bool untried;                   /* EVAL is refused: commands of the scripts are among them unseen */
    bool names;                     /* no prefix was given, and the user may not use all names: keys were not tried */
};

#define HLK_PREFIX_MAX 400          /* a key of a probe is longer by less than the rest of HLK_NAME_MAX */
#define HLK_PROBED_PLACES_MAX 42    /* keys and channels of a lock, without and with a brace in its name */

/* The command that tries all but connection commands: EVAL and its arguments, in memory of `rights`. */
struct hlk_rights_probe {
    char script[8192];
    char keys[1 + HLK_PROBED_PLACES_MAX][640];
    char ids[HLK_PROBED_PLACES_MAX][8];     /* how the script is told what kind of place each is, and its number */
    const char *argv[4 + 2 * HLK_PROBED_PLACES_MAX];
    int argc;
};
void hlk_rights_probe(struct hlk_rights_probe *probe, const char *prefix, const char *id);

/* The command and the channel of an ask that subscribes, or ends that. */
const char *hlk_rights_channel(char *channel, size_t size, enum hlk_ask ask, const char *prefix, const char *id);

/* Appends to `line` what `need` lacks. */
void hlk_rights_missing(const struct hlk_answers *answers, const char *prefix, enum hlk_need need,
                        struct hlk_missing *missing, struct hlk_text *line);

#endif
