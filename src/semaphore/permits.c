/* Permits with leases: how many there are. All else is done by the lock that a permit is, and by
 * src/kinds/format_permit.c. */
#include "semaphore/permits.h"

#include "base/debug.h"
#include "base/mem.h"
#include "base/opts.h"
#include "handle/send.h"

HLK_OPTS_NO_TAIL(struct hlk_lock_opts, permits);

static const char create_what[] = "permits";

hlk_permits *hlk_permits_create(hlk_client *client, const char *name, const struct hlk_lock_opts *given)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    const char *wrong = NULL;
    if (given && !hlk_opts_copy(&opts, sizeof opts, given, given->size))
        wrong = "options of this size are not known";
    else if (opts.kind != HLK_LOCK_PLAIN)
        wrong = "opts.kind is not 0";
    opts.kind = HLK_LOCK_PERMIT;
    hlk_lock *permit = hlk_lock_create_as(client, create_what, name, &opts, wrong);
    if (!permit)
        return NULL;
    opts.owner = NULL;
    opts.on_event = NULL;
    hlk_permits *permits = hlk_mem_zalloc(sizeof *permits);
    hlk_lock *by_call = permits ? hlk_lock_make(client, name, strlen(name), &opts) : NULL;
    if (!by_call) {
        (void)hlk_last_set(HLK_E_NOMEM, "create %s \"%.128s\": no memory", create_what, name);
        hlk_mem_free(permits);
        hlk_lock_destroy(permit);
        return NULL;
    }
    *permits = (struct hlk_permits){ .permit = permit, .by_call = by_call };
    return permits;
}

void hlk_permits_destroy(hlk_permits *permits)
{
    if (!permits)
        return;
    hlk_lock_destroy(permits->permit);
    hlk_lock_destroy(permits->by_call);
    hlk_mem_free(permits);
}

hlk_lock *hlk_permits_permit(const hlk_permits *permits)
{
    return permits ? permits->permit : NULL;
}

enum hlk_status hlk_permits_check(const hlk_permits *permits, const char *operation)
{
    return permits ? hlk_lock_check(permits->permit, operation) : hlk_last_null(operation, "permits");
}

static enum hlk_status check_range(const hlk_permits *permits, const char *operation, int64_t number, int64_t min)
{
    enum hlk_status status = hlk_permits_check(permits, operation);
    if (status == HLK_OK && (number < min || number > HLK_PERMITS_MAX))
        return hlk_lock_fail(permits->permit, operation, HLK_E_INVALID, "%lld permits; %lld to %d are possible",
                             (long long)number, (long long)min, HLK_PERMITS_MAX);
    return status;
}

/* `once`: if it runs twice it is not the same, so an attempt in doubt is not repeated. */
static enum hlk_status change_number(hlk_permits *permits, const char *operation, enum hlk_permits_change change,
                                     int64_t number, bool once, int64_t *done)
{
    HLK_DEBUG_ASSERT(change <= HLK_PERMITS_DELETE);
    const struct hlk_command cmd = { .type = &hlk_permits_command, .change = change, .count = number };
    return hlk_lock_ask_number(permits->permit, operation, &cmd, once, done);
}

enum hlk_status hlk_permits_try_set(hlk_permits *permits, int64_t number)
{
    static const char operation[] = "set permits of";
    int64_t done = 0;
    enum hlk_status status = check_range(permits, operation, number, 0);
    if (status == HLK_OK)
        status = change_number(permits, operation, HLK_PERMITS_TRY_SET, number, true, &done);
    if (status == HLK_OK && !done)
        return hlk_lock_fail(permits->permit, operation, HLK_BUSY, "their number was set already; nothing was changed");
    return status;
}

enum hlk_status hlk_permits_set(hlk_permits *permits, int64_t number)
{
    static const char operation[] = "set permits of";
    int64_t done = 0;
    enum hlk_status status = check_range(permits, operation, number, 0);
    return status == HLK_OK ? change_number(permits, operation, HLK_PERMITS_SET, number, false, &done) : status;
}

enum hlk_status hlk_permits_add(hlk_permits *permits, int64_t number)
{
    static const char operation[] = "add permits to";
    int64_t done = 0;
    enum hlk_status status = check_range(permits, operation, number, -(int64_t)HLK_PERMITS_MAX);
    if (status == HLK_OK && number == 0)
        return hlk_lock_fail(permits->permit, operation, HLK_E_INVALID, "0 permits; nothing was sent");
    return status == HLK_OK ? change_number(permits, operation, HLK_PERMITS_ADD, number, true, &done) : status;
}

enum hlk_status hlk_permits_delete(hlk_permits *permits)
{
    static const char operation[] = "delete permits of";
    int64_t done = 0;
    enum hlk_status status = hlk_permits_check(permits, operation);
    if (status == HLK_OK)
        status = change_number(permits, operation, HLK_PERMITS_DELETE, 0, true, &done);
    if (status == HLK_OK && done < 0)
        return hlk_lock_fail(permits->permit, operation, HLK_BUSY, "permits are held (%lld); nothing was changed",
                             (long long)-done);
    if (status == HLK_OK && done == 0)
        return hlk_lock_fail(permits->permit, operation, HLK_NOT_HOLDER, "there is no number of permits");
    return status;
}

struct counts {
    struct hlk_permits_state state;
    bool understood;
};

/* {free, held, waiting} */
static void read_counts(const struct hlk_command *cmd, void *ctx)
{
    HLK_DEBUG_ASSERT(cmd->call.reply);
    struct counts *counts = ctx;
    const redisReply *reply = cmd->call.reply;
    int64_t numbers[3] = { 0 };
    counts->understood = reply->type == REDIS_REPLY_ARRAY && reply->elements == 3;
    for (size_t i = 0; counts->understood && i < 3; i++) {
        counts->understood = reply->element[i]->type == REDIS_REPLY_INTEGER;
        numbers[i] = reply->element[i]->integer;
    }
    counts->state.free = numbers[0];
    counts->state.held = numbers[1];
    counts->state.waiting = numbers[2];
}

enum hlk_status hlk_permits_query(hlk_permits *permits, struct hlk_permits_state *out)
{
    static const char operation[] = "count permits of";
    const struct hlk_command cmd = { .type = &hlk_permits_command, .change = HLK_PERMITS_GET };
    struct counts counts = { .understood = false };
    enum hlk_status status = hlk_permits_check(permits, operation);
    if (status == HLK_OK && (!out || out->size < sizeof out->size))
        return hlk_lock_fail(permits->permit, operation, HLK_E_INVALID, "set out->size before the call");
    if (status == HLK_OK)
        status = hlk_lock_send(permits->permit, operation, &cmd, NULL, read_counts, &counts);
    if (status == HLK_OK && !counts.understood)
        return hlk_lock_fail(permits->permit, operation, HLK_E_SERVER, "unexpected reply of the server");
    if (status != HLK_OK)
        return status;
    counts.state.size = out->size;
    memcpy(out, &counts.state, out->size < sizeof counts.state ? out->size : sizeof counts.state);
    return HLK_OK;
}
