/* Builds the parts of a client in order, tears them down in reverse. */
#include "client.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "client_opts.h"
#include "kinds/kind.h"
#include "kinds/kinds.h"
#include "lease/ended_hold.h"
#include "lease/entry_lose.h"
#include "lease/hold_end.h"
#include "lease/holder.h"
#include "lease/holding.h"
#include "lease/inbox.h"
#include "lease/shared_hold.h"
#include "lease/watchdog.h"
#include "net/pipeline_up.h"
#include "node/cluster.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* --- names --- */

static void only_plain(char *text)
{
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("._-", *text))
            *text = '_';
}

/* hlk-<host>-<pid>-<random>: new for each client and process, and after fork. */
static bool name_client(hlk_client *client, const char *label, char *shown, size_t size)
{
    HLK_DEBUG_ASSERT(size > 0);
    char host[65] = "";
    uint64_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        strcpy(host, "host");
    only_plain(host);
    (void)snprintf(client->id, sizeof client->id, "hlk-%s-%ld-%016llx", host, (long)getpid(),
                   (unsigned long long)random);
    char program[33];
    (void)snprintf(program, sizeof program, "%.32s", label ? label : program_invocation_short_name);
    only_plain(program);
    (void)snprintf(shown, size, "hasplock:%s:%ld", program, (long)getpid());
    return true;
}

/* --- what the nodes call up --- */

static void on_work(void *ctx)
{
    hlk_client_need_dispatch(ctx);
}

void hlk_client_need_dispatch(hlk_client *client)
{
    HLK_DEBUG_ASSERT(client->dispatching && client->work_fd >= 0);
    if (atomic_exchange(&client->work_signalled, true))
        return;
    int old = hlk_nocancel_begin();
    (void)eventfd_write(client->work_fd, 1);
    hlk_nocancel_end(old);
}

void hlk_client_complete(hlk_client *client, struct hlk_job *job)
{
    HLK_DEBUG_ASSERT(job->run && !hlk_list_linked(&job->link));
    if (!client->dispatching) {
        hlk_events_post(&client->events, job);
        return;
    }
    hlk_mutex_lock(&client->ready_mu);
    hlk_list_push_back(&client->ready, &job->link);
    hlk_mutex_unlock(&client->ready_mu);
    hlk_client_need_dispatch(client);
}

void hlk_client_op_end(hlk_client *client)
{
    HLK_DEBUG_ASSERT(atomic_load(&client->requests) > 0);
    if (atomic_fetch_sub(&client->requests, 1) != 1)
        return;
    struct hlk_thread *closer = atomic_load(&client->closer);
    if (closer)
        hlk_park_wake(&closer->park, HLK_WAKE_SETTLED);
}

void hlk_client_wait_add(hlk_client *client, struct hlk_wait_entry *entry)
{
    HLK_DEBUG_ASSERT(entry->wake && !hlk_list_linked(&entry->link));
    hlk_mutex_lock(&client->waits_mu);
    hlk_list_push_back(&client->waits, &entry->link);
    hlk_mutex_unlock(&client->waits_mu);
}

void hlk_client_wait_remove(hlk_client *client, struct hlk_wait_entry *entry)
{
    hlk_mutex_lock(&client->waits_mu);
    hlk_list_remove(&entry->link);
    hlk_mutex_unlock(&client->waits_mu);
}

void hlk_client_warn_braces(hlk_client *client, const char *name)
{
    if (!atomic_exchange(&client->warned_braces, true))
        hlk_log(&client->log, HLK_LOG_WARN,
                "lock \"%.128s\": its braces would put its keys into different slots of a cluster; logged once for all "
                "such names",
                name);
}

void hlk_client_warn_kinds(hlk_client *client, const char *name)
{
    if (!atomic_exchange(&client->warned_kinds, true))
        hlk_log(&client->log, HLK_LOG_WARN,
                "lock \"%.128s\" is used as a fair lock and as a plain or fenced one: its waiters have no common order "
                "and do not wake each other; logged once for all such names",
                name);
}

enum hlk_status hlk_client_check(const hlk_client *client, const char *operation, const char *name)
{
    if (!client)
        return hlk_last_null(operation, "client");
    enum hlk_status status = client->process != hlk_thread_process() ? HLK_E_FORKED
                             : atomic_load(&client->closing)         ? HLK_E_CLOSED
                                                                     : HLK_OK;
    if (status == HLK_OK)
        return status;
    return hlk_last_set(status, name ? "%s \"%.128s\": %s" : "%s%.0s: %s", operation, name ? name : "",
                        hlk_status_text(status));
}

void hlk_client_each_server(const hlk_client *client, void (*fn)(struct hlk_node *server))
{
    struct hlk_node *server;
    for (unsigned i = 0; i < client->node_count; i++)
        for (unsigned k = 0; (server = hlk_node_server(&client->nodes[i], k)); k++)
            fn(server);
}

/* --- references --- */

void hlk_client_ref(hlk_client *client)
{
    HLK_DEBUG_ASSERT(atomic_load(&client->refs) > 0);
    atomic_fetch_add(&client->refs, 1);
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* Parts that were never made are zero, and their destroyers accept that. */
static void free_client(hlk_client *client)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(atomic_load(&client->refs) == 0 && atomic_load(&client->requests) == 0);
    HLK_DEBUG_ASSERT(hlk_list_empty(&client->waits));
    if (client->topology)
        client->topology->fini(client->topology);
    for (unsigned i = 0; i < client->node_count; i++) {
        hlk_cluster_free(client->nodes[i].cluster);
        hlk_node_fini(&client->nodes[i]);
    }
    if (client->table.loop) {
        hlk_entry_table_fini(&client->table);
        hlk_events_fini(&client->events);
    }
    hlk_loop_destroy(client->loop);
    hlk_mutex_fini(&client->waits_mu);
    hlk_mutex_fini(&client->ready_mu);
    close_fd(client->epoll_fd);
    close_fd(client->work_fd);
    hlk_mem_free(client->nodes);
    hlk_mem_free(client);
}

void hlk_client_unref(hlk_client *client)
{
    HLK_DEBUG_ASSERT(atomic_load(&client->refs) > 0);
    if (atomic_fetch_sub(&client->refs, 1) != 1)
        return;
    int old = hlk_nocancel_begin();
    free_client(client);
    hlk_nocancel_end(old);
}

/* --- open --- */

static enum hlk_status make_dispatch(hlk_client *client, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(!client->dispatching && client->epoll_fd < 0 && client->work_fd < 0);
    client->dispatching = true;
    client->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    client->work_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN };
    if (client->epoll_fd < 0 || client->work_fd < 0 ||
        epoll_ctl(client->epoll_fd, EPOLL_CTL_ADD, client->work_fd, &event) != 0)
        return hlk_error_set(error, HLK_E_OS, "no descriptor for dispatch: %s", strerror(errno));
    return HLK_OK;
}

static void set_table(hlk_client *client, const struct hlk_client_opts *opts)
{
    HLK_DEBUG_ASSERT(client->loop && client->nodes && client->node_count > 0);
    struct hlk_entry_table *table = &client->table;
    table->client_id = client->id;
    table->loop = client->loop;
    table->nodes = client->nodes;
    table->node_count = client->node_count;
    table->events = &client->events;
    table->log = &client->log;
    hlk_kind_formats(table->formats);
    table->callback = (struct hlk_callback){ opts->on_event, opts->event_ctx };
    table->watchdog_ms = opts->watchdog_ms;
    table->at_risk_ms = opts->at_risk_ms;
    table->renewals =
        opts->renew_ms ? (uint8_t)((opts->watchdog_ms + opts->renew_ms - 1) / opts->renew_ms) : HLK_LEASE_RENEWALS;
    table->local_passes = opts->local_passes < 0 ? 0 : (unsigned)opts->local_passes;
    hlk_events_init(&client->events, &client->log);
    hlk_entry_table_init(table);
    hlk_watchdog_start(table);
}

static enum hlk_status open_nodes(hlk_client *client, const char *const *urls, unsigned count,
                                  const struct hlk_client_opts *opts, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(client->loop && !client->nodes && count > 0);
    char shown[sizeof client->nodes->endpoint.client_name];
    if (!name_client(client, opts->label, shown, sizeof shown))
        return hlk_error_set(error, HLK_E_OS, "no random bytes: %s", strerror(errno));
    client->nodes = hlk_mem_zalloc(count * sizeof *client->nodes);
    if (!client->nodes)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    client->node_count = count;
    struct hlk_node_owner owner = { .ctx = client,
                                    .verify = hlk_watchdog_verify_all,
                                    .verify_moved = hlk_watchdog_verify_moved,
                                    .receive = hlk_inbox_receive,
                                    .on_work = client->dispatching ? on_work : NULL };
    struct hlk_node_opts node = { .client_id = client->id,
                                  .client_name = shown,
                                  .username = opts->username,
                                  .password = opts->password,
                                  .credentials = { opts->password_file, opts->credentials, opts->credentials_ctx },
                                  .tls = { .ca_file = opts->tls_ca_file,
                                           .ca_dir = opts->tls_ca_dir,
                                           .cert_file = opts->tls_cert_file,
                                           .key_file = opts->tls_key_file,
                                           .crl_file = opts->tls_crl_file,
                                           .server_name = opts->tls_server_name },
                                  .sentinel_username = opts->sentinel_username,
                                  .sentinel_password = opts->sentinel_password,
                                  .log = client->log,
                                  .reply_timeout_ms = opts->reply_timeout_ms,
                                  .yield_every = opts->yield_every < 0 ? 0 : (unsigned)opts->yield_every,
                                  .yield_ms = opts->yield_ms,
                                  .no_spin = opts->flags & HLK_OPEN_NO_SPIN,
                                  .pubsub = client->pubsub,
                                  .listening = client->listening,
                                  .wait_replicas = client->wait_replicas };
    enum hlk_status status = HLK_OK;
    for (unsigned i = 0; i < count && status == HLK_OK; i++) {
        node.url = urls[i];
        status = hlk_node_open(&client->nodes[i], client->loop, &node, &owner, error);
        if (status == HLK_OK && client->nodes[i].endpoint.url.kind == HLK_URL_CLUSTER)
            status = hlk_cluster_open(&client->nodes[i], &node, error);
    }
    return status;
}

static enum hlk_status make_parts(hlk_client *client, const char *const *urls, unsigned count,
                                  const struct hlk_client_opts *opts, struct hlk_error *error)
{
    client->log = (struct hlk_log){ opts->log, opts->log_ctx, opts->log_level ? opts->log_level : HLK_LOG_WARN };
    client->reply_timeout_ms = opts->reply_timeout_ms;
    client->reconnect_timeout_ms = opts->reconnect_timeout_ms;
    client->listening = opts->flags & HLK_OPEN_LISTEN;
    client->wait_replicas = (unsigned)opts->wait_replicas;
    client->wait_replicas_timeout_ms = opts->wait_replicas_timeout_ms;
    client->pubsub = !(opts->flags & HLK_OPEN_NO_PUBSUB);
    enum hlk_status status = HLK_OK;
    if (opts->flags & HLK_OPEN_DISPATCH)
        status = make_dispatch(client, error);
    if (status == HLK_OK)
        status = hlk_loop_create(&client->loop, error);
    if (status == HLK_OK)
        status = open_nodes(client, urls, count, opts, error);
    if (status != HLK_OK)
        return status;
    set_table(client, opts);
    status = hlk_events_start(&client->events, error);
    return status == HLK_OK ? hlk_loop_start(client->loop, error) : status;
}

static enum hlk_status connect_now(hlk_client *client, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    struct hlk_thread *self = hlk_thread_get();
    if (!self)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    int64_t timeout = client->reconnect_timeout_ms < 0 ? HLK_RECONNECT_TIMEOUT_MS : client->reconnect_timeout_ms;
    int64_t until = hlk_clock_after(hlk_clock_ms(), timeout);
    enum hlk_status status = HLK_OK;
    for (unsigned i = 0; i < client->node_count && status == HLK_OK; i++) {
        struct hlk_node *node = &client->nodes[i];
        status = node->cluster ? hlk_cluster_wait(node->cluster, self, until, error)
                               : hlk_pipeline_wait_up(node->pipeline, self, until, 0, error);
    }
    return status;
}

/* Pending releases are settled before the events thread ends: it runs their completions. */
static void stop_threads(hlk_client *client)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(atomic_load(&client->closing));
    hlk_client_each_server(client, hlk_node_disconnect);
    hlk_loop_stop(client->loop);
    hlk_client_each_server(client, hlk_node_disconnect); /* calls that came meanwhile */
    hlk_client_each_server(client, hlk_node_settle);
    hlk_events_stop(&client->events);
}

/* The first node that is not connected: open has failed there. "": open has failed before there were nodes. */
static const char *failed_node(hlk_client *client)
{
    struct hlk_error error;
    for (unsigned i = 0; i < client->node_count; i++) {
        const struct hlk_node *node = &client->nodes[i];
        if (!node->pipeline || hlk_pipeline_health(node->pipeline, &error) != HLK_OK)
            return node->endpoint.url.shown;
    }
    return "";
}

static enum hlk_status open_client(hlk_client **out, const char *const *urls, unsigned count, hlk_route *route,
                                   const struct hlk_client_opts *given)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(urls && count > 0 && route);
    struct hlk_client_opts opts;
    struct hlk_error error;
    if (!out)
        return hlk_last_set(HLK_E_INVALID, "open: out is NULL");
    *out = NULL;
    enum hlk_status status = hlk_client_read_opts(given, &opts);
    if (status != HLK_OK)
        return status;
    hlk_client *client = hlk_mem_zalloc(sizeof *client);
    if (!client)
        return hlk_last_set(HLK_E_NOMEM, "open: no memory");
    atomic_init(&client->refs, 1);
    client->process = hlk_thread_process();
    client->epoll_fd = client->work_fd = -1;
    hlk_mutex_init(&client->waits_mu, HLK_RANK_WAITS);
    hlk_mutex_init(&client->ready_mu, HLK_RANK_LEAF);
    hlk_list_init(&client->waits);
    hlk_list_init(&client->ready);
    client->route = route;
    status = make_parts(client, urls, count, &opts, &error);
    if (status == HLK_OK && !(opts.flags & HLK_OPEN_LAZY))
        status = connect_now(client, &error);
    if (status == HLK_OK) {
        hlk_holder_watch(&client->table);
        for (unsigned i = 0; client->listening && i < count; i++)
            if (!client->nodes[i].cluster)
                hlk_channel_retain_inbox(&client->nodes[i].channels);
        *out = client;
        return HLK_OK;
    }
    const char *shown = failed_node(client);
    (void)hlk_last_set(status, "open%s%s: %s", *shown ? " " : "", shown, error.text);
    atomic_store(&client->closing, true);
    stop_threads(client);
    hlk_client_unref(client);
    return status;
}

enum hlk_status hlk_client_open_nodes(hlk_client **out, const char *const *urls, unsigned count, hlk_route *route,
                                      const struct hlk_client_opts *opts)
{
    int old = hlk_nocancel_begin();
    enum hlk_status status = open_client(out, urls, count, route, opts);
    hlk_nocancel_end(old);
    return status;
}

/* --- close --- */

static void wake_waits(hlk_client *client)
{
    HLK_DEBUG_ASSERT(atomic_load(&client->closing));
    hlk_mutex_lock(&client->waits_mu);
    for (struct hlk_list *n = client->waits.next; n != &client->waits; n = n->next) {
        struct hlk_wait_entry *entry = HLK_CONTAINER(n, struct hlk_wait_entry, link);
        entry->wake(entry);
    }
    hlk_mutex_unlock(&client->waits_mu);
}

struct releasing {
    hlk_client *client;
    int64_t until_ms;
};

/* A hold that another thread is releasing just now is waited for, for some microseconds: its release has to be in the
 * stream before the connection goes. */
static void release_one(struct hlk_entry *e, void *ctx)
{
    hlk_mutex_assert_none();
    static const struct timespec moment = { 0, 50000 };
    struct releasing *releasing = ctx;
    struct hlk_release_record record;
    bool held, ending;
    while (!(held = hlk_entry_close(e, &record, &ending)) && ending && hlk_clock_ms() < releasing->until_ms)
        (void)nanosleep(&moment, NULL);
    if (!held)
        return;
    hlk_hold_end(e, &record);
    hlk_entry_release_finish(e);
}

static void forget_one(struct hlk_entry *e, void *ctx)
{
    hlk_mutex_assert_none();
    (void)ctx;
    hlk_entry_forget(e);
}

static void run_ready(hlk_client *client)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(atomic_load(&client->closing));
    for (;;) {
        hlk_mutex_lock(&client->ready_mu);
        struct hlk_list *node = hlk_list_pop(&client->ready);
        hlk_mutex_unlock(&client->ready_mu);
        if (!node)
            return;
        struct hlk_job *job = HLK_CONTAINER(node, struct hlk_job, link);
        job->run(job);
    }
}

/* Waits that were about to get a lock give it back before the connection goes. */
static void wait_for_requests(hlk_client *client)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(atomic_load(&client->closing));
    struct hlk_thread *self = hlk_thread_get();
    int64_t until = hlk_clock_ms() + client->reply_timeout_ms;
    if (!self)
        return;
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    atomic_store(&client->closer, self);
    while (atomic_load(&client->requests) > 0 && hlk_clock_ms() < until) {
        (void)hlk_park_take(&self->park, HLK_WAKE_SETTLED);
        if (atomic_load(&client->requests) > 0)
            (void)hlk_park_until(&self->park, HLK_WAKE_SETTLED, until, -1, NULL);
    }
    atomic_store(&client->closer, NULL);
}

static void drain_nodes(hlk_client *client)
{
    hlk_mutex_assert_none();
    int64_t until = hlk_clock_ms() + client->reply_timeout_ms;
    for (unsigned i = 0; i < client->node_count; i++)
        hlk_node_drain_connected(&client->nodes[i], until);
    for (unsigned i = 0; i < client->node_count; i++) /* if those that are connected are not enough */
        hlk_node_drain(&client->nodes[i], until);
}

/* Close is called by a thread that it would have to wait for. That is logged as an error, because close returns no
 * status. */
static bool called_back(hlk_client *client)
{
    struct hlk_thread *self = hlk_thread_get();
    bool here = (client->events.running && pthread_equal(pthread_self(), client->events.thread)) ||
                (client->loop && hlk_loop_here(client->loop)) || (self && atomic_load(&client->dispatcher) == self);
    if (here) {
        (void)hlk_last_set(HLK_E_INVALID, "close: called from a callback; the client stays open");
        hlk_log_write(&client->log, HLK_LOG_ERROR, "%s", hlk_last_error());
    }
    return here;
}

void hlk_client_close(hlk_client *client)
{
    if (!client || client->process != hlk_thread_process() || called_back(client) ||
        atomic_exchange(&client->closing, true))
        return;
    int old = hlk_nocancel_begin();
    for (unsigned i = 0; client->listening && i < client->node_count; i++)
        if (!client->nodes[i].cluster)
            hlk_channel_release_inbox(&client->nodes[i].channels);
    wake_waits(client);
    wait_for_requests(client);
    hlk_shared_close_all(&client->table); /* from now on the last entry that has a shared hold releases it */
    struct releasing releasing = { client, hlk_clock_ms() + client->reply_timeout_ms };
    hlk_entry_table_each(&client->table, release_one, &releasing);
    if (client->topology)
        client->topology->close(client->topology, client);
    hlk_holder_unwatch(&client->table); /* now no thread that ends is a holder any more */
    for (unsigned i = 0; i < client->node_count; i++)
        hlk_releases_start_all(&client->nodes[i].releases);
    /* a lost hold ends in Redis once its loss was told, unless a callback takes long over it */
    hlk_events_flush(&client->events, releasing.until_ms);
    drain_nodes(client);
    stop_threads(client);
    hlk_shared_fini(&client->table);
    run_ready(client);
    hlk_entry_table_each(&client->table, forget_one, NULL);
    hlk_client_each_server(client, hlk_node_settle);
    hlk_client_unref(client);
    hlk_nocancel_end(old);
}

const char *hlk_client_id(const hlk_client *client)
{
    return client ? client->id : NULL;
}

hlk_cancel *hlk_cancel_create(hlk_client *client)
{
    struct hlk_error error;
    if (hlk_client_check(client, "create cancel", NULL) != HLK_OK)
        return NULL;
    hlk_client_ref(client);
    hlk_cancel *cancel = hlk_cancel_make(client->loop, client, hlk_client_unref, &error);
    if (cancel)
        return cancel;
    hlk_client_unref(client);
    (void)hlk_last_set(error.status, "create cancel: %s", error.text);
    return NULL;
}
