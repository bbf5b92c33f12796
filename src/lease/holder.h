/* holder.h - threads that end while holding, over all clients of the process. */
#ifndef HLK_LEASE_HOLDER_H
#define HLK_LEASE_HOLDER_H

#include "lease/table.h"

void hlk_holder_watch(struct hlk_table *table);     /* from open to close: its sessions are looked through */
void hlk_holder_unwatch(struct hlk_table *table);
void hlk_holder_orphan(struct hlk_table *table, uint64_t holder); /* all that it holds in this client */

#endif
