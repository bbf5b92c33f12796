/* opts.h - options of a lock over several masters: ranges and defaults. */
#ifndef HLK_QUORUM_OPTS_H
#define HLK_QUORUM_OPTS_H

#include "quorum/quorum.h"

/* NULL: all is well; else what is wrong. */
const char *hlk_quorum_opts_wrong(const struct hlk_quorum_opts *opts);
void hlk_quorum_opts_complete(struct hlk_quorum_opts *opts);

/* Checked and completed. HLK_OK, or HLK_E_INVALID with the thread's error set. */
enum hlk_status hlk_quorum_opts_read(const struct hlk_quorum_opts *given, struct hlk_quorum_opts *opts);

#endif
