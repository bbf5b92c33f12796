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
    check(!url->host && !url->path && !url->name && !url->username && !url->password, "a fault left something", text);
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* What is shown leads to the same place, unless it was cut or is a path, which is shown decoded. */
static void check_shown(const struct hlk_url *url, const char *text)
{
    struct hlk_url again;
    if (url->kind == HLK_URL_UNIX || strlen(url->shown) == sizeof url->shown - 1 || strchr(url->shown, '%'))
        return;
    check(hlk_url_parse(&again, url->shown, NULL) == HLK_OK, "shown is no URL", url->shown);
    check(again.kind == url->kind && same(again.host, url->host) && same(again.name, url->name) &&
              again.port == url->port && again.db == url->db,
          "shown leads elsewhere", text);
    hlk_url_fini(&again);
}

static void check_url(const struct hlk_url *url, const char *text)
{
    switch (url->kind) {
    case HLK_URL_TCP:
        check(url->host && *url->host && url->port > 0 && url->port < 65536 && url->db >= 0, "bad TCP URL", text);
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
    static const char *const before[] = { "", "redis://u:" SECRET, "redis://:" SECRET "@", "rediss://u:" SECRET "@" };
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
