/* locks.c - see locks.h. */
#include "locks.h"

#include <string.h>

#define QUEUE_MAX 64 /* entries of the queue that are searched for our own */

bool locks_create(struct locks *locks, hlk_client *client, const struct options *options, hlk_owner *owner)
{
    struct hlk_lock_opts opts = options_lock(options);
    int kind = opts.kind;
    *locks = (struct locks){ .client = client };
    opts.owner = owner;
    if (kind == HLK_LOCK_READ || kind == HLK_LOCK_WRITE) {
        opts.kind = HLK_LOCK_PLAIN;
        locks->halves = hlk_rwlock_create(client, options->name, &opts);
        locks->lock = kind == HLK_LOCK_READ ? hlk_rwlock_read(locks->halves) : hlk_rwlock_write(locks->halves);
    } else {
        locks->lock = hlk_lock_create(client, options->name, &opts);
    }
    return locks->lock != NULL;
}

void locks_destroy(struct locks *locks)
{
    if (locks->halves)
        hlk_rwlock_destroy(locks->halves);
    else
        hlk_lock_destroy(locks->lock);
}

/* --- who is in the way */

static int64_t position_in(const struct hlk_waiter *waiters, size_t n, const char *client_id)
{
    size_t len = strlen(client_id);
    for (size_t i = 0; i < n && i < QUEUE_MAX; i++)
        if (strncmp(waiters[i].holder, client_id, len) == 0 && waiters[i].holder[len] == ':')
            return (int64_t)i + 1;
    return 0;
}

static int64_t position(const struct locks *locks)
{
    struct hlk_waiter waiters[QUEUE_MAX];
    size_t n;
    waiters[0].size = sizeof waiters[0];
    if (hlk_lock_waiters(locks->lock, waiters, QUEUE_MAX, &n) != HLK_OK)
        return 0;
    return position_in(waiters, n, hlk_client_id(locks->client));
}

static enum hlk_status look_at(hlk_lock *lock, int kind, struct locks_obstacle *obstacle)
{
    *obstacle = (struct locks_obstacle){ .state = HLK_LOCK_STATE_INIT, .kind = kind };
    return hlk_lock_query(lock, &obstacle->state);
}

/* Readers are looked at if there is no writer. */
static enum hlk_status look_at_halves(const struct locks *locks, struct locks_obstacle *obstacle)
{
    enum hlk_status status = look_at(hlk_rwlock_write(locks->halves), HLK_LOCK_WRITE, obstacle);
    if (status != HLK_OK || obstacle->state.held)
        return status;
    return look_at(hlk_rwlock_read(locks->halves), HLK_LOCK_READ, obstacle);
}

/* Readers are in the way of another reader only if that one is in the queue: a writer before it waits for them. */
enum hlk_status locks_look(const struct locks *locks, struct locks_obstacle *obstacle)
{
    enum hlk_status status = locks->halves ? look_at_halves(locks, obstacle) : look_at(locks->lock, 0, obstacle);
    if (status != HLK_OK || !obstacle->state.held)
        return status;
    bool reads = locks->halves && locks->lock == hlk_rwlock_read(locks->halves);
    if (!obstacle->state.mine)
        obstacle->position = position(locks);
    if (obstacle->state.mine || (reads && obstacle->kind == HLK_LOCK_READ && obstacle->position == 0))
        obstacle->state.held = 0;
    return HLK_OK;
}
