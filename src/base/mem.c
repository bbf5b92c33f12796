/* mem.c - see mem.h. While no failure is armed, the check costs one relaxed load. */
#include "base/mem.h"

#include "base/debug.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER, ALL_LATER, ONE };

static atomic_int armed;  /* NEVER, ALL_LATER or ONE */
static atomic_long to_go; /* counts down; the allocation that makes it 0 fails, with ALL_LATER also those after it */

static bool fails(void)
{
    int how = atomic_load_explicit(&armed, memory_order_relaxed);
    if (how == NEVER)
        return false;
    long left = atomic_fetch_sub(&to_go, 1) - 1;
    return how == ONE ? left == 0 : left <= 0;
}

static void arm(int how, long n)
{
    HLK_DEBUG_ASSERT(how == ALL_LATER || how == ONE);
    atomic_store(&armed, NEVER);
    atomic_store(&to_go, n);
    atomic_store(&armed, n > 0 ? how : NEVER);
}

void hlk_mem_fail_after(long n)
{
    arm(ALL_LATER, n);
}

void hlk_mem_fail_once(long n)
{
    arm(ONE, n);
}

void *hlk_mem_zalloc(size_t size)
{
    return fails() ? NULL : calloc(1, size ? size : 1);
}

void *hlk_mem_realloc(void *old, size_t size)
{
    assert(size > 0);
    return fails() ? NULL : realloc(old, size);
}

char *hlk_mem_memdup(const void *bytes, size_t size)
{
    HLK_DEBUG_ASSERT(bytes || size == 0);
    if (size == SIZE_MAX || fails())
        return NULL;
    char *copy = malloc(size + 1);
    if (!copy)
        return NULL;
    if (size)
        memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

char *hlk_mem_strdup(const char *text)
{
    return text ? hlk_mem_memdup(text, strlen(text)) : NULL;
}

void hlk_mem_free(void *mem)
{
    free(mem);
}
