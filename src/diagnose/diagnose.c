/* diagnose.c - one examination: connect, measure, ask everything at once, then judge point by point. */
#include "hasplock/diagnose.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/mem.h"
#include "base/mutex.h"
#include "base/nocancel.h"
#include "base/opts.h"
#include "client.h"
#include "client_opts.h"
#include "diagnose/exam.h"
#include "diagnose/measure.h"
#include "diagnose/rights.h"
#include "diagnose/sentinels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define CLOCK_MS 1000
#define CLOCK_MOST_MS 60000

HLK_OPTS_NO_TAIL(struct hlk_diagnose_opts, reserved);

struct diagnosis {
    struct hlk_url url;           /* as given */
    struct hlk_exchange exchange; /* with the server that is examined: its URL names one */
    struct hlk_exchange_login sentinel_login;
    struct hlk_exam exam;
    struct hlk_diagnose_opts opts;
    struct hlk_rights_probe probe;
    char id[64], user[HLK_VALUE_MAX];
    struct hlk_found found;
    hlk_finding_fn *fn;
    void *ctx;
};

/* --- the points, in the order in which they are reported */

static const struct check {
    const char *area;
    hlk_check_fn *judge;
} url_point = { "url", hlk_check_url }, sentinels_point = { "sentinels", hlk_check_sentinels },
  lookup_point = { "lookup", hlk_check_lookup }, connection_point = { "connection", hlk_check_connection },
  points[] = { { "tls", hlk_check_tls },
               { "login", hlk_check_login },
               { "round-trip", hlk_check_round_trip },
               { "server", hlk_check_server },
               { "role", hlk_check_role },
               { "topology", hlk_check_topology },
               { "database", hlk_check_database },
               { "lua", hlk_check_lua },
               { "rights", hlk_check_rights },
               { "rights-fenced", hlk_check_rights_fenced },
               { "rights-fair", hlk_check_rights_fair },
               { "rights-string", hlk_check_rights_string },
               { "rights-list", hlk_check_rights_list },
               { "rights-rwlock", hlk_check_rights_rwlock },
               { "rights-latch", hlk_check_rights_latch },
               { "rights-semaphore", hlk_check_rights_semaphore },
               { "rights-permits", hlk_check_rights_permits },
               { "rights-barrier", hlk_check_rights_barrier },
               { "rights-condition", hlk_check_rights_condition },
               { "rights-note", hlk_check_rights_note },
               { "rights-replicas", hlk_check_rights_replicas },
               { "rights-cluster", hlk_check_rights_cluster },
               { "eviction", hlk_check_eviction },
               { "persistence", hlk_check_persistence },
               { "replication", hlk_check_replication },
               { "clock-offset", hlk_check_clock_offset },
               { "clock-rate", hlk_check_clock_rate },
               { "slow-commands", hlk_check_slow_commands },
               { "busy-scripts", hlk_check_busy_scripts },
               { "clients", hlk_check_clients },
               { "output-buffers", hlk_check_output_buffers },
               { "idle-timeout", hlk_check_idle_timeout },
               { "keepalive", hlk_check_keepalive } };
enum { POINTS = sizeof points / sizeof *points };

static void report_area(struct diagnosis *d, const char *area)
{
    hlk_mutex_assert_none();
    HLK_DEBUG_ASSERT(area);
    struct hlk_finding finding = { sizeof finding,       area,
                                   (int)d->found.level,  d->found.measured.buf,
                                   d->found.meaning.buf, d->found.advice.buf };
    if (d->found.applies)
        d->fn(&finding, d->ctx);
}

static void judge_check(struct diagnosis *d, const struct check *check)
{
    hlk_found_init(&d->found);
    check->judge(&d->exam, &d->found);
    report_area(d, check->area);
}

static const struct end { /* of an examination that goes no further */
    const char *area, *meaning, *advice;
} no_server = { NULL, "No lock can be acquired, and a lock that is held is lost a lease after its last renewal.",
                "See whether the server runs, listens at this address, and is reachable from this host." },
  no_login = { "login", "No client can be opened: no lock can be acquired.",
               "Correct user and password, or the server's ACL: docs/acl.md has a user's line." },
  no_tls = { "tls", "No client can be opened: no lock can be acquired.",
             "Correct the server's certificate, or the client's options for TLS (hlk_client(3))." };

/* Ends the examination with what the exchange's error says. */
static enum hlk_status stop(struct diagnosis *d, const char *area, enum hlk_status status)
{
    HLK_DEBUG_ASSERT(status != HLK_OK);
    const char *text = d->exchange.error.text;
    const struct end *end = strncmp(text, "TLS: ", 5) == 0 ? &no_tls : status == HLK_E_AUTH ? &no_login : &no_server;
    hlk_found_init(&d->found);
    hlk_found_set(&d->found, HLK_FINDING_PROBLEM, "%s", text);
    hlk_found_meaning(&d->found, "%s", end->meaning);
    hlk_found_advice(&d->found, "%s", end->advice);
    report_area(d, end->area ? end->area : area);
    return hlk_last_set(status, "diagnose %s: %s", d->url.shown, text);
}

/* --- asking: each part in one write. No other command may come between SUBSCRIBE and its end. Nor may large replies be
 * under way then: the server would count them against its limit for subscribers, and end the connection. */

static bool add_ask(struct diagnosis *d, enum hlk_ask ask)
{
    HLK_DEBUG_ASSERT(ask < HLK_ASK_COUNT);
    char number[16], channel[640];
    const char *const *words = hlk_ask_words(ask);
    const char *argv[5];
    int argc = 0;
    for (; words && words[argc]; argc++)
        argv[argc] = words[argc];
    if (ask == HLK_ASK_RIGHTS)
        return hlk_exchange_add(&d->exchange, d->probe.argc, d->probe.argv);
    if (ask == HLK_ASK_SELECT) {
        (void)snprintf(number, sizeof number, "%d", d->exam.url->db);
        return hlk_exchange_add(&d->exchange, 2, (const char *[]){ "SELECT", number });
    }
    if (!words) {
        const char *command = hlk_rights_channel(channel, sizeof channel, ask, d->exam.prefix, d->exam.id);
        return hlk_exchange_add(&d->exchange, 2, (const char *[]){ command, channel });
    }
    return hlk_exchange_add(&d->exchange, argc, argv);
}

static enum hlk_status ask_part(struct diagnosis *d, enum hlk_ask begin, enum hlk_ask end)
{
    HLK_DEBUG_ASSERT(begin < end && end <= HLK_ASK_COUNT);
    for (enum hlk_ask ask = begin; ask < end; ask++)
        if (!add_ask(d, ask))
            return hlk_error_set(&d->exchange.error, HLK_E_NOMEM, "no memory");
    return hlk_exchange_ask(&d->exchange, d->exam.answers.reply + begin);
}

static enum hlk_status ask_all(struct diagnosis *d)
{
    static const enum hlk_ask begin[] = { 0, HLK_ASK_INBOX, HLK_ASK_CLUSTER, HLK_ASK_SHARD_INBOX, HLK_ASK_COUNT };
    unsigned parts = d->url.kind == HLK_URL_CLUSTER ? 4 : 2;
    enum hlk_status status = HLK_OK;
    hlk_rights_probe(&d->probe, d->exam.prefix, d->exam.id);
    for (unsigned i = 0; i < parts && status == HLK_OK; i++)
        status = ask_part(d, begin[i], begin[i + 1]);
    return status;
}

/* --- one after the other */

static void name_user(struct diagnosis *d)
{
    const redisReply *reply = d->exam.answers.reply[HLK_ASK_WHOAMI];
    const char *name = d->exam.url->username ? d->exam.url->username : "default";
    struct hlk_text text;
    if (reply && reply->type == REDIS_REPLY_STRING)
        name = reply->str;
    hlk_text_init(&text, d->user, sizeof d->user);
    hlk_text_add_shown(&text, name, strlen(name));
    d->exam.user = d->user;
}

/* *area: what failed. */
static enum hlk_status try_host(struct diagnosis *d, const char **area)
{
    hlk_mutex_assert_none();
    struct hlk_exam *exam = &d->exam;
    int64_t before_us = hlk_measure_now_us();
    exam->lookup_us = -1;
    if (d->exchange.endpoint.url.host_count) {
        *area = "lookup";
        enum hlk_status status = hlk_exchange_look_up(&d->exchange, &exam->addresses);
        exam->lookup_us = hlk_measure_now_us() - before_us;
        if (status != HLK_OK)
            return status;
    }
    *area = "connection";
    before_us = hlk_measure_now_us();
    enum hlk_status status = hlk_exchange_open(&d->exchange);
    exam->connect_us = hlk_measure_now_us() - before_us;
    return status;
}

/* The server that is examined becomes this one. */
static enum hlk_status aim_at(struct diagnosis *d, const char *host, int port)
{
    struct hlk_url *url = &d->exchange.endpoint.url;
    char *name = hlk_mem_strdup(host);
    if (!name)
        return hlk_error_set(&d->exchange.error, HLK_E_NOMEM, "no memory");
    for (unsigned i = 0; i < url->host_count; i++)
        hlk_mem_free(url->hosts[i].name);
    url->kind = HLK_URL_TCP;
    url->host_count = 1;
    url->hosts[0] = (struct hlk_host){ name, port };
    return HLK_OK;
}

/* Of a cluster's nodes the first one that answers. */
static enum hlk_status connect_cluster(struct diagnosis *d, const char **area)
{
    enum hlk_status status = HLK_E_CONNECT;
    for (unsigned i = 0; i < d->url.host_count && status == HLK_E_CONNECT; i++) {
        d->exam.silent_hosts = i;
        d->exchange.error = (struct hlk_error){ 0 };
        status = aim_at(d, d->url.hosts[i].name, d->url.hosts[i].port);
        if (status == HLK_OK)
            status = try_host(d, area);
    }
    return status;
}

static enum hlk_status connect_one(struct diagnosis *d, const char **area)
{
    struct hlk_exam_sentinels *sentinels = &d->exam.sentinels;
    if (d->url.kind == HLK_URL_CLUSTER)
        return connect_cluster(d, area);
    enum hlk_status status = HLK_OK;
    if (d->url.kind == HLK_URL_SENTINEL)
        status = aim_at(d, sentinels->host, sentinels->port);
    return status == HLK_OK ? try_host(d, area) : status;
}

static enum hlk_status connect_exchange(struct diagnosis *d)
{
    const char *area = "connection";
    enum hlk_status status = HLK_OK;
    judge_check(d, &url_point);
    if (d->url.kind == HLK_URL_SENTINEL) {
        status = hlk_exam_ask_sentinels(&d->exam.sentinels, &d->url, &d->sentinel_login, &d->exchange.error);
        if (status != HLK_OK)
            return stop(d, "sentinels", status);
        judge_check(d, &sentinels_point);
        if (d->exam.sentinels.know == 0)
            return hlk_last_set(HLK_E_CONNECT, "diagnose %s: %s", d->url.shown, d->found.measured.buf);
        d->exchange.error = (struct hlk_error){ 0 };
    }
    status = connect_one(d, &area);
    if (status != HLK_OK)
        return stop(d, area, status);
    if (d->exam.lookup_us >= 0)
        judge_check(d, &lookup_point);
    judge_check(d, &connection_point);
    d->exam.same_host = hlk_exchange_is_local(&d->exchange);
    if (d->exchange.conn.tls)
        hlk_tls_facts(d->exchange.conn.tls, &d->exam.tls);
    return HLK_OK;
}

static enum hlk_status examine(struct diagnosis *d)
{
    enum hlk_status status = connect_exchange(d);
    if (status != HLK_OK)
        return status;
    status = hlk_measure(&d->exchange, d->opts.clock_ms, &d->exam.pings, &d->exam.clocks);
    if (status == HLK_OK)
        status = ask_all(d);
    if (status != HLK_OK)
        return stop(d, "connection", status);
    name_user(d);
    for (int i = 0; i < POINTS; i++)
        judge_check(d, &points[i]);
    return HLK_OK;
}

/* --- options */

/* NULL: all is well; else what is wrong. */
static const char *bad_opts(const struct hlk_diagnose_opts *opts)
{
    if (opts->prefix && strlen(opts->prefix) > HLK_PREFIX_MAX)
        return "prefix: up to 400 bytes";
    if (opts->clock_ms < 1 || opts->clock_ms > CLOCK_MOST_MS)
        return "clock_ms: 1 to 60000";
    if (opts->flags & ~(HLK_DIAGNOSE_FENCED | HLK_DIAGNOSE_FAIR | HLK_DIAGNOSE_LIST | HLK_DIAGNOSE_STRING))
        return "flags: unknown bits";
    return opts->reserved ? "reserved: 0" : NULL;
}

static enum hlk_status read_diagnose_opts(const struct hlk_diagnose_opts *given, struct hlk_diagnose_opts *opts,
                                          struct hlk_client_opts *client)
{
    struct hlk_diagnose_opts defaults = HLK_DIAGNOSE_OPTS_INIT;
    *opts = defaults;
    if (given && !hlk_opts_copy(opts, sizeof *opts, given, given->size))
        return hlk_last_set(HLK_E_INVALID, "diagnose: options of size %zu are not known", given->size);
    opts->clock_ms = opts->clock_ms ? opts->clock_ms : CLOCK_MS;
    const char *wrong = bad_opts(opts);
    return wrong ? hlk_last_set(HLK_E_INVALID, "diagnose: %s", wrong) : hlk_client_read_opts(opts->client, client);
}

static struct hlk_tls_opts tls_opts(const struct hlk_client_opts *client)
{
    return (struct hlk_tls_opts){ .ca_file = client->tls_ca_file,
                                  .ca_dir = client->tls_ca_dir,
                                  .cert_file = client->tls_cert_file,
                                  .key_file = client->tls_key_file,
                                  .crl_file = client->tls_crl_file,
                                  .server_name = client->tls_server_name };
}

static enum hlk_status set_shown_url(struct diagnosis *d, const char *url, const struct hlk_client_opts *client)
{
    struct hlk_exchange_login login = { .username = client->username,
                                        .password = client->password,
                                        .credentials = { client->password_file, client->credentials,
                                                         client->credentials_ctx },
                                        .tls = tls_opts(client),
                                        .reply_timeout_ms = client->reply_timeout_ms };
    enum hlk_status status = hlk_exchange_init(&d->exchange, url, &login);
    if (status == HLK_OK)
        status = hlk_url_parse(&d->url, url, &d->exchange.error);
    if (status == HLK_OK && !hlk_exchange_set_user(&d->url, login.username, login.password))
        status = hlk_error_set(&d->exchange.error, HLK_E_NOMEM, "no memory");
    d->sentinel_login = (struct hlk_exchange_login){ .username = client->sentinel_username,
                                                     .password = client->sentinel_password,
                                                     .tls = login.tls,
                                                     .reply_timeout_ms = login.reply_timeout_ms,
                                                     .is_sentinel = true };
    return status == HLK_OK ? HLK_OK : hlk_last_set(status, "diagnose: %s", d->exchange.error.text);
}

static enum hlk_status prepare(struct diagnosis *d, const char *url, const struct hlk_client_opts *client)
{
    uint64_t random = 0;
    enum hlk_status status = set_shown_url(d, url, client);
    if (status != HLK_OK)
        return status;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return hlk_last_set(HLK_E_OS, "diagnose: no random number: %s", strerror(errno));
    (void)snprintf(d->id, sizeof d->id, "hasplock_doctor:%016llx", (unsigned long long)random);
    d->exam.url = &d->url;
    d->exam.has_password = (d->url.password && *d->url.password) || client->password_file || client->credentials;
    d->exam.prefix = d->opts.prefix ? d->opts.prefix : "";
    d->exam.id = d->id;
    d->exam.lease_ms = client->watchdog_ms;
    d->exam.flags = d->opts.flags;
    d->exam.pubsub = !(client->flags & HLK_OPEN_NO_PUBSUB);
    return HLK_OK;
}

static enum hlk_status diagnose(const char *url, const struct hlk_diagnose_opts *given, hlk_finding_fn *fn, void *ctx)
{
    hlk_mutex_assert_none();
    struct hlk_diagnose_opts opts;
    struct hlk_client_opts client;
    if (!url || !fn)
        return hlk_last_set(HLK_E_INVALID, "diagnose: %s", url ? "no callback" : "the URL is NULL");
    enum hlk_status status = read_diagnose_opts(given, &opts, &client);
    if (status != HLK_OK)
        return status;
    struct diagnosis *d = hlk_mem_zalloc(sizeof *d);
    if (!d)
        return hlk_last_set(HLK_E_NOMEM, "diagnose: no memory");
    d->opts = opts;
    d->fn = fn;
    d->ctx = ctx;
    status = prepare(d, url, &client);
    if (status == HLK_OK)
        status = examine(d);
    for (int ask = 0; ask < HLK_ASK_COUNT; ask++)
        if (d->exam.answers.reply[ask])
            freeReplyObject(d->exam.answers.reply[ask]);
    hlk_exchange_close(&d->exchange);
    hlk_url_fini(&d->url);
    hlk_mem_free(d);
    return status;
}

enum hlk_status hlk_diagnose(const char *url, const struct hlk_diagnose_opts *opts, hlk_finding_fn *fn, void *ctx)
{
    int old = hlk_nocancel_begin();
    enum hlk_status status = diagnose(url, opts, fn, ctx);
    hlk_nocancel_end(old);
    return status;
}
