/* table.h - the Lua scripts as they are in lua/, with the SHA-1 that Redis knows them by.
 *
 * table.c is generated from lua/ at build time (lua/embed.cmake), one row per number below; the names are the files'.
 * A new script: its file, its number here, its name in src/CMakeLists.txt. */
#ifndef HLK_SCRIPT_TABLE_H
#define HLK_SCRIPT_TABLE_H

#include <stddef.h>

enum hlk_script {
    HLK_SCRIPT_LOCK_ACQUIRE,
    HLK_SCRIPT_LOCK_END,
    HLK_SCRIPT_LOCK_REACQUIRE,
    HLK_SCRIPT_LOCK_RENEW,
    HLK_SCRIPT_LOCK_BREAK,
    HLK_SCRIPT_LOCK_QUERY,
    HLK_SCRIPT_LOCK_MANY,
    HLK_SCRIPT_FAIR_ACQUIRE,
    HLK_SCRIPT_FAIR_END,
    HLK_SCRIPT_FAIR_BREAK,
    HLK_SCRIPT_FAIR_QUERY,
    HLK_SCRIPT_COUNT
};

struct hlk_script_text {
    const char *name;           /* "lock_acquire" */
    const char *text;           /* the file's bytes, and one NUL more */
    size_t len;                 /* without that NUL */
    const char *sha1;           /* 40 hex digits, lower case: what SCRIPT LOAD answers */
};

extern const struct hlk_script_text hlk_script_table[HLK_SCRIPT_COUNT];

#endif
