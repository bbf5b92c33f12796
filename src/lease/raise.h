/* raise.h - a round trip that makes a held lease longer: extend, and a nested hold with a lease of its own.
 *
 * Once its first attempt is sent, Redis' ttl may be longer than the holder counts on, whatever the reply. The raise
 * lengthens the time for which release(h) is repeated until the outcome of each attempt is known. So a hold that is
 * lost meanwhile is still released in Redis. If a reply "raised" concerns a hold that is over, release(h) is started
 * again, unless one is pending. (Renewals are counted in the same way: lease/watchdog.c.) */
#ifndef HLK_LEASE_RAISE_H
#define HLK_LEASE_RAISE_H

#include "lease/entry.h"
#include "script/command.h"

struct hlk_raise {
    struct hlk_entry *entry;        /* borrowed until the end; NULL: not begun */
    int64_t lease_ms;
    bool watchdog;                      /* from now on the hold is renewed until its last release */
    bool answered;                      /* hlk_raise_answer was called */
    struct hlk_release_record end;      /* for release(h) */
};

/* Before the command (hold, count, lease_ms) is sent. False: its hold is over, and the command must not be sent. */
bool hlk_raise_begin(struct hlk_raise *raise, struct hlk_entry *e, const struct hlk_command *cmd, bool watchdog);
/* The command has its reply. True: the lease was raised. False: the hold is over, and that is reported. */
bool hlk_raise_answer(struct hlk_raise *raise, const struct hlk_command *cmd);
/* No attempt of the command is in flight any more. The last one may have been answered after its caller had left. No-op
 * if it has not begun. */
void hlk_raise_end(struct hlk_raise *raise, const struct hlk_command *cmd);

#endif
