/* order.h - checks the order in which a lock goes from holder to holder, by Redis' queue. Shares would depend on the
 * scheduler. The rule: the first in the queue during one turn has the next turn.
 *
 *     struct order *order = order_create(capacity, fixture.server, "LINDEX queue 0");
 *     ...
 *     order_note(order, lock);                            by each holder, while it holds
 *     ...
 *     cr_assert(order_check(order, passes, &called));
 *
 * A turn is one hold id. By passing on, a process may hold the lock `passes` times more under it while others wait. */
#ifndef HLK_TEST_ORDER_H
#define HLK_TEST_ORDER_H

#include "hasplock/hasplock.h"
#include "support/server.h"

#include <stdbool.h>
#include <stddef.h>

struct order;

/* `first` is the command that returns the queue's first entry, as a string or as an array's only element: a hold id,
 * with more words after it or not. */
struct order *order_create(size_t capacity, const struct server *server, const char *first);
void order_destroy(struct order *order);

void order_note(struct order *order, hlk_lock *lock);                       /* any thread */
void order_add(struct order *order, const char *holder, const char *first); /* first "": no waiter */

/* After all writers are done. False: the error is on stderr. *called: how many were first in the queue and next. */
bool order_check(const struct order *order, int passes, size_t *called);

#endif
