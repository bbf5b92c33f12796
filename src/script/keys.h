/* keys.h - every key, channel and field name, as Redisson spells it (docs/protocol.md). */
#ifndef HLK_SCRIPT_KEYS_H
#define HLK_SCRIPT_KEYS_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define HLK_NAME_MAX 512
#define HLK_KEY_MAX (HLK_NAME_MAX + 64)     /* a name with a prefix and braces */
#define HLK_FIELD_MAX 192                   /* "<client id>:<hold id>" */
#define HLK_MEMBER_MAX (HLK_FIELD_MAX + 4 * 24)     /* a place in the queue */

/* prefix:{name}, or prefix:name when the name has a '{' anywhere: Redisson's rule, not a hash tag parser's. */
size_t hlk_key_channel(char out[HLK_KEY_MAX], const char *name, size_t len);
/* hasplock_queue:{name}, or hasplock_queue::name: another one for each name. */
size_t hlk_key_queue(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_token(char out[HLK_KEY_MAX], const char *name, size_t len);
/* Where a client hears of grants. */
size_t hlk_key_inbox(char out[HLK_KEY_MAX], const char *client_id);
/* A fair lock's: who waits, their scores, our own notes; and where one of them listens. */
size_t hlk_key_fair_queue(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_fair_scores(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_fair(char out[HLK_KEY_MAX], const char *name, size_t len);
size_t hlk_key_waiter(char out[HLK_KEY_MAX + HLK_FIELD_MAX], const char *name, size_t len, const char *client_id,
                      uint64_t hold);

/* A '{' without a non-empty {...}: key and channel would be in different slots of a cluster. */
bool hlk_name_breaks_slots(const char *name, size_t len);

size_t hlk_field(char out[HLK_FIELD_MAX], const char *client_id, uint64_t hold);
/* A place in the queue (lua/part_pass.lua). */
struct hlk_member { int64_t ttl_ms, tokens, floor, since_ms; };
size_t hlk_member(char out[HLK_MEMBER_MAX], const char *client_id, uint64_t hold, const struct hlk_member *member);
/* Is it a client of this library's? */
bool hlk_field_is_ours(const char *field);
/* Is this field one of this client's holds? */
bool hlk_field_is_of(const char *field, size_t len, const char *client_id);

/* For people: "web-3 pid 4711 (hold 12)" for a client of this library, else the field as it is. */
void hlk_field_describe(struct hlk_text *text, const char *field, size_t len);

#endif
