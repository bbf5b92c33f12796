#include "net/credentials.h"

#include "base/debug.h"
#include "base/mutex.h"
#include "base/nocancel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void hlk_credentials_wipe(struct hlk_credentials *credentials)
{
    explicit_bzero(credentials, sizeof *credentials);
}

static enum hlk_status bad_file(const char *path, const char *why, struct hlk_error *error)
{
    return hlk_error_set(error, HLK_E_AUTH, "the password cannot be read from \"%.200s\": %s", path, why);
}

/* The first line. */
static enum hlk_status read_password(const char *path, char *to, size_t size, struct hlk_error *error)
{
    HLK_DEBUG_ASSERT(size > 1);
    int old = hlk_nocancel_begin();
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t len = fd < 0 ? -1 : read(fd, to, size - 1);
    int why = errno;
    if (fd >= 0)
        close(fd);
    hlk_nocancel_end(old);
    if (len < 0)
        return bad_file(path, strerror(why), error);
    to[len] = '\0';
    size_t line = strcspn(to, "\r\n");
    if ((size_t)len == size - 1 && line == (size_t)len)
        return bad_file(path, "its first line is too long", error);
    explicit_bzero(to + line, size - line);
    return line > 0 ? HLK_OK : bad_file(path, "its first line is empty", error);
}

enum hlk_status hlk_credentials_read(const struct hlk_credentials_source *source, const struct hlk_url *url,
                                     struct hlk_credentials *out, bool *user, bool *password, struct hlk_error *error)
{
    hlk_mutex_assert_none();
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->server = url->shown;
    enum hlk_status status = HLK_OK;
    if ((url->username && strlen(url->username) >= sizeof out->username) ||
        (url->password && strlen(url->password) >= sizeof out->password))
        return hlk_error_set(error, HLK_E_AUTH, "user or password is too long");
    (void)snprintf(out->username, sizeof out->username, "%s", url->username ? url->username : "");
    (void)snprintf(out->password, sizeof out->password, "%s", url->password ? url->password : "");
    if (source->password_file)
        status = read_password(source->password_file, out->password, sizeof out->password, error);
    if (status == HLK_OK && source->callback && source->callback(out, source->ctx) != 0)
        status = hlk_error_set(error, HLK_E_AUTH, "the credentials callback has none");
    out->username[sizeof out->username - 1] = out->password[sizeof out->password - 1] = '\0';
    *user = *out->username != '\0'; /* a user without password is never replaced by the default user */
    *password = *out->password != '\0' || url->password;
    if (status != HLK_OK)
        hlk_credentials_wipe(out);
    return status;
}
