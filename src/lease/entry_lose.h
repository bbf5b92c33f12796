/* entry_lose.h - how a hold is lost: it is reported, kept for its holder's next call, and released. */
#ifndef HLK_LEASE_ENTRY_LOSE_H
#define HLK_LEASE_ENTRY_LOSE_H

#include "lease/entry.h"

void hlk_entry_release_finish(struct hlk_entry *e); /* release(h) is in the stream, or stored: the next waiter sends */

/* Locks the entry's mutex if h is held and its lease is not over. False: not locked. A hold whose lease is over by the
 * clock is lost at once, whatever reply has arrived: another call may have returned LOST by the same clock. */
bool hlk_entry_lock_held(struct hlk_entry *e, uint64_t h);

/* If h is still held, it is lost: reported, then released (lease/hold_end.h). */
void hlk_entry_lose(struct hlk_entry *e, uint64_t h, const char *why);

/* The same, with the entry's mutex held. Unlocks it. */
void hlk_entry_lose_locked(struct hlk_entry *e, const char *why);

/* The same for a hold of an entry that belongs to one holder. */
void hlk_entry_lose_own(struct hlk_node *node, uint64_t h, const char *why);

/* If h is held, it goes on, and ASKED is reported: somebody asks its holder to release it. */
void hlk_entry_ask_holder(struct hlk_node *node, uint64_t h);

/* The first half. True: the caller must start the release and then call hlk_entry_release_finish. */
bool hlk_entry_lose_begin(struct hlk_entry *e, uint64_t h, const char *why, struct hlk_release_record *out);

/* For a release, after HLK_VERDICT_LAST: the handle through which the hold was acquired, with a reference. The second
 * one reports that the server no longer had the hold when the release ran; `handle` may be NULL. */
struct hlk_handle *hlk_entry_handle(struct hlk_entry *e);
void hlk_entry_report_gone(struct hlk_entry *e, uint64_t h, const struct hlk_handle *handle, const char *why);

/* Reports AT_RISK or SAFE. The entry's mutex is held. */
void hlk_entry_notify(struct hlk_entry *e, int kind, const char *why);

#endif
