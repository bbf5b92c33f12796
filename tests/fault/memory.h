/* memory.h - no memory at step n, for every n of what is done: the n-th allocation alone fails, or all from there on.
 *
 *     memory_for_every_step(&(struct memory_kind){ memory_before_hold, act_break, after_break, 1 });
 *
 * Each answer is HLK_E_NOMEM or success; nothing crashes or leaks, nothing stays held, and afterwards all works. */
#ifndef HLK_TEST_MEMORY_H
#define HLK_TEST_MEMORY_H

#include "base/mem.h"
#include "trouble.h"

#include <stdatomic.h>

struct memory_task {
    hlk_client *client;
    hlk_owner *owner;
    hlk_lock *lock, *owned;
    struct actor *actor;
    atomic_int done, done_status;
    bool later;                 /* all later allocations fail too */
};

struct memory_kind {            /* of what is done, at one step after the other */
    void (*before)(struct memory_task *t);                        /* with memory */
    enum hlk_status (*act)(struct memory_task *t);                /* without */
    void (*after)(struct memory_task *t, enum hlk_status status); /* with memory again */
    long least;                                                   /* allocations that it makes for certain */
};

void memory_for_every_step(const struct memory_kind *kind);

hlk_client *memory_open_short(unsigned flags);
hlk_lock *memory_make_lock(hlk_client *client, hlk_owner *owner);      /* the step's to destroy */

/* before: a client and its handles; and held by the owner; and held by somebody foreign, until memory_free_it */
void memory_before_any(struct memory_task *t);
void memory_before_hold(struct memory_task *t);
void memory_before_wait(struct memory_task *t);
void memory_free_it(void);
/* after: of an acquire that answered status; of a release that did */
void memory_after_acquire(struct memory_task *t, enum hlk_status status);
void memory_after_release(struct memory_task *t, enum hlk_status status);

#endif
