/* Any text is a URL or a fault that says something; never does a password leave by an error or the shown URL. */
#include "net/url.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "hunter2hunter2"

static void check(bool holds, const char *what, const char *text)
{
    if (holds)
        return;
    fprintf(stderr, "%s: %s\n", what, text);
    abort();
}

static void check_fault(const struct hlk_url *url, const struct hlk_error *error, const char *text)
{
    check(error->status == HLK_E_INVALID && *error->text, "a fault without its story", text);
    check(!url->hosts && !url->service && !url->path && !url->name && !url->username && !url->password,
          "a fault left something", text);
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_hosts(const struct hlk_url *a, const struct hlk_url *b)
{
    bool same_all = a->host_count == b->host_count;
    for (unsigned i = 0; same_all && i < a->host_count; i++)
        same_all = same(a->hosts[i].name, b->hosts[i].name) && a->hosts[i].port == b->hosts[i].port;
    return same_all;
}

/* What is shown leads to the same place, unless it was cut or is a path, which is shown decoded. */
static void check_shown(const struct hlk_url *url, const char *text)
{
    struct hlk_url again;
    if (url->kind == HLK_URL_UNIX || strlen(url->shown) == sizeof url->shown - 1 || strchr(url->shown, '%'))
        return;
    check(hlk_url_parse(&again, url->shown, NULL) == HLK_OK, "shown is no URL", url->shown);
    check(again.kind == url->kind && again.tls == url->tls && same_hosts(&again, url) &&
              same(again.service, url->service) && same(again.name, url->name) && again.db == url->db,
          "shown leads elsewhere", text);
    hlk_url_fini(&again);
}

static void check_url(const struct hlk_url *url, const char *text)
{
    for (unsigned i = 0; i < url->host_count; i++) {
        const struct hlk_host *host = &url->hosts[i];
        check(host->name && *host->name && host->port > 0 && host->port < 65536, "bad host", text);
    }
    switch (url->kind) {
    case HLK_URL_TCP:
        check(url->host_count == 1 && url->db >= 0, "bad TCP URL", text);
        break;
    case HLK_URL_SENTINEL:
        check(url->host_count > 0 && url->service && *url->service && url->db >= 0, "bad sentinel URL", text);
        break;
    case HLK_URL_CLUSTER:
        check(url->host_count > 0 && url->db == 0, "bad cluster URL", text);
        break;
    case HLK_URL_UNIX:
        check(url->path && *url->path == '/' && strlen(url->path) < 108 && url->db >= 0, "bad unix URL", text);
        break;
    case HLK_URL_LOCAL:
        check(url->name && *url->name && strlen(url->name) <= 32 && !strchr(url->name, '/'), "bad local URL", text);
        break;
    }
    check_shown(url, text);
}

static void parse(const char *text, const char *secret)
{
    struct hlk_url url;
    struct hlk_error error = { .status = HLK_OK };
    if (hlk_url_parse(&url, text, &error) == HLK_OK)
        check_url(&url, text);
    else
        check_fault(&url, &error, text);
    if (secret) {
        check(!strstr(error.text, secret), "an error with a password", error.text);
        check(!strstr(url.shown, secret), "a shown password", url.shown);
    }
    hlk_url_fini(&url);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const before[] = { "",
                                          "redis://u:" SECRET,
                                          "redis://:" SECRET "@",
                                          "rediss://u:" SECRET "@",
                                          "redis+sentinel://u:" SECRET "@",
                                          "rediss+cluster://u:" SECRET "@" };
    if (memmem(data, size, SECRET, strlen(SECRET)))
        return 0;
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        char *text = malloc(size + 64);
        if (!text)
            abort();
        int len = sprintf(text, "%s", before[i]);
        memcpy(text + len, data, size);
        text[(size_t)len + size] = '\0';
        parse(text, i ? SECRET : NULL);
        free(text);
    }
    return 0;
}
