/* map.h - string-keyed hash map with the node inside the value: no allocation per entry, one array of buckets that
 * doubles. Keys are bytes with a length. Not thread-safe. A zeroed struct hlk_map is an empty map. */
#ifndef HLK_BASE_MAP_H
#define HLK_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hlk_map_node {                   /* embedded; key is borrowed and outlives the node in the map */
    struct hlk_map_node *next;
    const char *key;
    uint32_t len, hash;
};

struct hlk_map {
    struct hlk_map_node **buckets;      /* NULL until the first put */
    size_t mask, count;
};

uint32_t hlk_map_hash(const char *key, size_t len);
struct hlk_map_node *hlk_map_get(const struct hlk_map *map, const char *key, size_t len);
/* The key is not in the map yet. False: no memory. Only the first put can fail; later the map gets slower instead. */
bool hlk_map_put(struct hlk_map *map, struct hlk_map_node *node, const char *key, size_t len);
void hlk_map_remove(struct hlk_map *map, struct hlk_map_node *node);    /* must be in it */
void hlk_map_fini(struct hlk_map *map);                                 /* frees the buckets only */
/* Calls fn for each entry. fn may remove that entry, and no other; false from fn stops. */
void hlk_map_each(struct hlk_map *map, bool (*fn)(struct hlk_map_node *node, void *ctx), void *ctx);

#endif
