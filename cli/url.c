/* url.c - see url.h. A file keeps a password out of the environment, which ps(1) and logs may show, and out of
 * crontabs. It is only that much better if nobody else may read it. */
#include "url.h"

#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define URL_MOST 4096

static bool is_given(const char *value)
{
    return value && *value;
}

/* 0600 of ours, or 0640 of root's: a service's group may read what root wrote for it. */
static const char *bad_mode(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "it is no regular file";
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "it belongs to another user";
    if (st->st_uid == 0)
        return st->st_mode & 027 ? "others than root and its group may use it (chmod 640)" : NULL;
    return st->st_mode & 077 ? "others than its owner may use it (chmod 600)" : NULL;
}

/* The first line, without blanks around it. NULL: it is too long, or there is none. */
static char *first_line(char *text, size_t len)
{
    text[len] = '\0';
    char *start = text + strspn(text, " \t\r\n");
    size_t n = strcspn(start, "\r\n");
    while (n > 0 && (start[n - 1] == ' ' || start[n - 1] == '\t'))
        n--;
    start[n] = '\0';
    return n > 0 && len < URL_MOST ? start : NULL;
}

static bool read_file(const char *path, const char **url, char *why, size_t why_size)
{
    static char text[URL_MOST + 1];
    struct stat st;
    char shown[200];
    text_shown(shown, sizeof shown, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t len = -1;
    const char *bad = NULL;
    if (fd < 0 || fstat(fd, &st) != 0)
        bad = strerror(errno);
    else if (!(bad = bad_mode(&st)) && (len = read(fd, text, URL_MOST)) < 0)
        bad = strerror(errno);
    if (fd >= 0)
        close(fd);
    *url = bad ? NULL : first_line(text, (size_t)len);
    if (!bad && !*url)
        bad = "no URL in its first line";
    if (bad)
        snprintf(why, why_size, "the URL cannot be read from \"%s\": %s", shown, bad);
    return !bad;
}

static bool none(char *why, size_t why_size)
{
    if (getenv("HASPLOCK_NAME")) /* hasplock within hasplock */
        snprintf(why, why_size,
                 "which server? hasplock run keeps a URL with a password from its COMMAND: put it into a file and set "
                 "HASPLOCK_URL_FILE, or give --url");
    else
        snprintf(why, why_size,
                 "which server? Set HASPLOCK_URL or give --url, as in redis://host; --url local: is a private server "
                 "on this host only");
    return false;
}

/* One of two, of the same kind. */
static bool only_one(const char **url, const char **file, const char *both, char *why, size_t why_size)
{
    if (is_given(*url) && is_given(*file)) {
        snprintf(why, why_size, "%s are both given: which server?", both);
        return false;
    }
    return true;
}

bool url_find(const char **url, const char **file, char *why, size_t why_size)
{
    if (!only_one(url, file, "--url and --url-file", why, why_size))
        return false;
    if (!*url && !*file) {
        *url = getenv("HASPLOCK_URL");
        *file = getenv("HASPLOCK_URL_FILE");
        if (!only_one(url, file, "HASPLOCK_URL and HASPLOCK_URL_FILE", why, why_size))
            return false;
    }
    if (is_given(*file))
        return read_file(*file, url, why, why_size);
    *file = NULL;
    return is_given(*url) || none(why, why_size);
}

bool url_has_password(const char *url)
{
    const char *colon = strchr(url, ':'); /* behind the scheme */
    const char *at = strrchr(url, '@');
    if (!colon || !at)
        return false;
    colon = strchr(colon + 1, ':');
    return colon && colon < at;
}

static bool begins(const char *url, const char *scheme)
{
    return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

bool url_has_tls(const char *url)
{
    return begins(url, "rediss:") || begins(url, "rediss+") || begins(url, "redlocks:");
}

bool url_has_masters(const char *url)
{
    return begins(url, "redlock:") || begins(url, "redlocks:");
}

const char *url_of_master(const char *url, unsigned master, char *buf, size_t size)
{
    const char *at = strchr(url, ':') + 1;
    at += strspn(at, "/");
    size_t len = strcspn(at, ",?");
    for (; master > 0 && at[len] == ','; master--) {
        at += len + 1;
        len = strcspn(at, ",?");
    }
    const char *scheme = begins(at, "unix:") ? "" : url_has_tls(url) ? "rediss://" : "redis://";
    int n = master > 0 ? -1 : snprintf(buf, size, "%s%.*s", scheme, (int)len, at);
    return n > 0 && (size_t)n < size ? buf : NULL;
}

int64_t url_lease_ms(const char *url)
{
    static const char name[] = "ttl_ms=";
    const char *at = url_has_masters(url) ? strchr(url, '?') : NULL;
    while (at && strncmp(at + 1, name, strlen(name)) != 0)
        at = strchr(at + 1, '&');
    return at ? strtoll(at + 1 + strlen(name), NULL, 10) : 0;
}
