/* inspect.h - hlk_lock_query, hlk_lock_find, hlk_lock_list and hlk_lock_break of a lock over several masters. These
 * calls are rare, so the masters are asked one after the other, each for up to node_timeout_ms. Those that are
 * connected come first. One that is about to connect is waited for only if the answers of the others do not suffice. */
#ifndef HLK_QUORUM_INSPECT_H
#define HLK_QUORUM_INSPECT_H

#include "quorum/quorum.h"

enum hlk_status hlk_quorum_lock_query(hlk_lock *lock, struct hlk_lock_state *out);
enum hlk_status hlk_quorum_lock_find(hlk_lock *handle, struct hlk_lock_found *out);
enum hlk_status hlk_quorum_lock_break(hlk_lock *lock, const char *only, char holder[HLK_FIELD_MAX]);
enum hlk_status hlk_quorum_lock_list(hlk_lock *handle, struct hlk_list_opts *opts, hlk_list_fn *fn, void *ctx);

#endif
