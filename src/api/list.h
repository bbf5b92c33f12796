/* list.h - hlk_lock_list, a step at a time. */
#ifndef HLK_API_LIST_H
#define HLK_API_LIST_H

#include "handle/handle.h"

/* hlk_list_opts.cursor says which of several servers it is of, in the bits from here on. Below is SCAN's own cursor. */
#define HLK_LIST_SERVER_BIT 54

/* Where that server's keys begin. */
static inline uint64_t hlk_list_cursor(unsigned server)
{
    return (uint64_t)server << HLK_LIST_SERVER_BIT;
}

static inline unsigned hlk_list_server(uint64_t cursor)
{
    return (unsigned)(cursor >> HLK_LIST_SERVER_BIT);
}

static inline uint64_t hlk_list_scan(uint64_t cursor)
{
    return cursor & (hlk_list_cursor(1) - 1);
}

#define HLK_LIST_STEP_KEYS 500  /* about 1 ms of the server's time */

struct hlk_list_step {
    const struct hlk_list_opts *opts;
    hlk_list_fn *fn;
    void *ctx;
    uint64_t cursor;        /* SCAN's. Out: that of the next step; 0: there is none. Unchanged if fn stopped it */
    int64_t keys;           /* looks at about so many */
    int64_t refused;        /* out */
    bool stopped;           /* out */
    bool understood;        /* of the answer */
};

/* The locks of one step through a server's keys. HLK_OK; else what hlk_lock_send says. Blocks. */
enum hlk_status hlk_list_step(hlk_lock *handle, hlk_pipeline *server, const struct hlk_send_limits *limits,
                              struct hlk_list_step *step);

#endif
