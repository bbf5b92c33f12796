/* Permits that are named by id: taken for a lease that is not renewed, given back by any process that knows the id. */
#include <hasplock/permits.h>

#include "acquire/acquire_blocking.h"

#include "base/debug.h"
#include "base/mutex.h"
#include "handle/send.h"
#include "lease/entry_lose.h"
#include "lease/holding.h"
#include "net/pipeline_link.h"
#include "semaphore/permits.h"

#include <ctype.h>
#include <pthread.h>

#define REDISSON_ID 16 /* bytes */

/* --- taking --- */

/* The permit is the caller's until its lease is over: the entry lets go of its hold, and Redis is told nothing. */
static enum hlk_status keep_without_holder(const struct hlk_acquire_terms *terms)
{
    HLK_DEBUG_ASSERT(terms->holder.id);
    struct hlk_release_record record;
    switch (hlk_entry_release(terms->entry, terms->holder.id, &record)) {
    case HLK_VERDICT_LAST:
        hlk_entry_release_finish(terms->entry);
        return HLK_OK;
    case HLK_VERDICT_LOST:
        return hlk_lock_fail(terms->lock, "take", HLK_LOST, "its lease was over before this call returned");
    default: /* close has given it back */
        return hlk_lock_fail(terms->lock, "take", HLK_E_CLOSED, "the client is being closed");
    }
}

static enum hlk_status take(const struct hlk_acquire_terms *terms, const struct hlk_acquire_opts *opts,
                            struct hlk_thread *self, struct hlk_taken_permit *taken)
{
    hlk_mutex_assert_none();
    struct hlk_view view = { 0 };
    enum hlk_status status = hlk_acquire_on(terms, opts, self);
    if (status != HLK_OK)
        return status;
    hlk_entry_view(terms->entry, terms->holder.id, &view);
    (void)hlk_field(taken->id, terms->lock->client->id, view.h);
    taken->until_ms = view.until_ms;
    return keep_without_holder(terms);
}

_Static_assert(sizeof(((struct hlk_taken_permit *)0)->id) >= HLK_FIELD_MAX, "an id is a hold");

static void end_take_terms(void *terms)
{
    hlk_acquire_terms_end(terms);
}

enum hlk_status hlk_permits_take(hlk_permits *permits, int64_t lease_ms, int64_t wait_ms, struct hlk_taken_permit *out)
{
    enum hlk_status status = hlk_permits_check(permits, "take");
    hlk_lock *lock = permits ? permits->by_call : NULL;
    struct hlk_acquire_opts asked = HLK_ACQUIRE_OPTS_INIT, opts;
    struct hlk_taken_permit taken = HLK_TAKEN_PERMIT_INIT;
    asked.lease_ms = lease_ms;
    asked.wait_ms = wait_ms;
    if (status == HLK_OK && (!out || out->size < sizeof out->size))
        status = hlk_lock_fail(lock, "take", HLK_E_INVALID, "set out->size before the call");
    if (status == HLK_OK && lease_ms <= 0)
        status = hlk_lock_fail(lock, "take", HLK_E_INVALID, "lease_ms is not between 100 and a year");
    if (status == HLK_OK)
        status = hlk_acquire_read_opts(lock, "take", &asked, &opts);
    if (status != HLK_OK)
        return status;
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_lock_fail(lock, "take", HLK_E_NOMEM, "no memory; nothing was sent");
    struct hlk_acquire_terms terms = { .lock = lock, .holder = hlk_lock_call_holder(lock), .permits = 1 };
    terms.entry = hlk_lock_entry(lock, "take", terms.holder.id);
    if (!terms.entry)
        return HLK_E_NOMEM;
    pthread_cleanup_push(end_take_terms, &terms);
    status = take(&terms, &opts, self, &taken);
    pthread_cleanup_pop(1);
    if (status != HLK_OK)
        return status;
    taken.size = out->size;
    memcpy(out, &taken, out->size < sizeof taken ? out->size : sizeof taken);
    return HLK_OK;
}

/* --- by id --- */

struct id {
    char bytes[HLK_FIELD_MAX];
    size_t len;
};

static int digit(char c)
{
    HLK_DEBUG_ASSERT(isxdigit((unsigned char)c));
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* As Redis has it: a hold as it is, Redisson's from 32 hex digits. */
static bool read_id(const char *text, struct id *out)
{
    size_t len = text ? strnlen(text, HLK_FIELD_MAX) : 0;
    out->len = 0;
    if (len > 0 && len < HLK_FIELD_MAX && hlk_field_is_ours(text)) {
        memcpy(out->bytes, text, len);
        out->len = len;
    } else if (len == 2 * (size_t)REDISSON_ID) {
        for (size_t i = 0; i < len && isxdigit((unsigned char)text[i]); i++) {
            int value = digit(text[i]);
            out->bytes[i / 2] = (char)(i % 2 ? (unsigned char)out->bytes[i / 2] | value : value << 4);
            out->len = i == len - 1 ? REDISSON_ID : 0;
        }
    }
    return out->len > 0;
}

static enum hlk_status check_id(hlk_permits *permits, const char *operation, const char *text, struct id *id)
{
    enum hlk_status status = hlk_permits_check(permits, operation);
    if (status == HLK_OK && !read_id(text, id))
        return hlk_lock_fail(permits->by_call, operation, HLK_E_INVALID,
                             "it is no id of a permit, which is a hold of hasplock or 32 hex digits");
    return status;
}

static void read_given_back(const struct hlk_command *cmd, void *done)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    const redisReply *reply = cmd->call.reply;
    *(int64_t *)done = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
}

static void read_extended(const struct hlk_command *cmd, void *done)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    enum hlk_raised raised = hlk_answer_read_raised(cmd);
    *(int64_t *)done = raised == HLK_RAISED_YES ? 1 : raised == HLK_RAISED_GONE ? 0 : -1;
    if (raised == HLK_RAISED_NONE)
        hlk_pipeline_distrust(cmd->pipeline, cmd->call.epoch);
}

/* 1: done. 0: no hold has it. */
static enum hlk_status send_about(hlk_permits *permits, const char *operation, const struct id *id,
                                  const struct hlk_command_type *type, int64_t lease_ms, bool once)
{
    HLK_DEBUG_ASSERT(type->put && id->len > 0 && id->len < sizeof id->bytes);
    hlk_lock *lock = permits->by_call;
    struct hlk_command cmd = {
        .type = type,
        .id = id->bytes,
        .id_len = id->len,
        .lease_ms = lease_ms,
        .count = 1,
        .drops = lock->defaults->drops_number,
    };
    int64_t done = 0;
    enum hlk_status status =
        hlk_lock_send(lock, operation, &cmd, &(struct hlk_send_limits){ .once = once },
                      type == hlk_format_permit.reacquire ? read_extended : read_given_back, &done);
    if (status != HLK_OK)
        return status;
    if (done < 0)
        return hlk_lock_fail(lock, operation, HLK_E_SERVER, "unexpected reply of the server");
    return done ? HLK_OK : hlk_lock_fail(lock, operation, HLK_NOT_HOLDER, "nobody has this permit");
}

enum hlk_status hlk_permits_give_back(hlk_permits *permits, const char *id)
{
    static const char operation[] = "give back a permit of";
    struct id read;
    enum hlk_status status = check_id(permits, operation, id, &read);
    return status == HLK_OK ? send_about(permits, operation, &read, &hlk_format_permit.release, 0, true) : status;
}

enum hlk_status hlk_permits_extend(hlk_permits *permits, const char *id, int64_t lease_ms)
{
    static const char operation[] = "extend a permit of";
    struct id read;
    enum hlk_status status = check_id(permits, operation, id, &read);
    if (status == HLK_OK && (lease_ms < HLK_LEASE_MIN_MS || lease_ms > HLK_LEASE_MAX_MS))
        return hlk_lock_fail(permits->by_call, operation, HLK_E_INVALID, "lease_ms is not between 100 and a year");
    return status == HLK_OK ? send_about(permits, operation, &read, hlk_format_permit.reacquire, lease_ms, false)
                            : status;
}

struct left {
    const struct id *id;
    int64_t ms;
    bool understood;
};

/* {ttl, listeners, holder, ...}: the holder is this id, if it is held. */
static void read_left(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    struct left *left = ctx;
    const redisReply *reply = cmd->call.reply;
    left->understood = reply->type == REDIS_REPLY_ARRAY && reply->elements == 6 &&
                       reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[2]->type == REDIS_REPLY_STRING;
    if (!left->understood)
        return;
    bool held =
        reply->element[2]->len == left->id->len && memcmp(reply->element[2]->str, left->id->bytes, left->id->len) == 0;
    left->ms = held ? reply->element[0]->integer : 0;
}

enum hlk_status hlk_permits_left_ms(hlk_permits *permits, const char *id, int64_t *left_ms)
{
    static const char operation[] = "look at a permit of";
    struct id read;
    struct left left = { .id = &read };
    enum hlk_status status = check_id(permits, operation, id, &read);
    hlk_lock *lock = permits ? permits->by_call : NULL;
    if (status == HLK_OK && !left_ms)
        return hlk_lock_fail(lock, operation, HLK_E_INVALID, "no room for what is left");
    if (status != HLK_OK)
        return status;
    struct hlk_command cmd = { .type = &hlk_format_permit.query, .id = read.bytes, .id_len = read.len };
    status = hlk_lock_send(lock, operation, &cmd, NULL, read_left, &left);
    if (status == HLK_OK && !left.understood)
        return hlk_lock_fail(lock, operation, HLK_E_SERVER, "unexpected reply of the server");
    if (status == HLK_OK)
        *left_ms = left.ms;
    return status;
}
