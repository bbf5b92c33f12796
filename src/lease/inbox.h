/* inbox.h - inbox messages: this client holds a lock now, has to send again, or has lost a hold to a break. */
#ifndef HLK_LEASE_INBOX_H
#define HLK_LEASE_INBOX_H

#include "lease/entry_table.h"

/* A message in a node's inbox: a script there has granted, opened or broken a lock (lua/include_pass.lua). */
void hlk_inbox_receive(struct hlk_node *node, const char *message, size_t len);

#endif
