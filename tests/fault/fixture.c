#include "fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

void fault_up(unsigned flags)
{
    fixture_begin(flags);
    server_allow(fixture.server, SERVER_TOMBSTONES);
}

struct hlk_client_opts fault_opts(void)
{
    struct hlk_client_opts opts = fixture_opts();
    opts.watchdog_ms = LEASE_MS;
    opts.reply_timeout_ms = REPLY_MS;
    opts.reconnect_timeout_ms = RECONNECT_MS;
    return opts;
}

hlk_client *bystander(void)
{
    return fixture_open_at(hlk_test_url(fixture.server), NULL);
}

hlk_lock *held_by_bystander(hlk_client *client, const char *name, int64_t lease_ms)
{
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    opts.lease_ms = lease_ms;
    hlk_lock *lock = fixture_lock(client, name, &opts);
    enum hlk_status status = hlk_lock_acquire(lock, HLK_NOWAIT);
    cr_assert_eq(status, HLK_OK, "%s is not free for a bystander: %s", name, hlk_last_error());
    return lock;
}

bool one_of(enum hlk_status status, const enum hlk_status *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == status)
            return true;
    return false;
}

const char *hold_of(const hlk_lock *lock)
{
    static _Thread_local char texts[4][192];
    static _Thread_local unsigned next;
    char *text = texts[next++ % 4];
    text[0] = '\0';
    (void)hlk_lock_hold_id(lock, text, sizeof texts[0]);
    return text;
}

const char *disagreement(hlk_lock *lock, const char *name, int count)
{
    static _Thread_local char said[512];
    const char *hold = hold_of(lock);
    char wanted[256];
    snprintf(wanted, sizeof wanted, "[\"%s\", \"%d\"]", hold, count);
    snprintf(said, sizeof said, "%s", raw(fixture.redis, "HGETALL %s", name));
    if (strcmp(said, wanted) == 0)
        return NULL;
    return hlk_lock_left_ms(lock) == 0 ? NULL : said; /* read after Redis: the loss was reported before */
}

enum hlk_status release_for_good(hlk_lock *lock, const char *name)
{
    char hold[192];
    snprintf(hold, sizeof hold, "%s", hold_of(lock));
    enum hlk_status status = hlk_lock_release(lock);
    cr_assert(ONE_OF(status, HLK_OK, HLK_LOST, HLK_E_UNSURE, HLK_E_CONNECT), "release: %s", hlk_last_error());
    cr_assert_eq(hlk_lock_holds(lock), 0);
    cr_assert_eq(hlk_lock_left_ms(lock), 0);
    if (UNKNOWN(status)) {
        WAIT_FOR((status = hlk_lock_release(lock), !UNKNOWN(status)));
        cr_assert(ONE_OF(status, HLK_OK, HLK_LOST), "release, asked again: %s", hlk_last_error());
    }
    if (status == HLK_OK && hold[0])
        cr_assert_not(is_held(name, hold), "released, and held by the same hold");
    cr_assert_eq(hlk_lock_release(lock), HLK_NOT_HOLDER);
    return status;
}

bool is_free(const char *name)
{
    return raw_pttl(fixture.redis, name) == -2;
}

bool is_held(const char *name, const char *hold)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "[\"%s\", \"1\"]", hold);
    if (strcmp(raw(fixture.redis, "HGETALL %s", name), wanted) == 0)
        return true;
    snprintf(wanted, sizeof wanted, "\"%s\"", hold);
    return strcmp(raw(fixture.redis, "GET %s", name), wanted) == 0;
}

int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = -3; /* not counted: . and .. and dir itself */
    while (dir && readdir(dir))
        n++;
    closedir(dir);
    return n;
}
