/* people.h - one lock's session `s` in a world (world.h), and four holders who want it. */
#ifndef HLK_TEST_PEOPLE_H
#define HLK_TEST_PEOPLE_H

#include "base/mem.h"
#include "lease/session.h"
#include "world.h"

#define LEASE 30000

static struct hlk_session *s;
static struct hlk_parting parting;

/* --- who takes part --- */

struct person {
    struct hlk_turn turn;
    atomic_uint holds;
    int woken;
    int asked;                  /* woken to ask the server */
    struct hlk_park *park;      /* NULL, or where it sleeps: to be paid */
};

static struct person ann, bob, cid, dan;

static inline struct hlk_park *count_wake(struct hlk_turn *turn, unsigned bit)
{
    struct person *p = HLK_CONTAINER(turn, struct person, turn);
    if (bit == HLK_WAKE_TURN)
        p->woken++;
    else
        p->asked++;
    return p->park ? hlk_park_set(p->park, bit) : NULL;
}

static inline void born(struct person *p)
{
    memset(p, 0, sizeof *p);
    p->turn.holder.id = hlk_self_number();
    p->turn.holder.holds = &p->holds;
    p->turn.lease_ms = LEASE;
    p->turn.wake = count_wake;
}

static inline void people_meet(void)
{
    world_open();
    s = world_session("a");
    born(&ann);
    born(&bob);
    born(&cid);
    born(&dan);
}

static inline void people_part(void)
{
    hlk_mem_fail_after(-1);
    hlk_session_unref(s);
    world_close();
}

/* bob becomes another thread of ann's owner */
static inline void same_owner(struct person *p, struct person *as)
{
    p->turn.holder = as->turn.holder;
}

static inline enum hlk_enter enter(struct person *p)
{
    p->turn.got = false;
    return hlk_session_enter(s, &p->turn);
}

static inline bool won_with(struct person *p, int64_t lease_ms, bool fixed)
{
    p->turn.lease_ms = lease_ms;
    p->turn.fixed = fixed;
    bool won = hlk_session_won(s, &p->turn, world_now_ms(), 0, false);
    hlk_session_tell_line(s, p->turn.holder.id, NULL, NULL);
    return won;
}

static inline void win(struct person *p)
{
    cr_assert(won_with(p, LEASE, false));
}

static inline void hold(struct person *p)
{
    cr_assert_eq(enter(p), HLK_ENTER_TURN);
    win(p);
}

static inline void hold_fixed(struct person *p, int64_t lease_ms)
{
    cr_assert_eq(enter(p), HLK_ENTER_TURN);
    cr_assert(won_with(p, lease_ms, true));
}

static inline enum hlk_let_go let_go(struct person *p)
{
    return hlk_session_let_go(s, p->turn.holder.id, &parting);
}

static inline void release(struct person *p)
{
    cr_assert_eq(let_go(p), HLK_LET_LAST);
    hlk_session_ended(s);
}

static inline void lose(void)
{
    cr_assert(hlk_session_lose(s, s->h, "broken", &parting));
    hlk_session_ended(s);
}

static inline void lose_without_memory(void)
{
    hlk_mem_fail_after(1);
    cr_assert_not(hlk_session_lose(s, s->h, "broken", &parting));
    hlk_mem_fail_after(-1);
}

static inline unsigned count_of(struct person *p)
{
    struct hlk_view view;
    hlk_session_view(s, p->turn.holder.id, &view);
    return view.lost ? 0 : view.count;
}

static inline bool is_lost(struct person *p)
{
    struct hlk_view view;
    hlk_session_view(s, p->turn.holder.id, &view);
    return view.lost;
}

/* It sleeps until its turn; wakes_of: how often the sleeper was woken. */
static inline void fall_asleep(struct person *p, struct hlk_park *park)
{
    hlk_park_init(park);
    p->park = park;
    cr_assert(hlk_park_begin(park, HLK_WAKE_TURN));
}

static inline int wakes_of(struct person *p)
{
    int tokens = 0;
    cr_assert_eq(sem_getvalue(&p->park->sem, &tokens), 0);
    return tokens;
}

/* The asker is about to send a copy that takes a place in Redis' queue: that place. */
static inline struct hlk_member queue(struct person *p)
{
    struct hlk_member member;
    cr_assert_eq(hlk_session_queue(s, &p->turn, true, &member), HLK_ENTER_TURN);
    return member;
}

/* First in the process's line, in Redis' queue, and answered that somebody else holds it: the hold id. */
static inline uint64_t wait_in_queue(struct person *p)
{
    cr_assert_eq(enter(p), HLK_ENTER_TURN);
    (void)queue(p);
    cr_assert_not(hlk_session_waits(s, &p->turn, false));
    cr_assert_eq(s->state, HLK_SESSION_WAITING);
    return p->turn.h;
}

static inline int64_t token_of(struct person *p)
{
    struct hlk_view view;
    hlk_session_view(s, p->turn.holder.id, &view);
    return view.token;
}

static inline uint64_t held_count(void)
{
    return atomic_load(&world.table.counts.held);
}

static inline enum hlk_enter nest_with(struct person *p, int64_t lease_ms, unsigned *count)
{
    uint64_t h;
    return hlk_session_nest(s, p->turn.holder.id, lease_ms, count, &h);
}

#endif
