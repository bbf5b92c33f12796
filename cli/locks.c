/* locks.c - see locks.h. */
#include "locks.h"

#include "around.h"
#include "holder.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

#define QUEUE_MAX 64 /* entries of the queue that are searched for our own */

/* --- making */

static void create_one(struct locks *locks, const char *name, const struct hlk_lock_opts *given)
{
    struct hlk_lock_opts opts = *given;
    size_t i = locks->count++;
    if (given->kind == HLK_LOCK_READ || given->kind == HLK_LOCK_WRITE) {
        opts.kind = HLK_LOCK_PLAIN;
        locks->halves[i] = hlk_rwlock_create(locks->client, name, &opts);
        locks->each[i] =
            given->kind == HLK_LOCK_READ ? hlk_rwlock_read(locks->halves[i]) : hlk_rwlock_write(locks->halves[i]);
    } else {
        locks->each[i] = hlk_lock_create(locks->client, name, &opts);
    }
}

static void insert_by_name(struct locks *locks, const char *const *names, size_t i)
{
    size_t at = i;
    for (; at > 0 && strcmp(names[locks->order[at - 1]], names[i]) > 0; at--)
        locks->order[at] = locks->order[at - 1];
    locks->order[at] = i;
}

bool locks_create(struct locks *locks, hlk_client *client, const struct options *options, hlk_owner *owner)
{
    struct hlk_lock_opts opts = options_lock(options);
    opts.owner = owner;
    *locks = (struct locks){ .client = client };
    for (size_t i = 0; i < options->names_count; i++) {
        create_one(locks, options->names[i], &opts);
        insert_by_name(locks, options->names, i);
        if (!locks->each[i])
            return false;
    }
    locks->lock = locks->count > 1 ? hlk_lock_create_multilock(locks->each, locks->count, NULL) : locks->each[0];
    return locks->lock != NULL;
}

void locks_destroy(struct locks *locks)
{
    if (locks->count > 1)
        hlk_lock_destroy(locks->lock);
    for (size_t i = 0; i < locks->count; i++) {
        if (locks->halves[i])
            hlk_rwlock_destroy(locks->halves[i]);
        else
            hlk_lock_destroy(locks->each[i]);
    }
}

/* --- who is in the way */

static bool is_ours(const struct locks *locks, const char *holder)
{
    const char *client_id = hlk_client_id(locks->client);
    size_t len = strlen(client_id);
    return strncmp(holder, client_id, len) == 0 && holder[len] == ':';
}

static int64_t position_of(const struct locks *locks, size_t i)
{
    struct hlk_waiter waiters[QUEUE_MAX];
    size_t n;
    waiters[0].size = sizeof waiters[0];
    if (hlk_lock_waiters(locks->each[i], waiters, QUEUE_MAX, &n) != HLK_OK)
        return 0;
    for (size_t at = 0; at < n && at < QUEUE_MAX; at++)
        if (is_ours(locks, waiters[at].holder))
            return (int64_t)at + 1;
    return 0;
}

static enum hlk_status look_at(hlk_lock *lock, int kind, struct locks_obstacle *obstacle)
{
    *obstacle = (struct locks_obstacle){ .state = HLK_LOCK_STATE_INIT, .name = hlk_lock_name(lock), .kind = kind };
    return hlk_lock_query(lock, &obstacle->state);
}

/* Readers are looked at if there is no writer. */
static enum hlk_status look_at_halves(const hlk_rwlock *halves, struct locks_obstacle *obstacle)
{
    enum hlk_status status = look_at(hlk_rwlock_write(halves), HLK_LOCK_WRITE, obstacle);
    if (status != HLK_OK || obstacle->state.held)
        return status;
    return look_at(hlk_rwlock_read(halves), HLK_LOCK_READ, obstacle);
}

/* Readers are in the way of another reader only if that one is in the queue: a writer before it waits for them. A lock
 * may be ours already, and its acquire not answered yet: then it is not `mine`, and named as ours. */
static enum hlk_status look_at_one(const struct locks *locks, size_t i, struct locks_obstacle *obstacle)
{
    const hlk_rwlock *halves = locks->halves[i];
    enum hlk_status status = halves ? look_at_halves(halves, obstacle) : look_at(locks->each[i], 0, obstacle);
    if (status != HLK_OK || !obstacle->state.held)
        return status;
    bool reads = halves && locks->each[i] == hlk_rwlock_read(halves);
    bool ours = obstacle->state.mine || is_ours(locks, obstacle->state.holder);
    if (!ours)
        obstacle->position = position_of(locks, i);
    if (ours || (reads && obstacle->kind == HLK_LOCK_READ && obstacle->position == 0))
        obstacle->state.held = 0;
    return HLK_OK;
}

enum hlk_status locks_look(const struct locks *locks, bool nested, struct locks_obstacle *obstacle)
{
    bool over = false;
    *obstacle = (struct locks_obstacle){ .state = HLK_LOCK_STATE_INIT };
    for (size_t i = 0; i < locks->count && !over; i++) {
        struct locks_obstacle one;
        enum hlk_status status = look_at_one(locks, locks->order[i], &one);
        if (status != HLK_OK)
            return status;
        if (!one.state.held)
            continue;
        bool around = nested && around_has(one.state.holder);
        if (around || !obstacle->state.held)
            *obstacle = one;
        over = around || !nested;
    }
    return HLK_OK;
}

/* --- words */

void locks_add_json(const struct locks *locks, const char *name, const char *holder, struct json *fields)
{
    if (locks->count > 1)
        json_string(fields, "lock", name);
    holder_add_json(holder, fields);
}

const char *locks_which(const struct options *options, const char *name, char buf[LOCKS_WHICH])
{
    char shown[LOCKS_WHICH - 8];
    buf[0] = '\0';
    if (options->names_count > 1)
        snprintf(buf, LOCKS_WHICH, "\"%s\" ", text_shown(shown, sizeof shown, name));
    return buf;
}
