/* entry_fixture.h - one lock's entry `e` in the table of fixture.h, and four waiters. */
#ifndef HLK_TEST_UNIT_ENTRY_FIXTURE_H
#define HLK_TEST_UNIT_ENTRY_FIXTURE_H

#include "base/mem.h"
#include "lease/entry.h"
#include "fixture.h"

#define LEASE 30000

extern struct hlk_entry *e;
extern struct hlk_release_record record;

/* --- the waiters --- */

struct fake_waiter {
    struct hlk_local_waiter waiter;
    atomic_uint holds;
    int woken;
    int asked;                  /* woken to send */
    struct hlk_park *park;      /* NULL, or where it sleeps: to be signalled */
};

extern struct fake_waiter ann, bob, cid, dan;

void born(struct fake_waiter *p);
void waiters_begin(void);
void waiters_end(void);

/* p becomes another thread of `as`'s owner. */
void same_owner(struct fake_waiter *p, struct fake_waiter *as);
enum hlk_enter enter(struct fake_waiter *p);
bool won_with(struct fake_waiter *p, int64_t lease_ms, bool fixed);
void win(struct fake_waiter *p);
void hold(struct fake_waiter *p);
void hold_fixed(struct fake_waiter *p, int64_t lease_ms);
enum hlk_release_verdict let_go(struct fake_waiter *p);
void release(struct fake_waiter *p);
void lose(void);
void lose_without_memory(void);
unsigned count_of(struct fake_waiter *p);
bool is_lost(struct fake_waiter *p);

/* It sleeps until it is the head waiter. wakes_of: how often it was woken. */
void fall_asleep(struct fake_waiter *p, struct hlk_park *park);
int wakes_of(struct fake_waiter *p);

/* The head waiter is about to send an attempt that takes a ticket in Redis' queue: that ticket. */
struct hlk_member queue(struct fake_waiter *p);

/* p becomes the head waiter, has a ticket in Redis' queue, and another client holds the lock. Returns the hold id. */
uint64_t wait_in_queue(struct fake_waiter *p);
int64_t token_of(struct fake_waiter *p);
uint64_t held_count(void);
enum hlk_enter nest_with(struct fake_waiter *p, int64_t lease_ms, unsigned *count);

#endif
