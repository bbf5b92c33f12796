/* No memory at one place in turn, while a client is opened by sentinels and uses a lock. */
#include "base/mem.h"
#include "support/fake_sentinel.h"
#include "support/fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct server *server;
static struct fake_sentinel *fake;
static char url[128];

static void start(void)
{
    server = server_start(SERVER_TCP | SERVER_NOACL, NULL);
    fake = fake_sentinel_start(server->port, 1);
    snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/tmaster", fake_sentinel_port(fake),
             fake_sentinel_port(fake));
}

static void stop(void)
{
    hlk_mem_fail_after(-1);
    fake_sentinel_stop(fake);
    server_finish(server);
}

TestSuite(sentinel_memory, .init = start, .fini = stop, .timeout = 120);

static enum hlk_status open_and_use(void)
{
    struct hlk_client_opts opts = fixture_opts();
    hlk_client *client;
    opts.sentinel_username = "watcher";
    opts.sentinel_password = "secret";
    enum hlk_status status = hlk_client_open(&client, url, &opts);
    if (status != HLK_OK)
        return status;
    hlk_lock *lock = hlk_lock_create(client, "t", NULL);
    status = lock ? hlk_lock_acquire(lock, 5000) : hlk_last_status();
    if (status == HLK_OK)
        status = hlk_lock_release(lock);
    hlk_lock_destroy(lock);
    hlk_client_close(client);
    return status;
}

Test(sentinel_memory, that_lacks_at_one_place_is_an_error_or_no_matter)
{
    int failed = 0;
    for (long n = 1; n <= 100; n++) {
        hlk_mem_fail_once(n);
        enum hlk_status status = open_and_use();
        hlk_mem_fail_after(-1);
        cr_assert(status == HLK_OK || status == HLK_E_NOMEM, "allocation %ld: %s", n, hlk_last_error());
        failed += status == HLK_E_NOMEM;
        cr_assert_eq(open_and_use(), HLK_OK, "after %ld: %s", n, hlk_last_error());
    }
    cr_assert_gt(failed, 10);
}
