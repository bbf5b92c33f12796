/* member_handle.h - a multilock's handle on one of its members: the member's kind, entry, holder and defaults. Its
 * losses are reported by the callback and the descriptor of the multilock's handle. */
#ifndef HLK_HANDLE_MEMBER_HANDLE_H
#define HLK_HANDLE_MEMBER_HANDLE_H

#include "handle/handle.h"

/* A handle on a member of a multilock, for the member's holder: losses are reported by the multilock's handle. Released
 * by hlk_lock_drop_member_handle. NULL: no memory; the thread's error is not set. */
hlk_lock *hlk_lock_member_handle(hlk_lock *member, hlk_lock *multilock);
void hlk_lock_drop_member_handle(hlk_lock *own);

#endif
