/* Builds the parts of a client in order, tears them down in reverse. */
#include "client.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/nocancel.h"
#include "lease/holder.h"
#include "script/many.h"

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
static bool name_client(hlk_client *client, const char *label)
{
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
    (void)snprintf(client->endpoint.client_name, sizeof client->endpoint.client_name, "hasplock:%s:%ld", program,
                   (long)getpid());
    return true;
}

/* --- what the parts call up --- */

static void on_up(void *ctx)
{
    hlk_client *client = ctx;
    hlk_watchdog_verify_all(&client->table.watchdog);
    hlk_undos_on_up(&client->undos);
}

static void on_down(void *ctx, const struct hlk_error *why)
{
    hlk_client *client = ctx;
    hlk_log(&client->endpoint.log, HLK_LOG_INFO, "%s: %s", client->endpoint.url.shown, why->text);
}

static void on_moved(void *ctx)
{
    hlk_pubsub_move(&((hlk_client *)ctx)->channels.pubsub);
}

static void on_letter(void *ctx, const char *letter, size_t len)
{
    hlk_table_hear(ctx, letter, len);
}

static void on_work(void *ctx)
{
    hlk_client_work(ctx);
}

void hlk_client_work(hlk_client *client)
{
    if (atomic_exchange(&client->work_told, true))
        return;
    int old = hlk_nocancel_begin();
    (void)eventfd_write(client->work_fd, 1);
    hlk_nocancel_end(old);
}

void hlk_client_complete(hlk_client *client, struct hlk_job *job)
{
    if (!client->dispatching) {
        hlk_events_post(&client->events, job);
        return;
    }
    hlk_mutex_lock(&client->ready_mu);
    hlk_list_push_back(&client->ready, &job->link);
    hlk_mutex_unlock(&client->ready_mu);
    hlk_client_work(client);
}

void hlk_client_request_begins(hlk_client *client)
{
    atomic_fetch_add(&client->requests, 1);
}

void hlk_client_request_ends(hlk_client *client)
{
    if (atomic_fetch_sub(&client->requests, 1) != 1)
        return;
    struct hlk_self *closer = atomic_load(&client->closer);
    if (closer)
        hlk_park_wake(&closer->park, HLK_WAKE_SETTLED);
}

void hlk_client_waits(hlk_client *client, struct hlk_wait_entry *entry)
{
    hlk_mutex_lock(&client->waits_mu);
    hlk_list_push_back(&client->waits, &entry->link);
    hlk_mutex_unlock(&client->waits_mu);
}

void hlk_client_waits_no_more(hlk_client *client, struct hlk_wait_entry *entry)
{
    hlk_mutex_lock(&client->waits_mu);
    hlk_list_remove(&entry->link);
    hlk_mutex_unlock(&client->waits_mu);
}

void hlk_client_warn_braces(hlk_client *client, const char *name)
{
    if (!atomic_exchange(&client->warned_braces, true))
        hlk_log(&client->endpoint.log, HLK_LOG_WARN,
                "lock \"%.128s\": its braces would part its keys on a cluster; told once for all such names", name);
}

enum hlk_status hlk_client_check(const hlk_client *client, const char *operation, const char *name)
{
    if (!client)
        return hlk_last_set(HLK_E_INVALID, "%s: client is NULL", operation);
    enum hlk_status status = client->process != hlk_self_process() ? HLK_E_FORKED
                             : atomic_load(&client->closing)       ? HLK_E_CLOSED
                                                                   : HLK_OK;
    if (status == HLK_OK)
        return status;
    return hlk_last_set(status, name ? "%s \"%.128s\": %s" : "%s%.0s: %s", operation, name ? name : "",
                        hlk_status_text(status));
}

/* --- references --- */

void hlk_client_ref(hlk_client *client)
{
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
    if (client->mux) {
        hlk_channels_fini(&client->channels);
        hlk_undos_fini(&client->undos);
        hlk_table_fini(&client->table);
        hlk_events_fini(&client->events);
    }
    hlk_mux_destroy(client->mux);
    hlk_loop_destroy(client->loop);
    hlk_url_fini(&client->endpoint.url);
    hlk_buffer_fini(&client->greeting.bytes);
    hlk_mutex_fini(&client->waits_mu);
    hlk_mutex_fini(&client->ready_mu);
    close_fd(client->epoll_fd);
    close_fd(client->work_fd);
    hlk_mem_free(client);
}

void hlk_client_unref(hlk_client *client)
{
    if (atomic_fetch_sub(&client->refs, 1) != 1)
        return;
    int old = hlk_nocancel_begin();
    free_client(client);
    hlk_nocancel_end(old);
}

/* --- open --- */

static char *replace_secret(char *old, const char *now)
{
    char *copy = hlk_mem_strdup(now);
    if (copy)
        hlk_mem_free(old);
    return copy;
}

static enum hlk_status set_endpoint(hlk_client *client, const char *url, const struct hlk_client_opts *opts,
                                    struct hlk_error *error)
{
    struct hlk_endpoint *endpoint = &client->endpoint;
    enum hlk_status status =
        url ? hlk_url_parse(&endpoint->url, url, error) : hlk_error_set(error, HLK_E_INVALID, "the URL is NULL");
    if (status != HLK_OK)
        return status;
    endpoint->log = (struct hlk_log){ opts->log, opts->log_ctx, opts->log_level ? opts->log_level : HLK_LOG_WARN };
    endpoint->reply_ms = client->reply_ms = opts->reply_ms;
    client->patience_ms = opts->patience_ms;
    if ((opts->username && !(endpoint->url.username = replace_secret(endpoint->url.username, opts->username))) ||
        (opts->password && !(endpoint->url.password = replace_secret(endpoint->url.password, opts->password))))
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    if (!name_client(client, opts->label))
        return hlk_error_set(error, HLK_E_OS, "no random bytes: %s", strerror(errno));
    return HLK_OK;
}

static enum hlk_status make_dispatch(hlk_client *client, struct hlk_error *error)
{
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
    struct hlk_table *table = &client->table;
    table->client_id = client->id;
    table->loop = client->loop;
    table->events = &client->events;
    table->undos = &client->undos;
    table->log = &client->endpoint.log;
    table->hook = (struct hlk_hook){ opts->on_event, opts->event_ctx };
    table->watchdog_ms = opts->watchdog_ms;
    table->at_risk_ms = opts->at_risk_ms;
    table->local_passes = opts->local_passes < 0 ? 0 : (unsigned)opts->local_passes;
}

static enum hlk_status make_parts(hlk_client *client, const struct hlk_client_opts *opts, struct hlk_error *error)
{
    enum hlk_status status = HLK_OK;
    if (opts->flags & HLK_OPEN_DISPATCH)
        status = make_dispatch(client, error);
    if (status == HLK_OK && !hlk_scripts_greeting(&client->greeting, client->id))
        status = hlk_error_set(error, HLK_E_NOMEM, "no memory");
    if (status == HLK_OK)
        status = hlk_loop_create(&client->loop, error);
    if (status != HLK_OK)
        return status;
    struct hlk_mux_owner owner = { .ctx = client,
                                   .on_up = on_up,
                                   .on_down = on_down,
                                   .on_moved = on_moved,
                                   .combine = hlk_many_combine,
                                   .on_work = client->dispatching ? on_work : NULL };
    status = hlk_mux_create(&client->mux, client->loop, &client->endpoint, &client->greeting, &owner,
                            opts->flags & HLK_OPEN_NO_SPIN, error);
    if (status != HLK_OK)
        return status;
    set_table(client, opts);
    hlk_events_init(&client->events, &client->endpoint.log);
    hlk_undos_init(&client->undos, client->loop, client->id);
    client->undos.mux = client->table.watchdog.mux = client->mux;
    client->undos.open_every = opts->open_every < 0 ? 0 : (unsigned)opts->open_every;
    client->undos.open_ms = opts->open_ms;
    hlk_table_init(&client->table);
    status = hlk_channels_init(&client->channels, client->loop, &client->endpoint, client->id, on_letter,
                               &client->table, error);
    if (status == HLK_OK)
        status = hlk_events_start(&client->events, error);
    if (status == HLK_OK)
        status = hlk_loop_start(client->loop, error);
    return status;
}

static enum hlk_status connect_now(hlk_client *client, struct hlk_error *error)
{
    struct hlk_self *self = hlk_self_get();
    if (!self)
        return hlk_error_set(error, HLK_E_NOMEM, "no memory");
    (void)hlk_park_take(&self->park, HLK_WAKE_ALL);
    int64_t patience = client->patience_ms < 0 ? HLK_PATIENCE_MS : client->patience_ms;
    return hlk_mux_wait_up(client->mux, self, hlk_clock_after(hlk_clock_ms(), patience), 0, error);
}

/* What is owed to Redis still is settled before the events thread goes: completions are told by it. */
static void stop_threads(hlk_client *client)
{
    if (client->mux)
        hlk_mux_close(client->mux);
    hlk_loop_stop(client->loop);
    if (client->mux)
        hlk_undos_settle_all(&client->undos);
    hlk_events_stop(&client->events);
}

static enum hlk_status open_client(hlk_client **out, const char *url, const struct hlk_client_opts *given)
{
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
    client->process = hlk_self_process();
    client->epoll_fd = client->work_fd = -1;
    hlk_mutex_init(&client->waits_mu, HLK_RANK_WAITS);
    hlk_mutex_init(&client->ready_mu, HLK_RANK_LEAF);
    hlk_list_init(&client->waits);
    hlk_list_init(&client->ready);
    status = set_endpoint(client, url, &opts, &error);
    if (status == HLK_OK)
        status = make_parts(client, &opts, &error);
    if (status == HLK_OK && !(opts.flags & HLK_OPEN_LAZY))
        status = connect_now(client, &error);
    if (status == HLK_OK) {
        hlk_holder_watch(&client->table);
        *out = client;
        return HLK_OK;
    }
    if (client->endpoint.url.shown[0])
        (void)hlk_last_set(status, "open %s: %s", client->endpoint.url.shown, error.text);
    else
        (void)hlk_last_set(status, "open: %s", error.text);
    atomic_store(&client->closing, true);
    stop_threads(client);
    hlk_client_unref(client);
    return status;
}

enum hlk_status hlk_client_open(hlk_client **out, const char *url, const struct hlk_client_opts *opts)
{
    int old = hlk_nocancel_begin();
    enum hlk_status status = open_client(out, url, opts);
    hlk_nocancel_end(old);
    return status;
}

/* --- close --- */

static void wake_waits(hlk_client *client)
{
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

/* One that another thread has just let go of is waited for, a matter of microseconds: its end has to be in the stream
 * before the connection goes. */
static void release_one(struct hlk_session *s, void *ctx)
{
    static const struct timespec moment = { 0, 50000 };
    struct releasing *releasing = ctx;
    struct hlk_parting parting;
    bool held, ending;
    while (!(held = hlk_session_close(s, &parting, &ending)) && ending && hlk_clock_ms() < releasing->until_ms)
        (void)nanosleep(&moment, NULL);
    if (!held)
        return;
    hlk_table_end(s, &parting);
    hlk_session_ended(s);
}

static void forget_one(struct hlk_session *s, void *ctx)
{
    (void)ctx;
    hlk_session_forget(s);
}

static void run_ready(hlk_client *client)
{
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

/* Those who were about to get a lock give it back before the connection goes. */
static void wait_for_requests(hlk_client *client)
{
    struct hlk_self *self = hlk_self_get();
    int64_t until = hlk_clock_ms() + client->reply_ms;
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

/* Until the ends are answered, if need be on a new connection. One that the server answers with NOSCRIPT, or would not
 * take now, is in the stream a second time. */
static void drain(hlk_client *client)
{
    static const struct timespec moment = { 0, 1000000 };
    struct hlk_error error;
    struct hlk_self *self = hlk_self_get();
    int64_t until = hlk_clock_ms() + client->reply_ms;
    if (hlk_mux_health(client->mux, &error) == HLK_OK)
        (void)hlk_mux_drain(client->mux, until);
    while (self && hlk_undos_count(&client->undos) > 0 && hlk_clock_ms() < until) {
        if (hlk_mux_wait_up(client->mux, self, until, 0, &error) != HLK_OK)
            return;
        if (hlk_mux_drain(client->mux, until) && hlk_undos_count(&client->undos) > 0)
            (void)nanosleep(&moment, NULL);
    }
}

/* By the thread that it would have to wait for: refused aloud, for close has no answer. */
static bool called_back(hlk_client *client)
{
    struct hlk_self *self = hlk_self_get();
    bool here = (client->events.running && pthread_equal(pthread_self(), client->events.thread)) ||
                (client->loop && hlk_loop_here(client->loop)) || (self && atomic_load(&client->dispatcher) == self);
    if (here) {
        (void)hlk_last_set(HLK_E_INVALID, "close: called from a callback; the client stays open");
        hlk_log_write(&client->endpoint.log, HLK_LOG_ERROR, "%s", hlk_last_error());
    }
    return here;
}

void hlk_client_close(hlk_client *client)
{
    if (!client || client->process != hlk_self_process() || called_back(client) ||
        atomic_exchange(&client->closing, true))
        return;
    int old = hlk_nocancel_begin();
    wake_waits(client);
    wait_for_requests(client);
    struct releasing releasing = { client, hlk_clock_ms() + client->reply_ms };
    hlk_table_each(&client->table, release_one, &releasing);
    hlk_holder_unwatch(&client->table); /* now no thread that ends is a holder any more */
    /* a lost hold ends in Redis once its loss was told, unless a callback takes long over it */
    hlk_events_flush(&client->events, releasing.until_ms);
    drain(client);
    stop_threads(client);
    hlk_channels_close(&client->channels);
    run_ready(client);
    hlk_table_each(&client->table, forget_one, NULL);
    hlk_undos_settle_all(&client->undos);
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
