/* slots.h - pure: the slot of a key in a Redis Cluster, and what servers say about slots. */
#ifndef HLK_NODE_SLOTS_H
#define HLK_NODE_SLOTS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HLK_SLOTS 16384u

/* CRC16 of the key, or of its hash tag if it has one, as CLUSTER KEYSLOT. */
unsigned hlk_slot_of(const char *key, size_t len);

struct hlk_address {
    char host[256];             /* "": that of the server which said it */
    int port;
};

/* "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381". False: it is neither. */
bool hlk_slot_redirect_read(const char *words, unsigned *slot, struct hlk_address *to);

/* The masters in the reply to CLUSTER SLOTS: `each` for each range of slots, both ends included. False: it is no such
 * reply, or names a slot or an address that cannot be; `each` was called for what came before. */
typedef void hlk_slot_range_fn(void *ctx, unsigned first, unsigned last, const struct hlk_address *master);
bool hlk_slots_read(const redisReply *reply, hlk_slot_range_fn *each, void *ctx);

/* Of CLUSTER INFO: the epoch of the cluster, which grows with each failover; 0: it says nothing of it. *usable: the
 * server does not say that the cluster is down for it. */
uint64_t hlk_slots_epoch(const redisReply *reply, bool *usable);

#endif
