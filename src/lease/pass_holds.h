/* pass_holds.h - leased permits that one holder gives back while another holder of this process waits in line
 * (line.c): the second one gets the hold, with its id and its lease, and nothing is sent. */
#ifndef HLK_LEASE_PASS_HOLDS_H
#define HLK_LEASE_PASS_HOLDS_H

#include "lease/entry_internal.h"

/* --- the entry's mutex is held --- */

/* Gives the hold of a holder that releases it to the first waiter in line. False: none may have it, or
 * Redis' queue comes first. True: the entry is NONE, and its reference as a held one is to be dropped. *woken: for
 * hlk_park_wake_signalled after the mutex is unlocked. */
bool hlk_entry_pass_hold(struct hlk_entry *e, struct hlk_park **woken);

#endif
