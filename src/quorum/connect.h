/* connect.h - which masters are connected. A majority is enough to begin: no call waits for the others. A master that
 * connects later is given the holds of this client then. */
#ifndef HLK_QUORUM_CONNECT_H
#define HLK_QUORUM_CONNECT_H

#include "quorum/quorum.h"

struct hlk_quorum_links {
    unsigned n, need;           /* masters, and a majority of them */
    unsigned up;                /* connected */
    unsigned untried;           /* no attempt to connect has ended yet */
    unsigned refused;           /* waiting would not help */
    struct hlk_pipeline *waits; /* one that may come up; at best one that was not tried yet. NULL: there is none */
    enum hlk_status failure;    /* of those that are not connected: of all the same, or HLK_E_CONNECT */
    char why[HLK_ERROR_TEXT];   /* each of them, with its reason */
};

/* Begins to connect to each master that no call has asked for yet. Does not wait. */
void hlk_quorum_links_look(const hlk_client *client, struct hlk_quorum_links *links);
enum hlk_quorum_goal {
    HLK_QUORUM_MAJORITY,        /* a majority is connected, or so many have refused the client that none can be */
    HLK_QUORUM_MAJORITY_NOW,    /* a majority is connected, or the first attempts to connect have shown that none is */
    HLK_QUORUM_ALL_TRIED        /* each first attempt to connect has ended */
};

/* Until that is so, or at_ms comes. Blocks. */
void hlk_quorum_links_wait(const hlk_client *client, struct hlk_thread *self, enum hlk_quorum_goal goal, int64_t at_ms,
                           struct hlk_quorum_links *links);

/* From now on. Before anything is connected. */
void hlk_quorum_watch_links(hlk_client *client);

#endif
