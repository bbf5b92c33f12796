/* order.h - in what order a lock goes round, judged by Redis' queue and not by shares, which hang on who lets the
 * threads run: whoever is first in the queue while somebody holds is the next to hold, turn by turn.
 *
 *     struct order *order = order_create(capacity, stage.server, "LINDEX queue 0");
 *     ...
 *     order_note(order, lock);                            by each holder, while it holds
 *     ...
 *     cr_assert(order_check(order, passes, &called));
 *
 * A turn is one hold id: a process may have the lock `passes` times more by it while somebody waits, from thread to
 * thread.
 */
#ifndef HLK_TEST_ORDER_H
#define HLK_TEST_ORDER_H

#include "hasplock/hasplock.h"
#include "support/server.h"

#include <stdbool.h>
#include <stddef.h>

struct order;

/* `first` is the command that answers with the queue's first entry, as a string or as an array's only one; a hold id,
 * or one and more words. */
struct order *order_create(size_t capacity, const struct server *server, const char *first);
void order_destroy(struct order *order);

void order_note(struct order *order, hlk_lock *lock);                       /* any thread */
void order_add(struct order *order, const char *holder, const char *first); /* first "": nobody waited */

/* After all writers are done. False: what is wrong is on stderr. *called: how many were first in the queue and next. */
bool order_check(const struct order *order, int passes, size_t *called);

#endif
