/* scene.h - the scenes that one fault is put into at each place in turn: a try, a wait, a renewed hold, nested holds
 * with fixed leases, opening. Each is played by blocking calls, by completions, or by completions in the caller's own
 * loop.
 *
 * A scene speaks to the server through the proxy, asserts after each answer that Redis and the caller agree, and ends
 * with nothing held. Whatever the fault: a call that may wait, and a hold that is renewed, get over it.
 */
#ifndef HLK_FAULT_SCENE_H
#define HLK_FAULT_SCENE_H

#include "trouble.h"

enum scene_mode { BLOCKING, ASYNC, DISPATCHED };

struct scene {
    enum scene_mode mode;
    bool        fair;           /* its lock, and the bystander's, are fair ones */
    int64_t     lease_ms;       /* the watchdog's; 0: LEASE_MS */
    int         k;              /* which request is struck */
    char        name[24];       /* the lock's, another for each k */
    hlk_client *client;         /* through the proxy */
    hlk_owner  *owner;
    hlk_lock   *lock;           /* the owner's: any thread may look at it */
    hlk_client *bystander;
    bool        late;           /* an older count may be written late: nobody decides by it (lock_reacquire.lua) */
    int         agreed;         /* answers at which the caller held */
};

typedef void scene_play(struct scene *s);
scene_play play_try, play_wait, play_timeout, play_renewed, play_nested;

#define PLAYS_MOST_K 32         /* no scene has so many requests: it would be one that never ends */

#define scene_assert(s, condition)                                                                                     \
    cr_assert((condition), "%s, k = %d, mode %d: %s; " #condition, (s)->name, (s)->k, (int)(s)->mode, hlk_last_error())

void scene_begin(struct scene *s, enum scene_mode mode, int k);     /* a client, connected; nothing is armed */
void scene_end(struct scene *s);                                    /* closes it; the bystander's stays */

/* hlk_lock_acquire_with, in the scene's mode, with whatever else is to be done while it waits. */
struct scene_call;
struct scene_call *scene_ask(struct scene *s, int64_t wait_ms, int64_t lease_ms);
enum hlk_status    scene_answer(struct scene *s, struct scene_call *call);
enum hlk_status    scene_acquire(struct scene *s, int64_t wait_ms, int64_t lease_ms);

/* After an acquire: what was told is so. True: it holds. */
bool scene_got(struct scene *s, enum hlk_status status);
void scene_agrees(struct scene *s, int count);
/* In the scene's mode, until the outcome is known. OK or LOST. */
enum hlk_status scene_release(struct scene *s);

/* Nothing is held any more: within two leases somebody else can have it. */
void scene_is_over(struct scene *s);
/* Somebody who takes the lock now keeps it for a while: nothing that is still on its way touches a later hold.
 * `meanwhile` (or NULL) happens while it is held. */
void scene_later_hold_is_safe(struct scene *s, void (*meanwhile)(struct scene *s));

#endif
