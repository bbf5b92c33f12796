/* cancel.h - a trigger that signal handlers may pull, and the waits it ends.
 *
 * The trigger is one flag and one write to an eventfd. The loop thread sees the eventfd and wakes the registered
 * waits, so a wait needs no descriptor of its own and may sleep wherever it likes. A write only makes it look: what is
 * so is in the flag. Each step of the flag to 1 is followed by one write; only the loop thread reads them, and looks
 * at the flag afterwards. So a trigger wakes all that had joined unless it is reset first, however late the writes of
 * triggers before it come. */
#ifndef HLK_WAIT_CANCEL_H
#define HLK_WAIT_CANCEL_H

#include "base/mutex.h"
#include "hasplock/cancel.h"
#include "net/loop.h"

#include <stdatomic.h>

struct hlk_cancel_wait {                /* embedded in a wait */
    struct hlk_list link;               /* under the cancel's mutex */
    void (*wake)(struct hlk_cancel_wait *wait);     /* loop thread, under the mutex: only wakes */
};

struct hlk_cancel {
    atomic_int refs;
    atomic_int triggered;
    unsigned process;                   /* hlk_self_process() of its maker */
    int fd;
    hlk_loop *loop;
    void (*unref_client)(hlk_client *client);
    hlk_client *client;
    struct ev_io io;                    /* loop thread only */
    struct hlk_post watch;              /* starts io */
    struct hlk_post end;                /* frees: posted once, by whoever gave the last reference back */

    struct hlk_mutex mu;                /* rank CANCEL; guards: */
    struct hlk_list waits;
};

/* A reference of the client's is given with it, unref_client gives it back. NULL: no memory or no descriptor
 * (error). */
struct hlk_cancel *hlk_cancel_make(hlk_loop *loop, hlk_client *client, void (*unref_client)(hlk_client *),
                                   struct hlk_error *error);

/* True: registered. False: triggered already. A registered wait keeps the cancel's memory. */
bool hlk_cancel_join(struct hlk_cancel *cancel, struct hlk_cancel_wait *wait);
void hlk_cancel_leave(struct hlk_cancel *cancel, struct hlk_cancel_wait *wait);     /* no-op when not registered */

#endif
