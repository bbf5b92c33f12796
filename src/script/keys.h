/* keys.h - keys, channels and field names, as Redisson spells them (docs/protocol.md). Keys of hasplock's own that one
 * format alone has may be in its file (src/kinds), made by hlk_key_own. */
#ifndef HLK_SCRIPT_KEYS_H
#define HLK_SCRIPT_KEYS_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define HLK_NAME_MAX 512
#define HLK_INBOX_PREFIX "hasplock_inbox:"
#define HLK_KEY_MAX (HLK_NAME_MAX + 64)     /* a name with a prefix and braces */
#define HLK_FIELD_MAX 192                   /* "<client id>:<hold id>" */
#define HLK_MEMBER_MAX (HLK_FIELD_MAX + 4 * 24)     /* a ticket */

/* A key's name from a lock's. Returns its length. */
typedef size_t hlk_key_fn(char out[HLK_KEY_MAX], const char *name, size_t len);

/* prefix:{name}, or prefix:name when the name has a '{' anywhere: Redisson's rule, not a hash tag parser's. */
size_t hlk_key_channel(char out[HLK_KEY_MAX], const char *name, size_t len);
/* prefix:{name}, or prefix::name when the name has a '{': another one for each name. For keys that Redisson does not
 * know. */
size_t hlk_key_own(char out[HLK_KEY_MAX], const char *prefix, const char *name, size_t len);
/* hasplock_queue:{name}, or hasplock_queue::name. */
size_t hlk_key_queue(char out[HLK_KEY_MAX], const char *name, size_t len);
/* What the key of a note beside a lock begins with: hasplock_note:{name}:<holder>, or hasplock_note::name:<holder>. */
size_t hlk_key_note(char out[HLK_KEY_MAX], const char *name, size_t len);
/* Of semaphores; and the leases of permits: {name}:timeout. */
size_t hlk_key_semaphore_channel(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_leases(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_token(char out[HLK_KEY_MAX], const char *name, size_t len);
/* The channel on which a client gets messages, such as grants. */
size_t hlk_key_inbox(char out[HLK_KEY_MAX], const char *client_id);
/* The same for one lock, in the lock's slot: where messages go by sharded pub/sub. */
size_t hlk_key_lock_inbox(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const char *name, size_t len, const char *client_id);
/* Of a read/write lock: its queue, as hlk_key_queue; its channel; and what its readers' keys begin with. */
size_t hlk_key_rw_queue(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_rw_channel(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_tag(char out[HLK_KEY_MAX], const char *name, size_t len);
/* The channel of a latch: Redisson's, which adds braces to each name; and one that is in the latch's slot. */
size_t hlk_key_latch(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_latch_in_slot(char out[HLK_KEY_MAX], const char *name, size_t len);
/* Of a barrier: its generation and parties, which is the name of its channel too; and the parties that have arrived. */
size_t hlk_key_barrier(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_arrived(char out[HLK_KEY_MAX], const char *name, size_t len);
/* Of a fair lock: its waiters, their scores, hasplock's own data; and the channel of one waiter. */
size_t hlk_key_fair_queue(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_fair_scores(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_fair(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_waiter(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const char *name, size_t len, const char *client_id,
                      uint64_t hold);

/* A '{' without a non-empty {...}: lock and channel would be in different slots of a cluster. */
bool hlk_name_breaks_slots(const char *name, size_t len);

size_t hlk_field(char out[HLK_FIELD_MAX], const char *client_id, uint64_t hold);
/* A ticket in the queue (lua/include_pass.lua). */
struct hlk_member { int64_t ttl_ms, tokens, floor, since_ms; };
size_t hlk_member(char out[HLK_MEMBER_MAX], const char *client_id, uint64_t hold, const struct hlk_member *member);
/* Does it belong to a client of this library? */
bool hlk_field_is_ours(const char *field);
/* Is it a hold of this client? */
bool hlk_field_is_of(const char *field, size_t len, const char *client_id);

/* For messages: "web-3 pid 4711 (hold 12)" for a client of this library, else the field as it is. */
void hlk_field_describe(struct hlk_text *text, const char *field, size_t len);

#endif
