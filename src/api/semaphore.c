/* The semaphore: acquires by the operation of all locks, releases by that of all ends, and short commands.
 *
 * Redis has a note about each acquire and release, so that it happens once however often it is sent. When its answer
 * is here the note is needed no more, which the next command says (cmd->settled). */
#include "hasplock/semaphore.h"

#include "api/acquire_op.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "node/cluster.h"

#include <pthread.h>
#include <string.h>

#define SETTLED_MAX 8 /* in one command; those that are not sent grow old in Redis (lua/part_permits.lua) */
#define SETTLED_TEXT (SETTLED_MAX * 21 + 1)

struct hlk_semaphore {
    hlk_lock *lock;      /* without an entry: each call has one */
    struct hlk_mutex mu; /* rank LEAF; guards: */
    unsigned settled;
    uint64_t holds[SETTLED_MAX];
};

static enum hlk_status check(const hlk_semaphore *semaphore, const char *operation)
{
    if (!semaphore)
        return hlk_last_set(HLK_E_INVALID, "%s: semaphore is NULL", operation);
    return hlk_lock_check(semaphore->lock, operation);
}

static enum hlk_status check_permits(const hlk_semaphore *semaphore, const char *operation, int64_t permits,
                                     int64_t min)
{
    enum hlk_status status = check(semaphore, operation);
    if (status == HLK_OK && (permits < min || permits > HLK_PERMITS_MAX))
        return hlk_lock_fail(semaphore->lock, operation, HLK_E_INVALID, "%lld permits; %lld to %d are possible",
                             (long long)permits, (long long)min, HLK_PERMITS_MAX);
    return status;
}

/* --- notes that are needed no more --- */

static void note_settled(hlk_semaphore *semaphore, uint64_t hold)
{
    hlk_mutex_lock(&semaphore->mu);
    if (semaphore->settled < SETTLED_MAX)
        semaphore->holds[semaphore->settled++] = hold;
    hlk_mutex_unlock(&semaphore->mu);
}

/* As text, and no more here. */
static void take_settled(hlk_semaphore *semaphore, char out[SETTLED_TEXT])
{
    size_t len = 0;
    hlk_mutex_lock(&semaphore->mu);
    for (unsigned i = 0; i < semaphore->settled; i++) {
        len += hlk_text_number(out + len, (int64_t)semaphore->holds[i]);
        out[len++] = ' ';
    }
    semaphore->settled = 0;
    hlk_mutex_unlock(&semaphore->mu);
    out[len] = '\0';
}

struct farewell { /* nobody waits for it */
    struct hlk_command cmd;
    hlk_lock *lock;
    char settled[SETTLED_TEXT];
};

static void on_farewell(struct hlk_call *call)
{
    struct farewell *farewell = HLK_CONTAINER(call, struct farewell, cmd.call);
    hlk_command_drop_reply(&farewell->cmd);
    hlk_handle_release(&farewell->lock->handle);
    hlk_mem_free(farewell);
}

static void settle_rest(hlk_semaphore *semaphore)
{
    hlk_lock *lock = semaphore->lock;
    struct farewell *farewell = semaphore->settled ? hlk_mem_zalloc(sizeof *farewell) : NULL;
    struct hlk_error error;
    if (!farewell)
        return;
    take_settled(semaphore, farewell->settled);
    farewell->lock = lock;
    hlk_handle_retain(&lock->handle);
    farewell->cmd = (struct hlk_command){ .type = &hlk_command_permits,
                                          .change = HLK_PERMITS_SETTLE,
                                          .client_id = lock->client->id,
                                          .name = hlk_lock_text(lock),
                                          .name_len = hlk_lock_text_len(lock),
                                          .settled = farewell->settled };
    hlk_node_direct(hlk_lock_node(lock), &farewell->cmd);
    farewell->cmd.call.done = on_farewell;
    farewell->cmd.call.lazy = true;
    if (hlk_command_send(&farewell->cmd, &error) != HLK_COMMAND_IN_FLIGHT)
        on_farewell(&farewell->cmd.call);
}

/* --- the handle --- */

hlk_semaphore *hlk_semaphore_create(hlk_client *client, const char *name)
{
    static const char operation[] = "create semaphore";
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.kind = HLK_KIND_SEMAPHORE;
    opts.lease_ms = HLK_LEASE_MAX_MS; /* of a call, which ends before */
    if (hlk_client_check(client, operation, name) != HLK_OK)
        return NULL;
    if (client->part || !client->pubsub) {
        (void)hlk_last_set(HLK_E_INVALID, "%s: it needs a client with pub/sub, of servers that are one", operation);
        return NULL;
    }
    size_t len = hlk_lock_check_name(client, operation, name);
    if (len == 0)
        return NULL;
    hlk_semaphore *semaphore = hlk_mem_zalloc(sizeof *semaphore);
    if (semaphore)
        semaphore->lock = hlk_lock_make(client, name, len, &opts);
    if (semaphore && semaphore->lock) {
        hlk_mutex_init(&semaphore->mu, HLK_RANK_LEAF);
        return semaphore;
    }
    hlk_mem_free(semaphore);
    (void)hlk_last_set(HLK_E_NOMEM, "%s \"%.128s\": no memory", operation, name);
    return NULL;
}

void hlk_semaphore_destroy(hlk_semaphore *semaphore)
{
    if (!semaphore || semaphore->lock->client->process != hlk_thread_process())
        return;
    settle_rest(semaphore);
    hlk_mutex_fini(&semaphore->mu);
    hlk_lock_destroy(semaphore->lock);
    hlk_mem_free(semaphore);
}

const char *hlk_semaphore_name(const hlk_semaphore *semaphore)
{
    return semaphore ? hlk_lock_name(semaphore->lock) : NULL;
}

/* --- acquire --- */

/* The permits are the caller's, and have no holder: the entry lets go of its hold, and Redis is told nothing. In doubt
 * the note stays: a late attempt may come. */
static enum hlk_status keep(hlk_semaphore *semaphore, hlk_lock *own)
{
    struct hlk_release_record record;
    if (hlk_entry_release(own->entry, own->holder.id, &record) != HLK_LET_LAST) /* close has given them back */
        return hlk_lock_fail(own, "acquire", HLK_E_CLOSED, "the client is being closed");
    hlk_entry_release_finish(own->entry);
    if (!record.doubt)
        note_settled(semaphore, record.h);
    return HLK_OK;
}

static void on_thread_cancel(void *own)
{
    hlk_handle_release(&((hlk_lock *)own)->handle);
}

enum hlk_status hlk_semaphore_acquire_with(hlk_semaphore *semaphore, int64_t permits,
                                           const struct hlk_acquire_opts *given)
{
    struct hlk_acquire_opts opts;
    char settled[SETTLED_TEXT];
    enum hlk_status status = check_permits(semaphore, "acquire", permits, 1);
    if (status == HLK_OK)
        status = hlk_acquire_op_read_opts(semaphore->lock, "acquire", given, &opts);
    if (status != HLK_OK)
        return status;
    if (opts.lease_ms != 0)
        return hlk_lock_fail(semaphore->lock, "acquire", HLK_E_INVALID,
                             "lease_ms is not 0: permits of a semaphore have no lease");
    take_settled(semaphore, settled);
    hlk_lock *own = hlk_lock_call_handle(semaphore->lock, "acquire", permits, settled);
    if (!own)
        return HLK_E_NOMEM;
    pthread_cleanup_push(on_thread_cancel, own);
    status = hlk_lock_acquire_with(own, &opts);
    if (status == HLK_OK)
        status = keep(semaphore, own);
    pthread_cleanup_pop(1);
    return status;
}

enum hlk_status hlk_semaphore_acquire(hlk_semaphore *semaphore, int64_t permits, int64_t wait_ms)
{
    struct hlk_acquire_opts opts = HLK_ACQUIRE_OPTS_INIT;
    opts.wait_ms = wait_ms;
    return hlk_semaphore_acquire_with(semaphore, permits, &opts);
}

/* --- release --- */

struct give_back { /* of the waiter and of the pending release */
    struct hlk_release pending;
    hlk_lock *lock;
    atomic_int refs;
    enum hlk_release_outcome outcome;
    struct hlk_error error;
    char settled[SETTLED_TEXT];
};

static void unref_give_back(struct give_back *back)
{
    if (atomic_fetch_sub(&back->refs, 1) != 1)
        return;
    hlk_handle_release(&back->lock->handle);
    hlk_mem_free(back);
}

static void on_given_back(struct hlk_release *pending, enum hlk_release_outcome outcome, const struct hlk_error *error)
{
    struct give_back *back = HLK_CONTAINER(pending, struct give_back, pending);
    back->outcome = outcome;
    if (error)
        back->error = *error;
    unref_give_back(back);
}

static struct give_back *make_give_back(hlk_semaphore *semaphore, int64_t permits, int change)
{
    hlk_lock *lock = semaphore->lock;
    struct give_back *back = hlk_mem_zalloc(sizeof *back);
    if (!back)
        return NULL;
    struct hlk_node *node = hlk_lock_node(lock);
    atomic_init(&back->refs, 2);
    back->lock = lock;
    hlk_handle_retain(&lock->handle);
    take_settled(semaphore, back->settled);
    back->pending.cmd = (struct hlk_command){ .type = &hlk_command_permits,
                                              .change = change,
                                              .name = hlk_lock_text(lock),
                                              .name_len = hlk_lock_text_len(lock),
                                              .hold = atomic_fetch_add(&node->table->last_h, 1) + 1,
                                              .count = permits,
                                              .settled = back->settled };
    hlk_node_direct(node, &back->pending.cmd);
    back->pending.until_ms = hlk_clock_after(hlk_clock_ms(), HLK_LEASE_MAX_MS);
    back->pending.settled = on_given_back;
    return back;
}

static enum hlk_status given_back(const struct give_back *back)
{
    hlk_lock *lock = back->lock;
    switch (back->outcome) {
    case HLK_RELEASE_DONE:
        HLK_COUNT(&lock->client->table, released);
        return HLK_OK;
    case HLK_RELEASE_REFUSED:
        HLK_COUNT(&lock->client->table, release_refused);
        return hlk_lock_fail(lock, "release", back->error.status, "%s", back->error.text);
    case HLK_RELEASE_PENDING: /* never an outcome */
    case HLK_RELEASE_GIVEN_UP:
        return hlk_lock_fail(lock, "release", HLK_E_CLOSED, "the client was closed before an answer came");
    default:
        return hlk_lock_fail(lock, "release", HLK_NOT_HOLDER, "there is no such semaphore; nothing was changed");
    }
}

static enum hlk_status not_given_back_yet(const struct give_back *back, const struct hlk_error *why)
{
    static const char goes_on[] = "it is repeated in the background, and happens once";
    hlk_lock *lock = back->lock;
    HLK_COUNT(&lock->client->table, release_unsure);
    if (why->status == HLK_E_UNSURE || why->status == HLK_E_CONNECT)
        return hlk_lock_fail(lock, "release", why->status, "%s in %lld ms; %s",
                             why->status == HLK_E_UNSURE ? "sent, not answered" : "no connection",
                             (long long)lock->client->reply_timeout_ms, goes_on);
    return hlk_lock_fail(lock, "release", why->status, "%s (%s)", why->text, goes_on);
}

static enum hlk_status release(hlk_semaphore *semaphore, int64_t permits, int change)
{
    enum hlk_status status = check_permits(semaphore, "release", permits, 1);
    if (status != HLK_OK)
        return status;
    hlk_lock *lock = semaphore->lock;
    struct hlk_thread *self = hlk_thread_get();
    struct give_back *back = self ? make_give_back(semaphore, permits, change) : NULL;
    if (!back)
        return hlk_lock_fail(lock, "release", HLK_E_NOMEM, "no memory; nothing was sent");
    uint64_t hold = back->pending.cmd.hold;
    struct hlk_error why;
    int old = hlk_nocancel_begin();
    hlk_release_start(&hlk_lock_node(lock)->releases, &back->pending, self, false);
    why.status = hlk_release_wait(&back->pending, self, hlk_clock_ms() + lock->client->reply_timeout_ms, &why);
    if (why.status == HLK_OK) {
        status = given_back(back);
        if (status == HLK_OK && !back->pending.cmd.doubt)
            note_settled(semaphore, hold);
    } else {
        status = not_given_back_yet(back, &why);
    }
    unref_give_back(back);
    hlk_nocancel_end(old);
    return status;
}

enum hlk_status hlk_semaphore_release(hlk_semaphore *semaphore, int64_t permits)
{
    return release(semaphore, permits, HLK_PERMITS_RELEASE);
}

enum hlk_status hlk_semaphore_release_if_exists(hlk_semaphore *semaphore, int64_t permits)
{
    return release(semaphore, permits, HLK_PERMITS_RELEASE_IF);
}

/* --- short commands --- */

static void read_number(const struct hlk_command *cmd, void *number)
{
    const redisReply *reply = cmd->call.reply;
    *(int64_t *)number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
}

/* A write is sent once: what happened twice could not be told. */
static enum hlk_status change(hlk_semaphore *semaphore, const char *operation, const struct hlk_command *given,
                              int64_t *number)
{
    struct hlk_command cmd = *given;
    struct hlk_send_limits limits = { .once = cmd.change != HLK_PERMITS_GET };
    cmd.type = &hlk_command_permits;
    return hlk_lock_send(semaphore->lock, operation, &cmd, &limits, read_number, number);
}

enum hlk_status hlk_semaphore_try_set(hlk_semaphore *semaphore, int64_t permits, int64_t ttl_ms)
{
    static const char operation[] = "set permits of";
    int64_t made = 0;
    enum hlk_status status = check_permits(semaphore, operation, permits, 0);
    if (status != HLK_OK)
        return status;
    if (ttl_ms < 0)
        return hlk_lock_fail(semaphore->lock, operation, HLK_E_INVALID, "ttl_ms is negative");
    status =
        change(semaphore, operation,
               &(struct hlk_command){ .change = HLK_PERMITS_TRY_SET, .count = permits, .lease_ms = ttl_ms }, &made);
    return status == HLK_OK && !made
               ? hlk_lock_fail(semaphore->lock, operation, HLK_BUSY, "it exists already; nothing was changed")
               : status;
}

enum hlk_status hlk_semaphore_add(hlk_semaphore *semaphore, int64_t permits)
{
    static const char operation[] = "add permits to";
    int64_t sum;
    enum hlk_status status = check_permits(semaphore, operation, permits, -(int64_t)HLK_PERMITS_MAX);
    if (status == HLK_OK && permits == 0)
        return hlk_lock_fail(semaphore->lock, operation, HLK_E_INVALID, "0 permits; nothing was sent");
    return status == HLK_OK ? change(semaphore, operation,
                                     &(struct hlk_command){ .change = HLK_PERMITS_ADD, .count = permits }, &sum)
                            : status;
}

enum hlk_status hlk_semaphore_drain(hlk_semaphore *semaphore, int64_t *drained)
{
    int64_t number = 0;
    enum hlk_status status = check(semaphore, "drain");
    if (status == HLK_OK)
        status = change(semaphore, "drain", &(struct hlk_command){ .change = HLK_PERMITS_DRAIN }, &number);
    if (drained)
        *drained = number;
    return status;
}

enum hlk_status hlk_semaphore_available(hlk_semaphore *semaphore, int64_t *permits)
{
    int64_t number = 0;
    enum hlk_status status = check(semaphore, "available permits of");
    if (status == HLK_OK)
        status = change(semaphore, "available permits of", &(struct hlk_command){ .change = HLK_PERMITS_GET }, &number);
    if (permits)
        *permits = number;
    return status;
}
