/* cancel.h - a trigger for signal handlers, and the waits that it ends.
 *
 * The trigger is one flag and one write to an eventfd. The loop thread reads the eventfd and wakes the registered
 * waits, so a wait needs no descriptor of its own. Only the flag says whether the cancel is triggered; a write makes
 * the loop thread check it. Each change of the flag to 1 is followed by one write. Only the loop thread reads the
 * writes, and it checks the flag afterwards. So a trigger that is not reset wakes every wait that joined before it,
 * even if writes of earlier triggers arrive late. */
#ifndef HLK_WAIT_CANCEL_H
#define HLK_WAIT_CANCEL_H

#include "base/mutex.h"
#include "hasplock/cancel.h"
#include "net/loop.h"

#include <stdatomic.h>

struct hlk_cancel_wait {                        /* embedded in a wait */
    struct hlk_list link;                       /* under the cancel's mutex */
    void (*wake)(struct hlk_cancel_wait *wait); /* loop thread, under the mutex: only wakes */
};

struct hlk_cancel {
    atomic_int refs;
    atomic_int triggered;
    unsigned process;                   /* hlk_thread_process() of the process that made it */
    int fd;
    hlk_loop *loop;
    void (*unref_client)(hlk_client *client);
    hlk_client *client;
    struct hlk_watch watch;             /* loop thread only, after it is made */
    struct hlk_post end;                /* frees it: posted once, with the last reference */

    struct hlk_mutex mu;                /* rank CANCEL; guards: */
    struct hlk_list waits;
};

/* Takes over a reference to the client, which unref_client gives back. NULL: no memory or no descriptor (error). */
struct hlk_cancel *hlk_cancel_make(hlk_loop *loop, hlk_client *client, void (*unref_client)(hlk_client *),
                                   struct hlk_error *error);

/* True: registered. False: triggered already. A registered wait keeps the cancel in memory. */
bool hlk_cancel_join(struct hlk_cancel *cancel, struct hlk_cancel_wait *wait);
void hlk_cancel_leave(struct hlk_cancel *cancel, struct hlk_cancel_wait *wait);     /* no-op when not registered */

#endif
