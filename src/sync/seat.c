/* Seats: how threads use one handle of a fair lock.
 *
 * A plain lock has one session for each process, and its threads stand in that session's line. In a fair lock's queue
 * each of them has a place of its own among all processes' threads, so each has a session of its own, with a hold id,
 * a lease and a renewal. A seat is what one thread's call, and then its hold, works with: a handle like that of an
 * owner, whose holder is the thread. It costs some memory while it lasts. Events and the descriptor of losses are the
 * given handle's. */
#include "sync/handle.h"

#include "base/mem.h"

static void free_seat(struct hlk_via *via)
{
    hlk_lock *seat = HLK_CONTAINER(via, hlk_lock, via);
    struct hlk_via *parent = via->parent;
    hlk_session_unref(seat->session);
    hlk_mem_free(seat);
    hlk_via_unref(parent);
}

hlk_lock *hlk_lock_seat(hlk_lock *lock, const char *operation)
{
    if (lock->session)
        return lock;
    struct hlk_self *self = hlk_self_get();
    hlk_lock *seat = self ? hlk_mem_zalloc(sizeof *seat) : NULL;
    struct hlk_session *s =
        seat ? hlk_session_get_fair(&lock->client->table, lock->name, strlen(lock->name), self->id, true) : NULL;
    if (!s) {
        hlk_mem_free(seat);
        (void)hlk_lock_fails(lock, operation, HLK_E_NOMEM, "no memory; nothing was sent");
        return NULL;
    }
    atomic_init(&seat->via.refs, 1);
    seat->via.hook = lock->via.hook;
    seat->via.free = free_seat;
    seat->via.parent = &lock->via;
    hlk_via_ref(&lock->via);
    seat->client = lock->client;
    seat->session = s;
    seat->holder = (struct hlk_holder){ self->id, &self->holds };
    seat->lease_ms = lock->lease_ms;
    seat->max_hold_ms = lock->max_hold_ms;
    seat->fair = true;
    return seat;
}

void hlk_lock_unseat(const hlk_lock *lock, hlk_lock *seat)
{
    if (seat && seat != lock)
        hlk_via_unref(&seat->via);
}
