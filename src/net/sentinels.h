/* sentinels.h - the locator of a redis+sentinel:// endpoint: finds the master by its sentinels.
 *
 * A search asks all sentinels at once. The first answer wins, unless another sentinel has given a higher configuration
 * epoch before. If no sentinel answers within HLK_SENTINEL_TIMEOUT_MS, the master that is known is used again. When a
 * sentinel names another master, in a search, after +switch-master or in a poll, on_moved runs.
 *
 * When the service was removed and is monitored anew, epochs begin at 0 again. So the master that a majority of the
 * known sentinels names anew, in two rounds, is followed although its epoch is not higher. What the others said until
 * then does not count any more.
 * Loop thread only, but for init (before the loop starts) and fini (after it has ended). */
#ifndef HLK_NET_SENTINELS_H
#define HLK_NET_SENTINELS_H

#include "net/sentinel.h"

#define HLK_SENTINELS_MAX 32            /* those of the URL, and learned ones */

struct hlk_sentinels {
    hlk_loop *loop;                     /* borrowed, like the next one */
    const struct hlk_endpoint *endpoint;/* whose URL names the sentinels and the service */
    void (*on_moved)(void *ctx);        /* the master is another server now: connections are to be dialled again */
    void *ctx;
    struct hlk_locator locator;         /* for the endpoint */

    char *username, *password;          /* for the sentinels; NULL: none */
    struct hlk_buffer round;
    struct hlk_list all;                /* struct hlk_sentinel */
    unsigned count;

    struct hlk_list searches;           /* that wait for an answer */
    bool searching, beginning;
    struct hlk_alarm over;              /* the search has taken too long */
    struct hlk_sentinel_answer master;  /* port 0: none is known yet */
    bool alone;                         /* no sentinel can be reached; this was logged */
};

/* HLK_OK, HLK_E_NOMEM; fini is to be called in both cases. `sentinels` is zero before. */
enum hlk_status hlk_sentinels_init(struct hlk_sentinels *sentinels, hlk_loop *loop, const struct hlk_endpoint *endpoint,
                                   const char *username, const char *password, void (*on_moved)(void *ctx), void *ctx,
                                   struct hlk_error *error);
void hlk_sentinels_fini(struct hlk_sentinels *sentinels);       /* a zeroed one is fine */

#endif
