/* mem.h - where the library gets memory, and where tests make it fail.
 *
 * All of our own allocations go through here. hlk_mem_fail_after(n) makes the n-th allocation from now (1 = the next)
 * and all later ones of this process fail until hlk_mem_fail_after(-1); hlk_mem_fail_once(n) only the n-th. */
#ifndef HLK_BASE_MEM_H
#define HLK_BASE_MEM_H

#include <stddef.h>

void *hlk_mem_zalloc(size_t size);                  /* zeroed; NULL when there is none */
void *hlk_mem_realloc(void *old, size_t size);
char *hlk_mem_strdup(const char *text);             /* NULL for NULL too */
char *hlk_mem_memdup(const void *bytes, size_t size);   /* one NUL more at the end */
void  hlk_mem_free(void *mem);

void hlk_mem_fail_after(long n);
void hlk_mem_fail_once(long n);

#endif
