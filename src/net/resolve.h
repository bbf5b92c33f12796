/* resolve.h - name lookup that cannot hold anybody: getaddrinfo runs on a thread of its own, which is left behind when
 * it hangs (it frees its result itself, whenever it comes back; until then it costs a thread and a descriptor). Numeric
 * addresses are answered at once, without a thread. */
#ifndef HLK_NET_RESOLVE_H
#define HLK_NET_RESOLVE_H

#include "base/error.h"
#include <netdb.h>

struct hlk_resolve;                     /* one lookup; reference-counted between asker and thread */

/* Starts. When the answer is there hlk_resolve_fd becomes readable, and stays so; poll it. NULL: OS or NOMEM. */
struct hlk_resolve *hlk_resolve_start(const char *host, int port, struct hlk_error *error);
int hlk_resolve_fd(const struct hlk_resolve *lookup);

/* Once, after the fd was readable. HLK_OK: *out is the caller's to freeaddrinfo; HLK_E_CONNECT with a text otherwise,
 * HLK_E_OS when this process had no descriptor or memory for it; HLK_BUSY: not yet. */
enum hlk_status hlk_resolve_take(struct hlk_resolve *lookup, struct addrinfo **out, struct hlk_error *error);
void hlk_resolve_drop(struct hlk_resolve *lookup);      /* any time; NULL is fine; never blocks */

/* Tests: this instead of getaddrinfo (NULL: the real one). */
void hlk_resolve_play(int (*lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **));

#endif
