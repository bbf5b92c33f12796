/* resp.h - parses a server's replies with hiredis, within limits. No reply that the library requests is longer, has
 * more elements or is nested deeper, but a cluster's map, which has limits of its own. A broken or hostile server costs
 * its connection, not the memory of this process.
 *
 * hiredis limits the elements since 1.0, the nesting up to 0.14 and from 1.2.1 on, and never the bytes. */
#ifndef HLK_NET_RESP_H
#define HLK_NET_RESP_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

/* The longest reply names HLK_WAITERS_MAX waiters (inspect.h), with less than 300 bytes each. The deepest has 4
 * levels. */
#define HLK_REPLY_BYTES (4 * 1024 * 1024)
#define HLK_REPLY_ELEMENTS 16384
#define HLK_REPLY_DEPTH 32

/* The map of a cluster's slots (CLUSTER SLOTS) is longer: up to 16,384 ranges, each with the addresses of a master and
 * of its replicas. So many elements are enough for four replicas with host names; 4 KiB a range. */
#define HLK_MAP_BYTES (64 * 1024 * 1024)
#define HLK_MAP_ELEMENTS (16384 * 48)

struct hlk_resp;

struct hlk_resp *hlk_resp_create(void);                 /* NULL: no memory */
void hlk_resp_destroy(struct hlk_resp *resp);         /* NULL is fine */

bool hlk_resp_feed(struct hlk_resp *resp, const char *bytes, size_t len);     /* false: no memory */

/* The next complete reply, which the caller frees. NULL: more bytes are needed, or *why (NULL before) says what is
 * wrong with the input; then the connection must be dropped. After each feed, call it until it returns NULL. */
redisReply *hlk_resp_next(struct hlk_resp *resp, const char **why);

/* While on, a reply may be as large as a map. One with more elements is read to its end and given as an error reply:
 * the replies behind it are other commands'. Off at first. */
void hlk_resp_expect_map(struct hlk_resp *resp, bool on);

size_t hlk_resp_amid(const struct hlk_resp *resp);    /* bytes of an incomplete reply */

#endif
