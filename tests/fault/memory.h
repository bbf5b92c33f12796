/* memory.h - no memory at step n of an action, for every n: only the n-th allocation fails, or all from it on.
 *
 *     memory_for_every_step(&(struct memory_kind){ memory_before_hold, act_break, after_break, 1 });
 *
 * Each status is HLK_E_NOMEM or success. Nothing crashes or leaks, nothing stays held, and everything works
 * afterwards. */
#ifndef HLK_TEST_MEMORY_H
#define HLK_TEST_MEMORY_H

#include "base/mem.h"
#include "fixture.h"

#include <stdatomic.h>

struct memory_task {
    hlk_client *client;
    hlk_owner *owner;
    hlk_lock *lock, *owned;
    struct actor *actor;
    atomic_int done, done_status;
    bool later;                 /* all later allocations fail too */
};

struct memory_kind {                                              /* the action, run once for each step */
    void (*before)(struct memory_task *t);                        /* with memory */
    enum hlk_status (*act)(struct memory_task *t);                /* without */
    void (*after)(struct memory_task *t, enum hlk_status status); /* with memory again */
    long least;                                                   /* a lower bound of its allocations */
};

void memory_for_every_step(const struct memory_kind *kind);

hlk_client *memory_open_short(unsigned flags);
hlk_lock *memory_make_lock(hlk_client *client, hlk_owner *owner);      /* the step destroys it */

/* before: a client and its handles; also held by the owner; also held by a foreign client, until memory_free_it */
void memory_before_any(struct memory_task *t);
void memory_before_hold(struct memory_task *t);
void memory_before_wait(struct memory_task *t);
void memory_free_it(void);
/* after: an acquire that returned status; a release that did */
void memory_after_acquire(struct memory_task *t, enum hlk_status status);
void memory_after_release(struct memory_task *t, enum hlk_status status);

#endif
