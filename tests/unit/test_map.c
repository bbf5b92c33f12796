/* The string-keyed map. */
#include "base/map.h"

#include "base/mem.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct hlk_map map;

static void fini(void)
{
    hlk_mem_fail_after(-1);
    hlk_map_fini(&map);
}

TestSuite(map, .fini = fini);

static struct hlk_map_node *get(const char *key)
{
    return hlk_map_get(&map, key, strlen(key));
}

static bool put(struct hlk_map_node *node, const char *key)
{
    return hlk_map_put(&map, node, key, strlen(key));
}

Test(map, empty_has_nothing)
{
    cr_assert_null(get("a"));
}

Test(map, gives_what_was_put)
{
    struct hlk_map_node a, b;
    cr_assert(put(&a, "a"));
    cr_assert(put(&b, "b"));
    cr_assert_eq(get("a"), &a);
    cr_assert_eq(get("b"), &b);
    cr_assert_null(get("c"));
    cr_assert_eq(map.count, 2u);
}

Test(map, keys_are_bytes_with_a_length)
{
    struct hlk_map_node with_nul, prefix, empty;
    cr_assert(hlk_map_put(&map, &with_nul, "a\0b", 3));
    cr_assert(hlk_map_put(&map, &prefix, "a", 1));
    cr_assert(hlk_map_put(&map, &empty, "", 0));
    cr_assert_eq(hlk_map_get(&map, "a\0b", 3), &with_nul);
    cr_assert_eq(hlk_map_get(&map, "a", 1), &prefix);
    cr_assert_eq(hlk_map_get(&map, "", 0), &empty);
    cr_assert_null(hlk_map_get(&map, "a\0c", 3));
}

Test(map, removed_is_gone)
{
    struct hlk_map_node a, b;
    put(&a, "a");
    put(&b, "b");
    hlk_map_remove(&map, &a);
    cr_assert_null(get("a"));
    cr_assert_eq(get("b"), &b);
    cr_assert(put(&a, "a"));
    cr_assert_eq(get("a"), &a);
}

Test(map, same_hash_is_not_same_key)
{
    struct hlk_map_node a, ab;
    put(&a, "a");
    put(&ab, "ab");
    hlk_map_remove(&map, &ab);
    ab.hash = a.hash; /* as if the hashes were equal: it is before the other one in the chain */
    ab.next = map.buckets[a.hash & map.mask];
    map.buckets[a.hash & map.mask] = &ab;
    map.count++;
    cr_assert_eq(get("a"), &a);
    hlk_map_remove(&map, &a);
    cr_assert_null(get("a"));
}

enum { MANY = 20000 };

static struct {
    struct hlk_map_node node;
    char key[24];
} many[MANY];

static void put_many(int n)
{
    for (int i = 0; i < n; i++) {
        snprintf(many[i].key, sizeof many[i].key, "lock:%d", i);
        cr_assert(put(&many[i].node, many[i].key));
    }
}

Test(map, grows)
{
    put_many(MANY);
    cr_assert_eq(map.count, (size_t)MANY);
    cr_assert_geq(map.mask + 1, (size_t)MANY);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(get(many[i].key), &many[i].node);
}

Test(map, spreads_similar_names)
{
    size_t longest = 0;
    put_many(MANY);
    for (size_t i = 0; i <= map.mask; i++) {
        size_t len = 0;
        for (struct hlk_map_node *node = map.buckets[i]; node; node = node->next)
            len++;
        longest = len > longest ? len : longest;
    }
    cr_assert_leq(longest, 10u);
}

Test(map, the_first_put_may_find_no_memory)
{
    struct hlk_map_node a;
    hlk_mem_fail_after(1);
    cr_assert_not(put(&a, "a"));
    cr_assert_null(get("a"));
    cr_assert_eq(map.count, 0u);
}

Test(map, without_memory_to_grow_it_still_works)
{
    struct hlk_map_node a;
    put(&a, "a");
    hlk_mem_fail_after(1);
    put_many(500);
    for (int i = 0; i < 500; i++)
        cr_assert_eq(get(many[i].key), &many[i].node);
    cr_assert_eq(get("a"), &a);
}

static bool count(struct hlk_map_node *node, void *ctx)
{
    (void)node;
    return ++*(int *)ctx < 7;
}

Test(map, each_stops_when_told)
{
    int seen = 0;
    put_many(100);
    hlk_map_each(&map, count, &seen);
    cr_assert_eq(seen, 7);
}

static bool remove_odd(struct hlk_map_node *node, void *ctx)
{
    int *seen = ctx;
    ++*seen;
    if (atoi(node->key + strlen("lock:")) % 2)
        hlk_map_remove(&map, node);
    return true;
}

Test(map, each_may_remove_the_one_it_is_given)
{
    int seen = 0;
    put_many(1000);
    hlk_map_each(&map, remove_odd, &seen);
    cr_assert_eq(seen, 1000);
    cr_assert_eq(map.count, 500u);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(get(many[i].key) != NULL, i % 2 == 0);
}

Test(map, each_of_an_empty_map_calls_nothing)
{
    int seen = 0;
    hlk_map_each(&map, count, &seen);
    cr_assert_eq(seen, 0);
}

Test(map, can_be_used_again_after_fini)
{
    struct hlk_map_node a;
    put(&a, "a");
    hlk_map_fini(&map);
    cr_assert_null(get("a"));
    cr_assert(put(&a, "a"));
    cr_assert_eq(get("a"), &a);
}
