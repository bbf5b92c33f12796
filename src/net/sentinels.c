#include "net/sentinels.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/text.h"
#include "hasplock/client.h"

#include <string.h>

#define EACH(sentinels, item)                                                                                          \
    struct hlk_list *item = (sentinels)->all.next, *item##_next = item->next;                                          \
    item != &(sentinels)->all;                                                                                         \
    item = item##_next, item##_next = item->next

static struct hlk_sentinel *sentinel_at(struct hlk_list *item)
{
    return HLK_CONTAINER(item, struct hlk_sentinel, link);
}

/* --- when no sentinel knows the master --- */

/* " (127.0.0.1:26379: Connection refused; ...)", of those that did not answer. */
static void add_reasons(const struct hlk_sentinels *sentinels, struct hlk_text *text)
{
    const char *between = " (";
    for (EACH(sentinels, item)) {
        const struct hlk_sentinel *sentinel = sentinel_at(item);
        if (sentinel->answered)
            continue;
        hlk_text_add(text, "%s%s: %s", between, sentinel->name,
                     sentinel->error.status ? sentinel->error.text : "no answer yet");
        between = "; ";
    }
    if (*between == ';')
        hlk_text_add(text, ")");
}

/* HLK_E_CONNECT may pass; the other statuses end hlk_client_open at once. */
static void explain(const struct hlk_sentinels *sentinels, struct hlk_error *error)
{
    char reasons[HLK_ERROR_TEXT];
    struct hlk_text text;
    unsigned answered = 0, barred = 0;
    for (EACH(sentinels, item)) {
        answered += sentinel_at(item)->answered;
        barred += sentinel_at(item)->error.status == HLK_E_AUTH;
    }
    hlk_text_init(&text, reasons, sizeof reasons);
    add_reasons(sentinels, &text);
    if (answered > 0)
        (void)hlk_error_set(error, 2 * answered > sentinels->count ? HLK_E_SERVER : HLK_E_CONNECT,
                            "the sentinels do not know a master \"%s\"%s", sentinels->endpoint->url.service, reasons);
    else
        (void)hlk_error_set(error, barred == sentinels->count ? HLK_E_AUTH : HLK_E_CONNECT,
                            "no sentinel of %u answered%s", sentinels->count, reasons);
}

static void log_alone(struct hlk_sentinels *sentinels)
{
    hlk_loop_assert_here(sentinels->loop);
    struct hlk_error why;
    for (EACH(sentinels, item))
        if (sentinel_at(item)->error.status == HLK_OK)
            return;
    if (sentinels->alone || sentinels->master.port == 0) /* without a master the dial reports the error */
        return;
    sentinels->alone = true;
    for (EACH(sentinels, item))
        sentinel_at(item)->answered = false;
    explain(sentinels, &why);
    hlk_log(&sentinels->endpoint->log, HLK_LOG_WARN, "%s: %s; staying with the master that is known, %s:%d",
            sentinels->endpoint->url.shown, why.text, sentinels->master.host, sentinels->master.port);
}

/* --- searching --- */

static void report_error(struct hlk_sentinels *sentinels, const struct hlk_error *error)
{
    hlk_loop_assert_here(sentinels->loop);
    struct hlk_list mine, *item;
    hlk_list_init(&mine);
    sentinels->searching = false;
    hlk_loop_cancel(sentinels->loop, &sentinels->over);
    hlk_list_splice(&mine, &sentinels->searches);
    while ((item = hlk_list_pop(&mine))) {
        struct hlk_search *search = HLK_CONTAINER(item, struct hlk_search, link);
        search->found(search, error ? NULL : sentinels->master.host, sentinels->master.port, error);
    }
}

static bool is_same(const struct hlk_sentinel_answer *one, const struct hlk_sentinel_answer *other)
{
    return one->port == other->port && strcmp(one->host, other->host) == 0;
}

/* The answer that counts. on_moved makes dials to the old master search again; report answers those searches too. */
static void settle_round(struct hlk_sentinels *sentinels, const struct hlk_sentinel *by)
{
    hlk_loop_assert_here(sentinels->loop);
    HLK_DEBUG_ASSERT(by->answer.port > 0);
    const struct hlk_sentinel_answer *now = &by->answer;
    bool known = sentinels->master.port != 0;
    bool same = is_same(&sentinels->master, now);
    sentinels->master = *now;
    if (known && !same) {
        hlk_log(&sentinels->endpoint->log, HLK_LOG_INFO, "%s: the master is %s:%d now, says sentinel %s",
                sentinels->endpoint->url.shown, now->host, now->port, by->name);
        for (EACH(sentinels, item)) /* what they name now is not named anew */
            sentinel_at(item)->newest = sentinel_at(item)->answer;
        sentinels->searching = true;
        sentinels->on_moved(sentinels->ctx);
    }
    report_error(sentinels, NULL);
}

static uint64_t newest_epoch(const struct hlk_sentinels *sentinels)
{
    uint64_t newest = 0;
    for (EACH(sentinels, item)) {
        const struct hlk_sentinel_answer *answer = &sentinel_at(item)->answer;
        if (answer->port && !sentinel_at(item)->outvoted && answer->epoch > newest)
            newest = answer->epoch;
    }
    return newest;
}

/* No further answer is waited for: the newest one counts, or else the master that was known before. */
static void end_search(struct hlk_sentinels *sentinels)
{
    hlk_loop_assert_here(sentinels->loop);
    HLK_DEBUG_ASSERT(sentinels->searching);
    const struct hlk_sentinel *best = NULL;
    struct hlk_error error;
    for (EACH(sentinels, item)) {
        const struct hlk_sentinel *sentinel = sentinel_at(item);
        bool counts = sentinel->answered && sentinel->answer.port && !sentinel->outvoted;
        if (counts && (!best || sentinel->answer.epoch > best->answer.epoch))
            best = sentinel;
    }
    if (best) {
        settle_round(sentinels, best);
    } else if (sentinels->master.port) {
        report_error(sentinels, NULL);
    } else {
        explain(sentinels, &error);
        report_error(sentinels, &error);
    }
}

static void look_whether_over(struct hlk_sentinels *sentinels)
{
    hlk_loop_assert_here(sentinels->loop);
    if (!sentinels->searching || sentinels->beginning)
        return;
    for (EACH(sentinels, item))
        if (sentinel_at(item)->asking)
            return;
    end_search(sentinels);
}

static void sentinels_on_over(struct hlk_alarm *alarm)
{
    struct hlk_sentinels *sentinels = HLK_CONTAINER(alarm, struct hlk_sentinels, over);
    hlk_loop_assert_here(sentinels->loop);
    if (sentinels->searching)
        end_search(sentinels);
}

static void sentinels_find(void *ctx, struct hlk_search *search)
{
    struct hlk_sentinels *sentinels = ctx;
    hlk_loop_assert_here(sentinels->loop);
    hlk_list_push_back(&sentinels->searches, &search->link);
    if (sentinels->searching)
        return;
    sentinels->searching = sentinels->beginning = true;
    hlk_loop_arm(sentinels->loop, &sentinels->over, hlk_clock_after(hlk_clock_ms(), HLK_SENTINEL_TIMEOUT_MS));
    for (EACH(sentinels, item)) {
        sentinel_at(item)->answered = false;
        hlk_sentinel_ask(sentinel_at(item));
    }
    sentinels->beginning = false;
    look_whether_over(sentinels);
}

/* --- a service that is monitored anew --- */

/* The epochs of a sentinel rise, and it names another master with a higher one only, unless the service was removed
 * there. One that has not heard of a failover yet names the master of before as it always did: that is not anew. */
static bool names_anew(const struct hlk_sentinel *sentinel)
{
    const struct hlk_sentinel_answer *now = &sentinel->answer, *newest = &sentinel->newest;
    return now->port && newest->port &&
           (now->epoch < newest->epoch || (now->epoch == newest->epoch && !is_same(now, newest)));
}

/* Once is not enough: one that was restarted with the configuration of long ago is corrected by the others. */
static bool votes_for(const struct hlk_sentinel *sentinel, const struct hlk_sentinel_answer *master)
{
    return sentinel->error.status == HLK_OK && names_anew(sentinel) && is_same(&sentinel->answer, master) &&
           is_same(&sentinel->before, master);
}

static bool most_name_another(const struct hlk_sentinels *sentinels, const struct hlk_sentinel_answer *master)
{
    unsigned votes = 0;
    if (sentinels->master.port == 0 || is_same(&sentinels->master, master))
        return false;
    for (EACH(sentinels, item))
        votes += votes_for(sentinel_at(item), master);
    return 2 * votes > sentinels->count;
}

/* What the others say is of the time before, whatever their epochs, until they say something else. */
static void outvote_others(struct hlk_sentinels *sentinels, const struct hlk_sentinel_answer *master)
{
    for (EACH(sentinels, item))
        sentinel_at(item)->outvoted = !is_same(&sentinel_at(item)->answer, master);
}

static void note_answer(struct hlk_sentinel *sentinel)
{
    const struct hlk_sentinel_answer *now = &sentinel->answer, *before = &sentinel->before;
    bool changed = !is_same(now, before) || now->epoch != before->epoch;
    if (now->port && ((sentinel->outvoted && changed) || !names_anew(sentinel)))
        sentinel->newest = *now;
    sentinel->outvoted = sentinel->outvoted && !changed;
}

/* --- answers of a sentinel --- */

static void drop_sentinel(struct hlk_sentinels *sentinels, struct hlk_sentinel *sentinel)
{
    hlk_loop_assert_here(sentinels->loop);
    HLK_DEBUG_ASSERT(sentinels->count > 0);
    sentinels->count--;
    hlk_sentinel_destroy(sentinel);
}

/* A sentinel that the URL calls by name was learned by its address too. */
static void drop_double(struct hlk_sentinels *sentinels, const struct hlk_sentinel *sentinel)
{
    for (EACH(sentinels, item)) {
        struct hlk_sentinel *other = sentinel_at(item);
        if (other != sentinel && other->learned && *sentinel->id && strcmp(other->id, sentinel->id) == 0)
            drop_sentinel(sentinels, other);
    }
}

static void sentinels_on_answer(void *ctx, struct hlk_sentinel *sentinel)
{
    struct hlk_sentinels *sentinels = ctx;
    hlk_loop_assert_here(sentinels->loop);
    const struct hlk_sentinel_answer *answer = &sentinel->answer;
    sentinel->answered = true;
    drop_double(sentinels, sentinel);
    if (sentinels->alone)
        hlk_log(&sentinels->endpoint->log, HLK_LOG_WARN, "%s: sentinel %s answers again",
                sentinels->endpoint->url.shown, sentinel->name);
    sentinels->alone = false;
    note_answer(sentinel);
    bool anew = most_name_another(sentinels, answer);
    if (anew)
        outvote_others(sentinels, answer);
    bool newest = answer->port && !sentinel->outvoted && answer->epoch >= newest_epoch(sentinels);
    bool asked = sentinels->searching || sentinel->switched || answer->epoch > sentinels->master.epoch;
    if (anew || (newest && asked))
        settle_round(sentinels, sentinel);
    else
        look_whether_over(sentinels);
}

static void sentinels_on_failure(void *ctx, struct hlk_sentinel *sentinel)
{
    struct hlk_sentinels *sentinels = ctx;
    hlk_loop_assert_here(sentinels->loop);
    hlk_log(&sentinels->endpoint->log, HLK_LOG_INFO, "%s: sentinel %s: %s", sentinels->endpoint->url.shown,
            sentinel->name, sentinel->error.text);
    log_alone(sentinels);
    look_whether_over(sentinels);
}

static bool add_sentinel(struct hlk_sentinels *sentinels, const char *host, int port, const char *id);

/* Drops learned sentinels that do not answer, if there are too many. */
static bool make_sentinel_room(struct hlk_sentinels *sentinels)
{
    hlk_loop_assert_here(sentinels->loop);
    for (EACH(sentinels, item)) {
        if (sentinels->count < HLK_SENTINELS_MAX)
            break;
        if (sentinel_at(item)->learned && sentinel_at(item)->error.status)
            drop_sentinel(sentinels, sentinel_at(item));
    }
    return sentinels->count < HLK_SENTINELS_MAX;
}

static void sentinels_on_other(void *ctx, const char *host, int port, const char *id)
{
    struct hlk_sentinels *sentinels = ctx;
    hlk_loop_assert_here(sentinels->loop);
    for (EACH(sentinels, item)) {
        const struct hlk_url *url = &sentinel_at(item)->endpoint.url;
        if ((*id && strcmp(sentinel_at(item)->id, id) == 0) ||
            (url->hosts->port == port && strcmp(url->hosts->name, host) == 0))
            return;
    }
    if (!make_sentinel_room(sentinels) || !add_sentinel(sentinels, host, port, id))
        return;
    hlk_sentinel_ask(sentinel_at(sentinels->all.prev));
}

/* --- making and ending --- */

/* id NULL: a sentinel of the URL; else a learned one. False: no memory. */
static bool add_sentinel(struct hlk_sentinels *sentinels, const char *host, int port, const char *id)
{
    hlk_loop_assert_here(sentinels->loop);
    HLK_DEBUG_ASSERT(sentinels->count < HLK_SENTINELS_MAX);
    struct hlk_sentinel_owner owner = { .ctx = sentinels,
                                        .on_answer = sentinels_on_answer,
                                        .on_failure = sentinels_on_failure,
                                        .on_other = sentinels_on_other };
    struct hlk_sentinel *sentinel =
        hlk_sentinel_create(sentinels->loop, sentinels->endpoint, host, port, sentinels->username, sentinels->password,
                            &sentinels->round, &owner);
    if (!sentinel)
        return false;
    sentinel->learned = id != NULL;
    if (id)
        strncat(sentinel->id, id, sizeof sentinel->id - 1);
    hlk_list_push_back(&sentinels->all, &sentinel->link);
    sentinels->count++;
    return true;
}

enum hlk_status hlk_sentinels_init(struct hlk_sentinels *sentinels, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                   const char *username, const char *password, void (*on_moved)(void *ctx), void *ctx,
                                   struct hlk_error *error)
{
    hlk_loop_assert_here(loop);
    HLK_DEBUG_ASSERT(endpoint->url.kind == HLK_URL_SENTINEL);
    const struct hlk_url *url = &endpoint->url;
    sentinels->loop = loop;
    sentinels->endpoint = endpoint;
    sentinels->on_moved = on_moved;
    sentinels->ctx = ctx;
    sentinels->locator = (struct hlk_locator){ .ctx = sentinels, .find = sentinels_find };
    sentinels->over.fire = sentinels_on_over;
    hlk_list_init(&sentinels->all);
    hlk_list_init(&sentinels->searches);
    sentinels->username = hlk_mem_strdup(username);
    sentinels->password = hlk_mem_strdup(password);
    bool ok = !sentinels->username == !username && !sentinels->password == !password &&
              hlk_sentinel_round(&sentinels->round, url->service);
    for (unsigned i = 0; ok && i < url->host_count; i++)
        ok = add_sentinel(sentinels, url->hosts[i].name, url->hosts[i].port, NULL);
    return ok ? HLK_OK : hlk_error_set(error, HLK_E_NOMEM, "no memory");
}

void hlk_sentinels_fini(struct hlk_sentinels *sentinels)
{
    if (!sentinels->loop)
        return;
    hlk_loop_assert_here(sentinels->loop);
    for (EACH(sentinels, item))
        drop_sentinel(sentinels, sentinel_at(item));
    hlk_loop_cancel(sentinels->loop, &sentinels->over);
    hlk_buffer_fini(&sentinels->round);
    if (sentinels->password)
        explicit_bzero(sentinels->password, strlen(sentinels->password));
    hlk_mem_free(sentinels->username);
    hlk_mem_free(sentinels->password);
}
