/* map.c - see map.h. Chained buckets; the hash is kept in the node, so that growing never reads a key. */
#include "base/map.h"

#include "base/debug.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

#define FIRST_BUCKETS 16

/* FNV-1a, and a final mix because the low bits choose the bucket. */
uint32_t hlk_map_hash(const char *key, size_t len)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)key[i]) * 16777619u;
    hash ^= hash >> 16;
    hash *= 0x85ebca6bu;
    return hash ^ (hash >> 13);
}

struct hlk_map_node *hlk_map_get(const struct hlk_map *map, const char *key, size_t len)
{
    HLK_DEBUG_ASSERT(map->count == 0 || map->buckets);
    if (!map->count)
        return NULL;
    uint32_t hash = hlk_map_hash(key, len);
    struct hlk_map_node *node = map->buckets[hash & map->mask];
    while (node && (node->hash != hash || node->len != len || memcmp(node->key, key, len) != 0))
        node = node->next;
    return node;
}

static void link_node(struct hlk_map *map, struct hlk_map_node *node)
{
    HLK_DEBUG_ASSERT(map->buckets && ((map->mask + 1) & map->mask) == 0);
    struct hlk_map_node **bucket = &map->buckets[node->hash & map->mask];
    node->next = *bucket;
    *bucket = node;
}

/* Without memory the map stays as it is: correct, but slower. */
static void grow(struct hlk_map *map)
{
    HLK_DEBUG_ASSERT(!map->buckets || map->count > map->mask);
    struct hlk_map old = *map;
    size_t size = old.buckets ? (old.mask + 1) * 2 : FIRST_BUCKETS;
    struct hlk_map_node **buckets = hlk_mem_zalloc(size * sizeof *buckets);
    if (!buckets)
        return;
    map->buckets = buckets;
    map->mask = size - 1;
    for (size_t i = 0; old.buckets && i <= old.mask; i++) {
        struct hlk_map_node *next;
        for (struct hlk_map_node *node = old.buckets[i]; node; node = next) {
            next = node->next;
            link_node(map, node);
        }
    }
    hlk_mem_free(old.buckets);
}

bool hlk_map_put(struct hlk_map *map, struct hlk_map_node *node, const char *key, size_t len)
{
    assert(len <= UINT32_MAX && !hlk_map_get(map, key, len));
    if (!map->buckets || map->count > map->mask)
        grow(map);
    if (!map->buckets)
        return false;
    node->key = key;
    node->len = (uint32_t)len;
    node->hash = hlk_map_hash(key, len);
    link_node(map, node);
    map->count++;
    return true;
}

void hlk_map_remove(struct hlk_map *map, struct hlk_map_node *node)
{
    HLK_DEBUG_ASSERT(map->buckets && map->count > 0);
    struct hlk_map_node **at = &map->buckets[node->hash & map->mask];
    while (*at != node) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    map->count--;
}

void hlk_map_fini(struct hlk_map *map)
{
    hlk_mem_free(map->buckets);
    *map = (struct hlk_map){ 0 };
}

void hlk_map_each(struct hlk_map *map, bool (*fn)(struct hlk_map_node *node, void *ctx), void *ctx)
{
    HLK_DEBUG_ASSERT(fn);
    for (size_t i = 0; map->buckets && i <= map->mask; i++) {
        struct hlk_map_node *next;
        for (struct hlk_map_node *node = map->buckets[i]; node; node = next) {
            next = node->next;
            if (!fn(node, ctx))
                return;
        }
    }
}
