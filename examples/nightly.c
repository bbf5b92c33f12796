/* nightly.c - a job that runs once a night in a cluster, whoever starts it first. nightly [URL]
 *
 * All hosts start it by cron, at about the same time. The first one takes the only permit of this night, and keeps it:
 * a lock that is released, or dies with its holder, would let a host through that comes a little later. The permit's
 * lease is longer than all clocks differ, and shorter than a day; nobody renews it, and closing the client does not
 * give it back. If the job fails its permit is given back, so that another host may try.
 *
 * Here three hosts start it, one after the other, and the first one fails. */
#define _POSIX_C_SOURCE 200809L
#include <hasplock/hasplock.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LEASE_MS (12 * 3600 * 1000)

static bool job(const char *host)
{
    bool works = strcmp(host, "host A") != 0;
    printf("%s: the job %s\n", host, works ? "is done" : "fails");
    return works;
}

static enum hlk_status start(const char *url, const char *host, const char *night)
{
    struct hlk_taken_permit permit = HLK_TAKEN_PERMIT_INIT;
    struct hlk_lock_opts opts = HLK_LOCK_OPTS_INIT;
    hlk_client *client;
    enum hlk_status status = hlk_client_open(&client, url, NULL);
    if (status != HLK_OK)
        return status;
    opts.permits = 1;
    hlk_permits *once = hlk_permits_create(client, night, &opts);
    status = hlk_permits_take(once, LEASE_MS, HLK_NOWAIT, &permit);
    if (status == HLK_OK && !job(host))
        status = hlk_permits_give_back(once, permit.id);
    else if (status == HLK_BUSY)
        printf("%s: it was started elsewhere\n", host);
    hlk_permits_destroy(once);
    hlk_client_close(client);
    return status;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : "local:";
    char night[64]; /* its date in a real job; here each run is a night of its own */
    snprintf(night, sizeof night, "nightly:%lld", (long long)hlk_now_ms());
    static const char *const hosts[] = { "host A", "host B", "host C" };
    for (int i = 0; i < 3; i++) {
        enum hlk_status status = start(url, hosts[i], night);
        if (status != HLK_OK && status != HLK_BUSY) {
            fprintf(stderr, "%s\n", hlk_last_error());
            return 1;
        }
    }
    return 0;
}
