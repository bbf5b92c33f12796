/* holder.h - finds the holds of threads that end, over all clients of the process. */
#ifndef HLK_LEASE_HOLDER_H
#define HLK_LEASE_HOLDER_H

#include "lease/entry_table.h"

void hlk_holder_watch(struct hlk_entry_table *table);     /* called at open; includes its entries in the search */
void hlk_holder_unwatch(struct hlk_entry_table *table);
void hlk_holder_orphan(struct hlk_entry_table *table, uint64_t holder); /* orphans all that `holder` holds in this
                                                                         * client */

#endif
