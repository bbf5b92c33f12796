#include "quorum/url.h"

#include "base/debug.h"
#include "base/mem.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define DIGITS_MOST 12

static const struct scheme {
    const char *prefix, *of_each;
} schemes[] = { { "redlock://", "redis://" }, { "redlocks://", "rediss://" } };

static const struct scheme *find_scheme(const char *text)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncasecmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) == 0)
            return &schemes[i];
    return NULL;
}

bool hlk_quorum_url_is(const char *text)
{
    return text && find_scheme(text);
}

static enum hlk_status bad_url(struct hlk_error *error, const char *what)
{
    return hlk_error_set(error, HLK_E_INVALID, "URL: %s", what);
}

/* --- options --- */

enum option_type { OPTION_MS, OPTION_INT, OPTION_FACTOR };

static const struct option {
    const char *name;
    enum option_type type;
    bool may_be_zero;
    size_t offset;
} options[] = {
    { "ttl_ms", OPTION_MS, false, offsetof(struct hlk_quorum_opts, ttl_ms) },
    { "node_timeout_ms", OPTION_MS, false, offsetof(struct hlk_quorum_opts, node_timeout_ms) },
    { "clock_drift_factor", OPTION_FACTOR, true, offsetof(struct hlk_quorum_opts, clock_drift_factor) },
    { "retry_count", OPTION_INT, true, offsetof(struct hlk_quorum_opts, retry_count) },
    { "retry_delay_ms", OPTION_INT, false, offsetof(struct hlk_quorum_opts, retry_delay_ms) },
    { "retry_jitter_ms", OPTION_INT, true, offsetof(struct hlk_quorum_opts, retry_jitter_ms) },
    { "max_renewals", OPTION_INT, true, offsetof(struct hlk_quorum_opts, max_renewals) },
    { "restart_delay_ms", OPTION_MS, true, offsetof(struct hlk_quorum_opts, restart_delay_ms) },
};

static const char known_options[] = "known options are ttl_ms, node_timeout_ms, clock_drift_factor, retry_count, "
                                    "retry_delay_ms, retry_jitter_ms, max_renewals, restart_delay_ms";

static const struct option *find_option(const char *at, size_t len)
{
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strlen(options[i].name) == len && strncmp(options[i].name, at, len) == 0)
            return &options[i];
    return NULL;
}

/* Digits, and with `fraction` a point among them, whatever the locale is. */
static bool read_option_number(const char *at, const char *end, bool fraction, double *out)
{
    HLK_DEBUG_ASSERT(at <= end);
    double value = 0, scale = 0;
    if (at == end || end - at > DIGITS_MOST || *at == '.' || end[-1] == '.')
        return false;
    for (; at < end; at++) {
        if (fraction && *at == '.' && scale == 0) {
            scale = 1;
            continue;
        }
        if (*at < '0' || *at > '9')
            return false;
        value = value * 10 + (*at - '0');
        scale *= 10;
    }
    *out = scale > 0 ? value / scale : value;
    return true;
}

/* In the structure a 0 is the default, and what is negative means none. */
static bool set_option(struct hlk_quorum_opts *opts, const struct option *option, const char *at, const char *end)
{
    HLK_DEBUG_ASSERT(option->offset < sizeof *opts);
    char *to = (char *)opts + option->offset;
    double value;
    if (!read_option_number(at, end, option->type == OPTION_FACTOR, &value) || (value == 0 && !option->may_be_zero) ||
        (option->type == OPTION_INT && value > INT32_MAX))
        return false;
    if (value == 0)
        value = -1;
    if (option->type == OPTION_FACTOR)
        *(double *)(void *)to = value;
    else if (option->type == OPTION_INT)
        *(int *)(void *)to = (int)value;
    else
        *(int64_t *)(void *)to = (int64_t)value;
    return true;
}

static enum hlk_status parse_options(struct hlk_quorum_opts *opts, const char *text, struct hlk_error *error)
{
    while (*text) {
        const char *end = text + strcspn(text, "&"), *equals = text + strcspn(text, "=&");
        const struct option *option = find_option(text, (size_t)(equals - text));
        if (!option)
            return bad_url(error, known_options);
        if (equals == end || !set_option(opts, option, equals + 1, end))
            return hlk_error_set(error, HLK_E_INVALID, "URL: %s is not a number that it may be", option->name);
        text = end + (*end == '&');
    }
    return HLK_OK;
}

/* --- masters --- */

static unsigned count_masters(const char *at, size_t len)
{
    unsigned n = 1;
    for (size_t i = 0; i < len; i++)
        n += at[i] == ',';
    return n;
}

static enum hlk_status split(struct hlk_quorum_url *url, const struct scheme *scheme, const char *at, size_t len,
                             struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(!url->text && url->count == 0);
    unsigned n = count_masters(at, len);
    if (n > HLK_QUORUM_MAX)
        return hlk_error_set(error, HLK_E_INVALID, "URL: more than %d masters", HLK_QUORUM_MAX);
    url->size = len + n * (strlen(scheme->of_each) + 1);
    char *to = url->text = hlk_mem_zalloc(url->size);
    if (!to)
        return hlk_error_set(error, HLK_E_NOMEM, "URL: no memory");
    for (const char *end = at + len; url->count < n;) {
        size_t one = 0;
        while (at + one < end && at[one] != ',')
            one++;
        if (one == 0)
            return bad_url(error, "a master is missing, as in redlock://a,b,c");
        url->urls[url->count++] = to;
        if (strncmp(at, "unix:", strlen("unix:")) != 0)
            to = stpcpy(to, scheme->of_each);
        memcpy(to, at, one);
        to += one + 1;
        at += one + 1;
    }
    return HLK_OK;
}

enum hlk_status hlk_quorum_url_parse(struct hlk_quorum_url *url, const char *text, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(hlk_quorum_url_is(text));
    static const struct hlk_quorum_opts none = HLK_QUORUM_OPTS_INIT;
    memset(url, 0, sizeof *url);
    url->opts = none;
    const struct scheme *scheme = find_scheme(text);
    const char *masters = text + strlen(scheme->prefix);
    size_t len = strcspn(masters, "?");
    enum hlk_status status = split(url, scheme, masters, len, error);
    if (status == HLK_OK && masters[len])
        status = parse_options(&url->opts, masters + len + 1, error);
    if (status != HLK_OK)
        hlk_quorum_url_fini(url);
    return status;
}

void hlk_quorum_url_fini(struct hlk_quorum_url *url)
{
    if (url->text)
        explicit_bzero(url->text, url->size);
    hlk_mem_free(url->text);
    memset(url, 0, sizeof *url);
}
