/* holding.h - what is done with an entry that is held: a lease is raised, holds are released, a call gives back what it
 * has got, the client is closed, a holder ends; and what a holder sees of it. */
#ifndef HLK_LEASE_HOLDING_H
#define HLK_LEASE_HOLDING_H

#include "lease/entry.h"

/* The id of h is about to be told, so that it is not passed on from now on. False: it is not held any more,
 * or another waiter has it. */
bool hlk_entry_show_hold(struct hlk_entry *e, uint64_t holder, uint64_t h);

/* --- a round trip that raises a lease: lease/raise.h --- */

/* Before it is sent: it lengthens the time for which release(h) is repeated. False: h is no longer held, and nothing
 * may be sent. *end: the release record. */
bool hlk_entry_raise_begin(struct hlk_entry *e, uint64_t h, int64_t lease_ms, struct hlk_release_record *end);

/* It was acquired. watchdog: the hold had a fixed lease, and is renewed from now on until its last release. False: it
 * was lost before. */
bool hlk_entry_raise_done(struct hlk_entry *e, uint64_t h, unsigned count, int64_t sent_ms, int64_t lease_ms,
                          bool watchdog);

/* No attempt of it can run any more. ran: one ran. */
void hlk_entry_raise_settle(struct hlk_entry *e, uint64_t h, int64_t lease_ms, bool ran);

/* False: h is over. Its release was started, or could not be. */
bool hlk_entry_has_hold(struct hlk_entry *e, uint64_t h);
void hlk_entry_raise_undo(struct hlk_entry *e, uint64_t holder, uint64_t h);     /* it failed: one hold less */

/* --- releasing --- */

enum hlk_release_verdict hlk_entry_release(struct hlk_entry *e, uint64_t holder, struct hlk_release_record *out);
void hlk_entry_keep(struct hlk_entry *e);           /* after LAST, if no release could be started: held as before */

/* The call that acquired it fails, so no caller will release it: takes back the holder's hold. The release of the last
 * hold follows in the background. */
void hlk_entry_give_back(struct hlk_entry *e, uint64_t holder);

/* batched: a renewal is being written to the stream, and releases wait for that. The entry's mutex is held. */
void hlk_entry_batch(struct hlk_entry *e, bool batched);

/* The client is being closed. True: it was held, the caller must start release(h) and then call
 * hlk_entry_release_finish. *ending: another thread is releasing it and has not called hlk_entry_release_finish yet.
 * Its release may not be in the stream, and the entry may become held again (hlk_entry_keep). */
bool hlk_entry_close(struct hlk_entry *e, struct hlk_release_record *out, bool *ending);

/* The holder's thread has ended without a release: renewal stops, and that is reported. Nothing in Redis is
 * released. */
void hlk_entry_orphan(struct hlk_entry *e, uint64_t holder);

/* Enough replicas have h. */
void hlk_entry_note_replicated(struct hlk_entry *e, uint64_t h);
void hlk_entry_view(struct hlk_entry *e, uint64_t holder, struct hlk_view *out);
void hlk_entry_local_holder(struct hlk_entry *e, struct hlk_local_holder *out);

#endif
