/* resolve.h - name lookup that blocks no caller. getaddrinfo runs on a thread of its own. A thread that hangs is left
 * behind: it frees its result when it returns, and until then costs a thread and a descriptor. A name has 16 threads at
 * most, so that one whose lookups hang keeps no other name from being looked up. Numeric addresses are answered at
 * once, without a thread. */
#ifndef HLK_NET_RESOLVE_H
#define HLK_NET_RESOLVE_H

#include "base/error.h"
#include <netdb.h>

struct hlk_resolve;                     /* one lookup; reference-counted between its user and the thread */

/* Starts a lookup. When it is done, hlk_resolve_fd becomes readable and stays so. NULL: OS or NOMEM, or
 * CONNECT: all threads that the name may have hang. */
struct hlk_resolve *hlk_resolve_start(const char *host, int port, struct hlk_error *error);
int hlk_resolve_fd(const struct hlk_resolve *lookup);

/* Once, after the fd was readable. HLK_OK: *out is the caller's to freeaddrinfo. HLK_E_CONNECT: not found, with a text.
 * HLK_E_OS: this process lacked a descriptor or memory. HLK_BUSY: not done yet. */
enum hlk_status hlk_resolve_take(struct hlk_resolve *lookup, struct addrinfo **out, struct hlk_error *error);
void hlk_resolve_drop(struct hlk_resolve *lookup);      /* any time; NULL is fine; never blocks */

/* Tests: replaces getaddrinfo (NULL: the real one). */
void hlk_resolve_play(int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **));

#endif
