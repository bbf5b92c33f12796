#include "quorum/inspect.h"

#include "api/find.h"
#include "api/inspect.h"
#include "api/list.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "handle/send.h"
#include "net/pipeline_up.h"
#include "quorum/connect.h"
#include "quorum/hold.h"
#include "quorum/round.h"
#include "quorum/tally.h"

#include <stdlib.h>
#include <string.h>

/* Begins to connect, and waits for at most max_ms. */
static void connect_masters(const hlk_lock *lock, enum hlk_quorum_goal goal, int64_t max_ms)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(max_ms >= 0);
    struct hlk_thread *self = hlk_thread_get();
    struct hlk_quorum_links links;
    if (self)
        hlk_quorum_links_wait(lock->client, self, goal, hlk_clock_after(hlk_clock_ms(), max_ms), &links);
}

static bool is_up(const struct hlk_node *node)
{
    struct hlk_error error;
    return hlk_pipeline_health(node->pipeline, &error) == HLK_OK;
}

/* A master that is away is not waited for. A master that is about to connect is waited for only if it is needed. False:
 * the master is not there, and *error says why. */
static bool is_there(const struct hlk_node *node, bool needed, struct hlk_error *error)
{
    const hlk_client *client = HLK_CONTAINER(node->table, struct hlk_client, table);
    const struct hlk_quorums *all = hlk_quorums_of(client);
    if (atomic_load(&all->twins) & 1u << (node - client->nodes)) {
        (void)hlk_error_set(error, HLK_E_INVALID, HLK_QUORUM_TWIN);
        return false;
    }
    return (needed && !hlk_pipeline_tried(node->pipeline)) || hlk_pipeline_health(node->pipeline, error) == HLK_OK;
}

/* How many masters said what. */
struct said {
    unsigned n, need;                   /* masters, and a majority of them */
    unsigned order[HLK_QUORUM_MAX], up; /* in which they are asked: first those that were connected */
    unsigned answered, silent, held;
    enum hlk_status failure; /* of those that did not answer: of all the same, or HLK_E_CONNECT */
    bool unsure;             /* one may have run it, and did not say so */
    struct hlk_text why;
    char text[HLK_ERROR_TEXT];
};

static void said_begin(struct said *said, const hlk_lock *lock)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(lock->client->node_count <= HLK_QUORUM_MAX);
    bool up[HLK_QUORUM_MAX];
    connect_masters(lock, HLK_QUORUM_MAJORITY_NOW, hlk_quorums_of(lock->client)->opts.node_timeout_ms);
    memset(said, 0, sizeof *said);
    said->n = lock->client->node_count;
    said->need = said->n / 2 + 1;
    for (unsigned i = 0; i < said->n; i++)
        if ((up[i] = is_up(&lock->client->nodes[i])))
            said->order[said->up++] = i;
    for (unsigned i = 0, k = said->up; i < said->n; i++)
        if (!up[i])
            said->order[k++] = i;
    hlk_text_init(&said->why, said->text, sizeof said->text);
}

static void said_nothing(struct said *said, const struct hlk_node *node, const struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(error->status != HLK_OK && said->silent < said->n);
    said->silent++;
    said->failure = said->failure == HLK_OK || said->failure == error->status ? error->status : HLK_E_CONNECT;
    said->unsure |= error->status == HLK_E_UNSURE;
    hlk_tally_reason(&said->why, node, error->text);
}

/* --- query --- */

static int longer_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* For how long a majority keeps the hold; -1: without end. If fewer masters have said that they have the hold: for so
 * long at most. */
static int64_t ttl_of_majority(const struct hlk_lock_state *states, const struct said *said)
{
    HLK_DEBUG_ASSERT(said->held > 0);
    int64_t ttls[HLK_QUORUM_MAX] = { 0 };
    for (unsigned i = 0; i < said->held; i++)
        ttls[i] = states[i].ttl_ms < 0 ? INT64_MAX : states[i].ttl_ms;
    qsort(ttls, said->held, sizeof *ttls, longer_first);
    int64_t ttl = ttls[(said->held < said->need ? said->held : said->need) - 1];
    return ttl == INT64_MAX ? -1 : ttl;
}

/* The holder that most masters name. One of RedissonRedLock has another name on each. */
static const struct hlk_lock_state *main_holder(const struct hlk_lock_state *states, unsigned n)
{
    const struct hlk_lock_state *found = states;
    unsigned most = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned same = 0;
        for (unsigned k = 0; k < n; k++)
            same += strcmp(states[i].holder, states[k].holder) == 0;
        if (same > most) {
            most = same;
            found = &states[i];
        }
    }
    return found;
}

/* Whatever the others say. */
static bool is_decided(const struct said *said)
{
    unsigned others = said->n - said->answered;
    return said->held >= said->need || said->held + others < said->need;
}

/* *out: what those say that hold it; free if there are none. */
static void query_all(hlk_lock *lock, struct said *said, struct hlk_lock_state *out)
{
    hlk_mutex_assert_none();
    struct hlk_lock_state states[HLK_QUORUM_MAX]; /* of the masters on which it is held */
    int64_t waiting = 0;
    said_begin(said, lock);
    for (unsigned k = 0; k < said->n; k++) {
        const struct hlk_node *node = &lock->client->nodes[said->order[k]];
        struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
        struct hlk_error error = { .status = HLK_OK };
        if (!is_there(node, !is_decided(said), &error) ||
            hlk_lock_query_at(lock, node->pipeline, hlk_quorums_of(lock->client)->opts.node_timeout_ms, &state,
                              &error) != HLK_OK) {
            said_nothing(said, node, &error);
            continue;
        }
        said->answered++;
        waiting = state.waiting > waiting ? state.waiting : waiting;
        if (state.held)
            states[said->held++] = state;
    }
    *out = (struct hlk_lock_state)HLK_LOCK_STATE_INIT;
    if (said->held > 0) {
        *out = *main_holder(states, said->held);
        out->ttl_ms = ttl_of_majority(states, said);
    }
    out->waiting = waiting;
}

static bool may_be_held(const struct said *said)
{
    return said->held + said->silent >= said->need;
}

enum hlk_status hlk_quorum_lock_query(hlk_lock *lock, struct hlk_lock_state *out)
{
    struct said said;
    struct hlk_lock_state found;
    query_all(lock, &said, &found);
    if (said.held < said.need && may_be_held(&said))
        return hlk_lock_fail(lock, "query", said.failure, "%u of %u masters answered, and it is held on %u%s",
                             said.answered, said.n, said.held, said.text);
    *out = (struct hlk_lock_state)HLK_LOCK_STATE_INIT;
    if (said.held >= said.need)
        *out = found;
    out->waiting = found.waiting;
    return HLK_OK;
}

/* --- find: a plain lock and a string lock are all that there is. A fault is one of the query that follows, too --- */

enum hlk_status hlk_quorum_lock_find(hlk_lock *handle, struct hlk_lock_found *out)
{
    hlk_mutex_assert_none();
    struct said said;
    unsigned plain = 0, strings = 0;
    said_begin(&said, handle);
    for (unsigned k = 0; k < said.n; k++) {
        const struct hlk_node *node = &handle->client->nodes[said.order[k]];
        struct hlk_lock_found found = HLK_LOCK_FOUND_INIT;
        struct hlk_error error = { .status = HLK_OK };
        if (!is_there(node, said.answered < said.need, &error) ||
            hlk_lock_find_at(handle, node->pipeline, hlk_quorums_of(handle->client)->opts.node_timeout_ms, &found,
                             &error) != HLK_OK) {
            said_nothing(&said, node, &error);
            continue;
        }
        said.answered++;
        plain += found.kind == HLK_LOCK_PLAIN || found.kind == HLK_LOCK_FAIR;
        strings += found.kind == HLK_LOCK_STRING;
    }
    *out = (struct hlk_lock_found)HLK_LOCK_FOUND_INIT;
    out->kind = strings > plain ? HLK_LOCK_STRING : plain > 0 ? HLK_LOCK_PLAIN : HLK_FOUND_NOTHING;
    return HLK_OK;
}

/* --- list: each lock that is on some master is looked at on all of them, once --- */

struct listed_name {
    struct hlk_map_node node; /* in listing.names */
    struct listed_name *next; /* of the same step */
    int kind;                 /* HLK_LOCK_PLAIN, HLK_LOCK_STRING: as the first master has it that has it */
    char name[];
};

struct listing {
    hlk_lock *handle;
    struct hlk_list_opts *opts;
    hlk_list_fn *fn;
    void *ctx;
    struct hlk_map names;      /* of all steps */
    struct listed_name *found; /* in this step, and not looked at yet */
    struct said said;          /* only: which masters' keys cannot be read */
};

/* Only notes the name: while an answer is read, no master can be asked. */
static int take_name(const struct hlk_listed *lock, void *ctx)
{
    struct listing *listing = ctx;
    size_t len = strlen(lock->name);
    bool plain = lock->kind == HLK_LOCK_PLAIN || lock->kind == HLK_LOCK_FAIR;
    if ((!plain && lock->kind != HLK_LOCK_STRING) || hlk_map_get(&listing->names, lock->name, len))
        return 0;
    struct listed_name *name = hlk_mem_zalloc(sizeof *name + len + 1);
    if (!name)
        return 1;
    memcpy(name->name, lock->name, len);
    name->kind = plain ? HLK_LOCK_PLAIN : HLK_LOCK_STRING;
    if (!hlk_map_put(&listing->names, &name->node, name->name, len)) {
        hlk_mem_free(name);
        return 1;
    }
    name->next = listing->found;
    listing->found = name;
    return 0;
}

static bool free_name(struct hlk_map_node *node, void *ctx)
{
    (void)ctx;
    hlk_mem_free(HLK_CONTAINER(node, struct listed_name, node));
    return true;
}

static enum hlk_status list_no_memory(const struct listing *listing)
{
    return hlk_lock_fail(listing->handle, "list", HLK_E_NOMEM, "no memory for all names");
}

/* A master that does not answer counts as holding it. */
static enum hlk_status report_held(const struct listing *listing, const struct listed_name *name)
{
    hlk_mutex_assert_none();
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    struct hlk_lock_state state;
    struct said said;
    opts.kind = name->kind;
    hlk_lock *lock = hlk_lock_make_without_entry(listing->handle->client, name->name, name->node.len, &opts);
    if (!lock)
        return list_no_memory(listing);
    query_all(lock, &said, &state);
    hlk_lock_destroy(lock);
    if (!state.held || !may_be_held(&said))
        return HLK_OK;
    const struct hlk_listed listed = {
        sizeof listed, name->name, state.holder, state.count, state.ttl_ms, state.waiting, name->kind, 0, "", 0
    };
    listing->opts->stopped = listing->fn(&listed, listing->ctx) != 0;
    return HLK_OK;
}

static enum hlk_status report_found(struct listing *listing)
{
    enum hlk_status status = HLK_OK;
    while (listing->found && status == HLK_OK && !listing->opts->stopped) {
        const struct listed_name *name = listing->found;
        listing->found = name->next;
        status = listing->opts->cancel && hlk_cancel_triggered(listing->opts->cancel)
                     ? hlk_lock_fail(listing->handle, "list", HLK_INTERRUPTED, "cancelled")
                     : report_held(listing, name);
    }
    return status;
}

/* So many masters may be left out: a lock that a majority holds is on one of the others. */
static bool must_answer(const struct said *said)
{
    return said->silent >= said->n - said->need;
}

/* One step through the keys of a master. A step that was stopped is not over. */
static enum hlk_status list_step(struct listing *listing, unsigned i, int64_t keys)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(i < listing->said.n && keys > 0);
    struct hlk_list_opts *opts = listing->opts;
    const struct hlk_node *node = &listing->handle->client->nodes[i];
    struct hlk_error error = { .status = HLK_OK };
    const struct hlk_send_limits limits = { .max_ms = hlk_quorums_of(listing->handle->client)->opts.node_timeout_ms,
                                            .cancel = opts->cancel,
                                            .error = &error };
    struct hlk_list_step step = {
        .opts = opts, .fn = take_name, .ctx = listing, .cursor = hlk_list_scan(opts->cursor), .keys = keys
    };
    if (is_there(node, must_answer(&listing->said), &error))
        (void)hlk_list_step(listing->handle, node->pipeline, &limits, &step);
    if (error.status == HLK_INTERRUPTED || error.status == HLK_E_CLOSED || error.status == HLK_E_NOMEM)
        return hlk_lock_fail(listing->handle, "list", error.status, "%s", error.text);
    if (error.status != HLK_OK) {
        said_nothing(&listing->said, node, &error);
        opts->cursor = hlk_list_cursor(i + 1);
        return HLK_OK;
    }
    if (step.stopped)
        return list_no_memory(listing);
    enum hlk_status status = report_found(listing);
    opts->refused += step.refused;
    if (!opts->stopped && status == HLK_OK)
        opts->cursor = step.cursor ? hlk_list_cursor(i) + step.cursor : hlk_list_cursor(i + 1);
    return status;
}

/* A minority may be away: a lock that a majority holds is on one of the others, at least. */
static enum hlk_status list_masters(struct listing *listing)
{
    struct hlk_list_opts *opts = listing->opts;
    struct said *said = &listing->said;
    unsigned i = hlk_list_server(opts->cursor);
    struct hlk_error error;
    if (i >= said->n)
        return hlk_lock_fail(listing->handle, "list", HLK_E_INVALID, "the cursor is none of this client's");
    for (unsigned before = 0; before < i; before++)
        if (!is_there(&listing->handle->client->nodes[before], false, &error))
            said_nothing(said, &listing->handle->client->nodes[before], &error);
    enum hlk_status status = HLK_OK;
    for (int64_t keys = opts->max_keys; keys > 0 && i < said->n && status == HLK_OK && !opts->stopped;
         keys -= HLK_LIST_STEP_KEYS) {
        status = list_step(listing, i, keys);
        i = hlk_list_server(opts->cursor);
    }
    if (i == said->n)
        opts->cursor = 0;
    return status;
}

enum hlk_status hlk_quorum_lock_list(hlk_lock *handle, struct hlk_list_opts *opts, hlk_list_fn *fn, void *ctx)
{
    struct listing listing = { .handle = handle, .opts = opts, .fn = fn, .ctx = ctx };
    said_begin(&listing.said, handle);
    enum hlk_status status = list_masters(&listing);
    hlk_map_each(&listing.names, free_name, NULL);
    hlk_map_fini(&listing.names);
    const struct said *said = &listing.said;
    if (status == HLK_OK && said->silent > said->n - said->need)
        status = hlk_lock_fail(handle, "list", said->failure, "the keys of %u of %u masters cannot be read%s",
                               said->silent, said->n, said->text);
    return status;
}

/* --- break --- */

/* Of the hold of that name: one of this client, with a reference to it and to its round. NULL: none. */
static struct hlk_quorum *find_own(struct hlk_quorums *all, const char *holder, struct hlk_round **round)
{
    HLK_DEBUG_ASSERT(strrchr(holder, ':'));
    struct hlk_quorum *found = NULL;
    uint64_t hold = strtoull(strrchr(holder, ':') + 1, NULL, 10);
    hlk_mutex_lock(&all->mu);
    for (struct hlk_list *n = all->all.next; n != &all->all; n = n->next) {
        struct hlk_quorum *quorum = HLK_CONTAINER(n, struct hlk_quorum, link);
        if (quorum->state == HLK_QUORUM_HELD && quorum->round->hold == hold)
            found = quorum;
    }
    if (found) {
        *round = found->round;
        hlk_quorum_ref(found);
        hlk_round_ref(*round);
    }
    hlk_mutex_unlock(&all->mu);
    return found;
}

/* A hold of this client is reported lost now, not at its next renewal. */
static void quorum_report_if_ours(hlk_lock *lock, const char *holder)
{
    struct hlk_round *round = NULL;
    struct hlk_quorum *quorum = hlk_field_is_of(holder, strlen(holder), lock->client->id)
                                    ? find_own(hlk_quorums_of(lock->client), holder, &round)
                                    : NULL;
    if (!quorum)
        return;
    hlk_quorum_lose(quorum, round, hlk_lease_why_broken);
    hlk_round_unref(round);
    hlk_quorum_unref(quorum);
}

struct breaking {     /* what the masters have answered */
    struct said said; /* held: by holders that were to keep it */
    unsigned taken;
    struct hlk_lock_state from[HLK_QUORUM_MAX], kept[HLK_QUORUM_MAX]; /* only: holder */
};

static void break_all(hlk_lock *lock, const char *only, struct breaking *all)
{
    hlk_mutex_assert_none();
    struct said *said = &all->said;
    said_begin(said, lock);
    for (unsigned k = 0; k < said->n; k++) {
        const struct hlk_node *node = &lock->client->nodes[said->order[k]];
        if (k == said->up) /* what is left on a master is in the way of the next one */
            connect_masters(lock, HLK_QUORUM_ALL_TRIED, HLK_DIAL_BRIEF_MS);
        struct hlk_broken broken;
        struct hlk_error error = { .status = HLK_OK };
        if (!is_there(node, said->answered < said->need, &error) ||
            hlk_lock_break_at(lock, node->pipeline, hlk_quorums_of(lock->client)->opts.node_timeout_ms, only, &broken,
                              &error) != HLK_OK) {
            said_nothing(said, node, &error);
            continue;
        }
        said->answered++;
        if (broken.taken) {
            memcpy(all->from[all->taken++].holder, broken.holder, sizeof broken.holder);
            quorum_report_if_ours(lock, broken.holder);
        } else if (broken.holder[0]) {
            memcpy(all->kept[said->held++].holder, broken.holder, sizeof broken.holder);
        }
    }
}

enum hlk_status hlk_quorum_lock_break(hlk_lock *lock, const char *only, char holder[HLK_FIELD_MAX])
{
    struct breaking all = { .taken = 0 };
    const struct said *said = &all.said;
    break_all(lock, only, &all);
    if (said->answered < said->need)
        return hlk_lock_fail(lock, "break", all.taken || said->unsure ? HLK_E_UNSURE : said->failure,
                             "%u of %u masters answered, and it was broken on %u; a majority may hold it still%s",
                             said->answered, said->n, all.taken, said->text);
    bool taken = all.taken && said->held < said->need;
    memcpy(holder, taken ? main_holder(all.from, all.taken)->holder : main_holder(all.kept, said->held)->holder,
           HLK_FIELD_MAX);
    return taken ? HLK_OK : hlk_lock_not_broken(lock, only, holder);
}
