/* past.h - what holders still have to hear about holds that are over: a loss, until each hold is released; a release
 * that was not answered, until it is asked about. The session's mutex is held in all of these. */
#ifndef HLK_LEASE_PAST_H
#define HLK_LEASE_PAST_H

#include "lease/session.h"

struct hlk_past *hlk_past_find(const struct hlk_session *s, uint64_t holder);

/* With a reference to the session. NULL: no memory. */
struct hlk_past *hlk_past_add(struct hlk_session *s, struct hlk_holder holder, uint64_t h, unsigned releases);

/* The reference to the session is the caller's to give back, after it let go of the mutex. holder_lives: its count of
 * holds goes down. */
void hlk_past_drop(struct hlk_session *s, struct hlk_past *past, bool holder_lives);

/* One hold more, or less, that was lost through this handle and not released: its descriptor follows. NULL is fine. */
void hlk_via_lost(struct hlk_via *via, bool lost);

#endif
