/* table.h - the Lua scripts of lua/, each with the SHA-1 by which Redis knows it.
 *
 * table.c and names.h are generated from lua/ at build time (lua/embed.cmake). names.h has enum hlk_script, with one
 * number such as HLK_SCRIPT_LOCK_ACQUIRE for each file except include_*, and HLK_SCRIPT_COUNT. A new script is a new
 * file in lua/. */
#ifndef HLK_SCRIPT_TABLE_H
#define HLK_SCRIPT_TABLE_H

#include "script/names.h"

#include <stddef.h>

struct hlk_script_text {
    const char *name;           /* "lock_acquire" */
    const char *text;           /* the file without comments and indentation, and a NUL */
    size_t len;                 /* without that NUL */
    const char *sha1;           /* 40 hex digits, lower case, as SCRIPT LOAD returns them */
};

extern const struct hlk_script_text hlk_script_table[HLK_SCRIPT_COUNT];
/* The same with sharded pub/sub: SPUBLISH, PUBSUB SHARDNUMSUB, and an inbox for each lock and client, in the lock's
 * slot. */
extern const struct hlk_script_text hlk_script_sharded_table[HLK_SCRIPT_COUNT];

#endif
