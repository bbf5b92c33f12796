/* url.c - see url.h. Texts of faults name the part and quote nothing: a mistyped URL may have its password anywhere. */
#include "net/url.h"

#include "base/debug.h"
#include "base/mem.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#define PORT 6379
#define SENTINEL_PORT 26379
#define SERVICE_LONGEST 256
#define NAME_LONGEST 32
#define PATH_LONGEST (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

struct span {
    const char *at, *end;
}; /* a part of the text; end is behind it */

static size_t span_len(struct span s)
{
    HLK_DEBUG_ASSERT(s.at <= s.end);
    return (size_t)(s.end - s.at);
}

static enum hlk_status bad(struct hlk_error *error, const char *what)
{
    return hlk_error_set(error, HLK_E_INVALID, "URL: %s", what);
}

static enum hlk_status no_url_memory(struct hlk_error *error)
{
    return hlk_error_set(error, HLK_E_NOMEM, "URL: no memory");
}

/* Where the first of `stops` is, or the end. */
static const char *url_find(struct span s, const char *stops)
{
    while (s.at < s.end && !strchr(stops, *s.at))
        s.at++;
    return s.at;
}

static const char *find_last(struct span s, char byte) /* NULL: nowhere */
{
    for (const char *at = s.end; at > s.at; at--)
        if (at[-1] == byte)
            return at - 1;
    return NULL;
}

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Undoes %XX into memory of its own: nothing of a password is anywhere but in what fini wipes. */
static enum hlk_status decode(char **out, struct span s, const char *part, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(!*out);
    char *to = hlk_mem_zalloc(span_len(s) + 1);
    if (!to)
        return no_url_memory(error);
    *out = to;
    while (s.at < s.end) {
        int byte = (unsigned char)*s.at++;
        if (byte == '%') {
            int high = s.end - s.at >= 2 ? hex(s.at[0]) : -1;
            int low = high >= 0 ? hex(s.at[1]) : -1;
            byte = low >= 0 ? high * 16 + low : 0;
            s.at += 2;
        }
        if (!byte)
            return hlk_error_set(error, HLK_E_INVALID, "URL: %s: %% must be followed by two hex digits other than 00",
                                 part);
        *to++ = (char)byte;
    }
    return HLK_OK;
}

static bool read_int(struct span s, int min, int max, int *out)
{
    HLK_DEBUG_ASSERT(min <= max);
    int n = 0;
    if (s.at == s.end || span_len(s) > 9)
        return false;
    for (; s.at < s.end; s.at++) {
        if (*s.at < '0' || *s.at > '9')
            return false;
        n = n * 10 + (*s.at - '0');
    }
    *out = n;
    return n >= min && n <= max;
}

static bool is_word(struct span s, const char *others)
{
    for (; s.at < s.end; s.at++) {
        char low = (char)(*s.at | 0x20);
        if (!(low >= 'a' && low <= 'z') && !(*s.at >= '0' && *s.at <= '9') && !strchr(others, *s.at))
            return false;
    }
    return true;
}

/* --- redis://, and the other ones with hosts */

static enum hlk_status parse_user(struct hlk_url *url, struct span s, struct hlk_error *error)
{
    const char *colon = url_find(s, ":");
    enum hlk_status status = HLK_OK;
    if (colon > s.at)
        status = decode(&url->username, (struct span){ s.at, colon }, "user", error);
    if (!status && colon < s.end && (colon + 1 < s.end || url->username))
        status = decode(&url->password, (struct span){ colon + 1, s.end }, "password", error);
    return status;
}

/* What is between [ and ]: an address, with a zone after % or %25 (RFC 6874). */
static enum hlk_status parse_ipv6(struct hlk_host *host, struct span s, struct hlk_error *error)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr unused;
    const char *percent = url_find(s, "%");
    struct span zone = { percent, s.end };
    size_t len = (size_t)(percent - s.at);
    if (span_len(zone) > 3 && memcmp(percent, "%25", 3) == 0)
        zone.at += 2; /* its '5' is written over by '%' below */
    if (len >= sizeof address || span_len(zone) == 1 ||
        (zone.at < zone.end && !is_word((struct span){ zone.at + 1, zone.end }, "._-")))
        return bad(error, "what is in brackets is not an IPv6 address");
    memcpy(address, s.at, len);
    address[len] = '\0';
    if (inet_pton(AF_INET6, address, &unused) != 1)
        return bad(error, "what is in brackets is not an IPv6 address");

    host->name = hlk_mem_zalloc(len + span_len(zone) + 1);
    if (!host->name)
        return no_url_memory(error);
    memcpy(host->name, address, len);
    if (span_len(zone)) {
        memcpy(host->name + len, zone.at, span_len(zone));
        host->name[len] = '%';
    }
    return HLK_OK;
}

static enum hlk_status parse_host(struct hlk_host *host, struct span s, struct hlk_error *error)
{
    if (s.at == s.end)
        return bad(error, "the host is missing");
    if (!is_word(s, ".-_"))
        return bad(error, "the host has a character that no host name has (IPv6 addresses stand in [brackets])");
    host->name = hlk_mem_memdup(s.at, span_len(s));
    return host->name ? HLK_OK : no_url_memory(error);
}

/* More than one colon: neither a host nor a host and a port. */
static bool is_bare_ipv6(struct span s)
{
    size_t colons = 0;
    for (const char *at = s.at; at < s.end; at++)
        colons += *at == ':';
    return colons > 1;
}

static enum hlk_status parse_host_and_port(struct hlk_host *host, struct span s, struct hlk_error *error)
{
    enum hlk_status status;
    const char *rest;
    if (s.at < s.end && *s.at == '[') {
        const char *close = url_find(s, "]");
        if (close == s.end)
            return bad(error, "the host has a [ without ]");
        rest = close + 1;
        status = parse_ipv6(host, (struct span){ s.at + 1, close }, error);
    } else if (is_bare_ipv6(s)) {
        return bad(error, "an IPv6 address stands in brackets, as in redis://[::1]:6379");
    } else {
        rest = url_find(s, ":");
        status = parse_host(host, (struct span){ s.at, rest }, error);
    }
    if (status || rest == s.end)
        return status;
    if (*rest != ':' || !read_int((struct span){ rest + 1, s.end }, 1, 65535, &host->port))
        return bad(error, "the port is not a number from 1 to 65535");
    return HLK_OK;
}

/* One host, or several with commas between. */
static enum hlk_status parse_hosts(struct hlk_url *url, struct span s, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(!url->hosts && url->host_count == 0);
    bool several = url->kind == HLK_URL_SENTINEL || url->kind == HLK_URL_CLUSTER;
    url->hosts = hlk_mem_zalloc((several ? HLK_URL_HOSTS_MAX : 1) * sizeof *url->hosts);
    if (!url->hosts)
        return no_url_memory(error);
    for (;;) {
        struct span one = { s.at, url_find(s, ",") };
        if (url->host_count == (several ? HLK_URL_HOSTS_MAX : 1))
            return several ? hlk_error_set(error, HLK_E_INVALID, "URL: more than %d hosts", HLK_URL_HOSTS_MAX)
                           : bad(error, "several hosts need redis+sentinel:// or redis+cluster://");
        struct hlk_host *host = &url->hosts[url->host_count++];
        host->port = url->kind == HLK_URL_SENTINEL ? SENTINEL_PORT : PORT;
        enum hlk_status status = parse_host_and_port(host, one, error);
        if (status || one.end == s.end)
            return status;
        s.at = one.end + 1;
    }
}

static enum hlk_status parse_db(struct hlk_url *url, struct span s, const char *wrong, struct hlk_error *error)
{
    if (span_len(s) == 0 || (*s.at == '/' && span_len(s) == 1))
        return HLK_OK;
    if (*s.at != '/' || !read_int((struct span){ s.at + 1, s.end }, 0, INT32_MAX, &url->db))
        return bad(error, wrong);
    return HLK_OK;
}

static enum hlk_status parse_service(struct hlk_url *url, struct span s, struct hlk_error *error)
{
    struct span service = { s.at + 1, s.end };
    if (span_len(s) < 2 || *s.at != '/')
        return bad(error, "redis+sentinel:// needs the master's name: redis+sentinel://host,host/mymaster");
    service.end = url_find(service, "/");
    if (span_len(service) == 0 || span_len(service) > SERVICE_LONGEST || !is_word(service, "._-"))
        return bad(error, "the master's name has 1 to 256 characters of A-Z a-z 0-9 . _ -");
    url->service = hlk_mem_memdup(service.at, span_len(service));
    if (!url->service)
        return no_url_memory(error);
    return parse_db(url, (struct span){ service.end, s.end }, "after the master's name only /DB may follow, a number",
                    error);
}

/* What follows the hosts. */
static enum hlk_status parse_rest(struct hlk_url *url, struct span s, struct hlk_error *error)
{
    if (url->kind == HLK_URL_SENTINEL)
        return parse_service(url, s, error);
    if (url->kind == HLK_URL_TCP)
        return parse_db(url, s, "after the host only /DB may follow, a number", error);
    enum hlk_status status = parse_db(url, s, "after the hosts of a cluster nothing may follow", error);
    return status || url->db == 0 ? status : bad(error, "a cluster has only the database 0");
}

static enum hlk_status parse_net(struct hlk_url *url, struct span s, struct hlk_error *error)
{
    struct span authority = { s.at, url_find(s, "/?#") };
    struct span rest = { authority.end, s.end };
    const char *at = find_last(authority, '@');
    enum hlk_status status = HLK_OK;

    if (url_find(rest, "@") < rest.end)
        return bad(error, "user or password has a '/', '?' or '#': write %2F, %3F, %23");
    if (at)
        status = parse_user(url, (struct span){ authority.at, at }, error);
    if (!status)
        status = parse_hosts(url, (struct span){ at ? at + 1 : authority.at, authority.end }, error);
    return status ? status : parse_rest(url, rest, error);
}

/* --- unix: */

static enum hlk_status parse_unix(struct hlk_url *url, struct span s, struct hlk_error *error)
{
    static const char db[] = "?db=";
    struct span path = { s.at, url_find(s, "?") };
    struct span query = { path.end, s.end };

    if (span_len(path) >= 2 && memcmp(path.at, "//", 2) == 0)
        path.at += 2;
    if (span_len(path) < 2 || *path.at != '/')
        return bad(error, "unix: needs the absolute path of a socket, as in unix:/run/redis.sock");
    if (span_len(query)) {
        if (span_len(query) < sizeof db || memcmp(query.at, db, sizeof db - 1) != 0)
            return bad(error, "after the path of unix: only ?db=N may follow");
        query.at += sizeof db - 1;
        if (!read_int(query, 0, INT32_MAX, &url->db))
            return bad(error, "the db is not a number");
    }
    enum hlk_status status = decode(&url->path, path, "path", error);
    if (!status && strlen(url->path) > PATH_LONGEST)
        return hlk_error_set(error, HLK_E_INVALID, "URL: the path is longer than a socket's may be, %zu bytes",
                             PATH_LONGEST);
    return status;
}

/* --- local: */

static enum hlk_status parse_local(struct hlk_url *url, struct span s, struct hlk_error *error)
{
    static const char usual[] = "default";
    if (span_len(s) > NAME_LONGEST || !is_word(s, "_-"))
        return bad(error, "after local: may only stand a name, 1 to 32 of A-Z a-z 0-9 _ -");
    url->name = span_len(s) ? hlk_mem_memdup(s.at, span_len(s)) : hlk_mem_strdup(usual);
    return url->name ? HLK_OK : no_url_memory(error);
}

/* --- the whole */

static const struct scheme {
    const char *prefix;
    enum hlk_url_kind kind;
    bool tls;
    enum hlk_status (*parse)(struct hlk_url *, struct span, struct hlk_error *);
} schemes[] = {
    { "redis://", HLK_URL_TCP, false, parse_net },
    { "rediss://", HLK_URL_TCP, true, parse_net },
    { "redis+sentinel://", HLK_URL_SENTINEL, false, parse_net },
    { "rediss+sentinel://", HLK_URL_SENTINEL, true, parse_net },
    { "redis+cluster://", HLK_URL_CLUSTER, false, parse_net },
    { "rediss+cluster://", HLK_URL_CLUSTER, true, parse_net },
    { "unix:", HLK_URL_UNIX, false, parse_unix },
    { "local:", HLK_URL_LOCAL, false, parse_local },
};
#define SCHEMES (sizeof schemes / sizeof schemes[0])

static enum hlk_status parse_scheme(struct hlk_url *url, const char *text, struct hlk_error *error)
{
    for (const struct scheme *scheme = schemes; scheme < schemes + SCHEMES; scheme++) {
        size_t len = strlen(scheme->prefix);
        if (strncasecmp(text, scheme->prefix, len) != 0)
            continue;
        url->kind = scheme->kind;
        url->tls = scheme->tls;
        return scheme->parse(url, (struct span){ text + len, text + strlen(text) }, error);
    }
    if (strncasecmp(text, "redlock", strlen("redlock")) == 0)
        return bad(error, "redlock:// names several masters; this is about one server, as in redis://host");
    return bad(error, "it begins with none of redis://, rediss://, redis+sentinel://, rediss+sentinel://, "
                      "redis+cluster://, rediss+cluster://, redlock://, redlocks://, unix:, local:");
}

static void show_hosts(const struct hlk_url *url, struct hlk_text *shown)
{
    for (const struct scheme *scheme = schemes; scheme < schemes + SCHEMES; scheme++)
        if (scheme->kind == url->kind && scheme->tls == url->tls)
            hlk_text_add(shown, "%s", scheme->prefix);
    for (unsigned i = 0; i < url->host_count; i++) {
        const struct hlk_host *host = &url->hosts[i];
        hlk_text_add(shown, strchr(host->name, ':') ? "%s[%s]:%d" : "%s%s:%d", i ? "," : "", host->name, host->port);
    }
    if (url->service)
        hlk_text_add(shown, "/%s", url->service);
    if (url->kind != HLK_URL_CLUSTER)
        hlk_text_add(shown, "/%d", url->db);
}

static void show_url(struct hlk_url *url)
{
    struct hlk_text shown;
    hlk_text_init(&shown, url->shown, sizeof url->shown);
    switch (url->kind) {
    case HLK_URL_TCP:
    case HLK_URL_SENTINEL:
    case HLK_URL_CLUSTER:
        show_hosts(url, &shown);
        break;
    case HLK_URL_UNIX:
        hlk_text_add(&shown, "unix:%s", url->path);
        if (url->db)
            hlk_text_add(&shown, "?db=%d", url->db);
        break;
    case HLK_URL_LOCAL:
        hlk_text_add(&shown, "local:%s", url->name);
        break;
    }
}

enum hlk_status hlk_url_parse(struct hlk_url *url, const char *text, struct hlk_error *error)
{
    memset(url, 0, sizeof *url);
    if (!text || !*text)
        return bad(error, "there is none; redis://host, unix:/path.sock or local:");
    enum hlk_status status = parse_scheme(url, text, error);
    if (status)
        hlk_url_fini(url);
    else
        show_url(url);
    return status;
}

void hlk_url_fini(struct hlk_url *url)
{
    if (url->password)
        explicit_bzero(url->password, strlen(url->password));
    for (unsigned i = 0; i < url->host_count; i++)
        hlk_mem_free(url->hosts[i].name);
    hlk_mem_free(url->hosts);
    hlk_mem_free(url->service);
    hlk_mem_free(url->path);
    hlk_mem_free(url->name);
    hlk_mem_free(url->username);
    hlk_mem_free(url->password);
    memset(url, 0, sizeof *url);
}
