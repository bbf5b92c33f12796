/* session_inner.h - what session.c (holding, letting go, losing) and line.c (who gets it) share. All under the
 * session's mutex. */
#ifndef HLK_LEASE_SESSION_INNER_H
#define HLK_LEASE_SESSION_INNER_H

#include "lease/session.h"

void hlk_session_move(struct hlk_session *s, enum hlk_session_state to);    /* the one setter */
bool hlk_session_is_held_by(const struct hlk_session *s, uint64_t holder);

/* NONE: the first in line asks. */
void hlk_session_promote(struct hlk_session *s);
/* The first in line gets what its predecessor has let go of. False: nobody there who may, or Redis' queue is to have
 * its turn. *woken: to be paid after the mutex is unlocked; it needs that at once. */
bool hlk_session_pass(struct hlk_session *s, struct hlk_park **woken);
/* Those in line who need not wait for their turn look again. */
void hlk_session_wake_knowing(struct hlk_session *s);

/* The hold's own references, given back once. */
void hlk_session_forget_hold(struct hlk_session *s, bool holder_lives);

#endif
