/* client_opts.h - what an open client was asked to be: checked, and the defaults filled in. */
#ifndef HLK_CLIENT_OPTS_H
#define HLK_CLIENT_OPTS_H

#include "client.h"

/* `given` (may be NULL) checked and completed; HLK_E_INVALID with the thread's error set. */
enum hlk_status hlk_client_read_opts(const struct hlk_client_opts *given, struct hlk_client_opts *opts);

#endif
