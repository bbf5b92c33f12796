/* scenario.h - the scenarios for faults: a try, a wait, a renewed hold, nested holds with fixed leases, opening. A
 * fault strikes each request of a scenario in turn. Each scenario runs with blocking calls, with completions, and with
 * completions in the caller's own loop.
 *
 * A scenario connects through the proxy, asserts after each reply that Redis and the caller agree, and ends with
 * nothing held. A call that may wait, and a renewed hold, survive every fault. */
#ifndef HLK_FAULT_SCENARIO_H
#define HLK_FAULT_SCENARIO_H

#include "fixture.h"

enum scenario_mode { BLOCKING, ASYNC, DISPATCHED };

struct scenario {
    enum scenario_mode mode;
    bool        fair;           /* its lock and the bystander's are fair */
    int64_t     lease_ms;       /* the watchdog's; 0: LEASE_MS */
    int         k;              /* number of the struck request */
    char        name[24];       /* the lock's, different for each k */
    hlk_client *client;         /* through the proxy */
    hlk_owner  *owner;
    hlk_lock   *lock;           /* the owner's, so any thread may use it */
    hlk_client *bystander;
    bool        late;           /* an older count may be written late; it decides nothing (lock_reacquire.lua) */
    int         agreed;         /* replies after which the caller held */
};

typedef void scenario_play(struct scenario *s);
scenario_play play_try, play_wait, play_timeout, play_renewed, play_nested;

#define PLAYS_MOST_K 32         /* no scenario has so many requests: the limit ends an endless one */

#define scenario_assert(s, condition)                                                                                  \
    cr_assert((condition), "%s, k = %d, mode %d: %s; " #condition, (s)->name, (s)->k, (int)(s)->mode, hlk_last_error())

void scenario_begin(struct scenario *s, enum scenario_mode mode, int k);  /* a connected client; no fault is armed */
void scenario_end(struct scenario *s);                                    /* closes the client; the bystander's stays
                                                                           * open */

/* hlk_lock_acquire_with in the scenario's mode; the test continues while it waits. */
struct scenario_call;
struct scenario_call *scenario_ask(struct scenario *s, int64_t wait_ms, int64_t lease_ms);
enum hlk_status    scenario_answer(struct scenario *s, struct scenario_call *call);
enum hlk_status    scenario_acquire(struct scenario *s, int64_t wait_ms, int64_t lease_ms);

/* After an acquire: checks that the status is true. True: it holds. */
bool scenario_got(struct scenario *s, enum hlk_status status);
void scenario_agrees(struct scenario *s, int count);
/* In the scenario's mode, until the outcome is known. Returns OK or LOST. */
enum hlk_status scenario_release(struct scenario *s);

/* Nothing is held any more: another client can acquire within two leases. */
void scenario_is_over(struct scenario *s);
/* A client that acquires now keeps the lock: nothing that is still in flight affects a later hold. `meanwhile` (or
 * NULL) runs while it is held. */
void scenario_later_hold_is_safe(struct scenario *s, void (*meanwhile)(struct scenario *s));

#endif
