/* hlk_lock_query and hlk_lock_break of a lock over several masters. These calls are rare, so the masters are asked one
 * after the other, each for up to node_timeout_ms. */
#include "quorum/round.h"
#include "quorum/tally.h"

#include <stdlib.h>
#include <string.h>

/* One that is away is not waited for. False: it is not there, and *error says why. */
static bool is_there(const struct hlk_node *node, struct hlk_error *error)
{
    return !hlk_pipeline_tried(node->pipeline) || hlk_pipeline_health(node->pipeline, error) == HLK_OK;
}

/* How many masters said what. */
struct said {
    unsigned n, need; /* masters, and a majority of them */
    unsigned answered, held;
    enum hlk_status failure; /* of those that did not answer: of all the same, or HLK_E_CONNECT */
    bool unsure;             /* one may have run it, and did not say so */
    struct hlk_text why;
    char text[HLK_ERROR_TEXT];
};

static void said_begin(struct said *said, const hlk_client *client)
{
    memset(said, 0, sizeof *said);
    said->n = client->node_count;
    said->need = said->n / 2 + 1;
    hlk_text_init(&said->why, said->text, sizeof said->text);
}

static void said_nothing(struct said *said, const struct hlk_node *node, const struct hlk_error *error)
{
    said->failure = said->failure == HLK_OK || said->failure == error->status ? error->status : HLK_E_CONNECT;
    said->unsure |= error->status == HLK_E_UNSURE;
    hlk_tally_reason(&said->why, node, error->text);
}

static struct hlk_quorums *all_of(const hlk_lock *lock)
{
    return HLK_CONTAINER(lock->client->part, struct hlk_quorums, part);
}

/* --- query --- */

static int longer_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* What a majority keeps for so long; -1: without end. `ttls` is of the masters that hold it, at least `need`. */
static int64_t ttl_of_majority(int64_t *ttls, const struct said *said)
{
    for (unsigned i = 0; i < said->held; i++)
        ttls[i] = ttls[i] < 0 ? INT64_MAX : ttls[i];
    qsort(ttls, said->held, sizeof *ttls, longer_first);
    return ttls[said->need - 1] == INT64_MAX ? -1 : ttls[said->need - 1];
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

enum hlk_status hlk_quorum_lock_query(hlk_lock *lock, struct hlk_lock_state *out)
{
    struct said said;
    struct hlk_lock_state states[HLK_QUORUM_MAX]; /* of the masters on which it is held */
    int64_t ttls[HLK_QUORUM_MAX], waiting = 0;
    said_begin(&said, lock->client);
    for (unsigned i = 0; i < said.n; i++) {
        const struct hlk_node *node = &lock->client->nodes[i];
        struct hlk_lock_state state = HLK_LOCK_STATE_INIT;
        struct hlk_error error = { .status = HLK_OK };
        if (!is_there(node, &error) ||
            hlk_lock_query_at(lock, node->pipeline, all_of(lock)->opts.node_timeout_ms, &state, &error) != HLK_OK) {
            said_nothing(&said, node, &error);
            continue;
        }
        said.answered++;
        waiting = state.waiting > waiting ? state.waiting : waiting;
        if (state.held) {
            ttls[said.held] = state.ttl_ms;
            states[said.held++] = state;
        }
    }
    if (said.held < said.need && said.held + (said.n - said.answered) >= said.need)
        return hlk_lock_fail(lock, "query", said.failure, "%u of %u masters answered, and it is held on %u%s",
                             said.answered, said.n, said.held, said.text);
    *out = (struct hlk_lock_state)HLK_LOCK_STATE_INIT;
    if (said.held >= said.need) {
        *out = *main_holder(states, said.held);
        out->ttl_ms = ttl_of_majority(ttls, &said);
    }
    out->waiting = waiting;
    return HLK_OK;
}

/* --- break --- */

/* Of the hold of that name: one of this client, with a reference to it and to its round. NULL: none. */
static struct hlk_quorum *find_own(struct hlk_quorums *all, const char *holder, struct hlk_round **round)
{
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
static void report_if_ours(hlk_lock *lock, const char *holder)
{
    struct hlk_round *round = NULL;
    struct hlk_quorum *quorum =
        hlk_field_is_of(holder, strlen(holder), lock->client->id) ? find_own(all_of(lock), holder, &round) : NULL;
    if (!quorum)
        return;
    hlk_quorum_lose(quorum, round, hlk_lease_why_broken);
    hlk_round_unref(round);
    hlk_quorum_unref(quorum);
}

enum hlk_status hlk_quorum_lock_break(hlk_lock *lock)
{
    struct said said;
    said_begin(&said, lock->client);
    for (unsigned i = 0; i < said.n; i++) {
        const struct hlk_node *node = &lock->client->nodes[i];
        struct hlk_broken broken;
        struct hlk_error error = { .status = HLK_OK };
        if (!is_there(node, &error) ||
            hlk_lock_break_at(lock, node->pipeline, all_of(lock)->opts.node_timeout_ms, &broken, &error) != HLK_OK) {
            said_nothing(&said, node, &error);
            continue;
        }
        said.answered++;
        said.held += broken.held;
        report_if_ours(lock, broken.holder);
    }
    if (said.answered < said.need)
        return hlk_lock_fail(lock, "break", said.held || said.unsure ? HLK_E_UNSURE : said.failure,
                             "%u of %u masters answered, and it was broken on %u; a majority may hold it still%s",
                             said.answered, said.n, said.held, said.text);
    return said.held ? HLK_OK : hlk_lock_fail(lock, "break", HLK_NOT_HOLDER, "nobody held it; nothing was changed");
}
