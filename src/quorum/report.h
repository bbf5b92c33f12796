/* report.h - completions of one holder's calls, in the order of the calls. While the outcome of a release is not
 * known, later completions of its holder wait. */
#ifndef HLK_QUORUM_REPORT_H
#define HLK_QUORUM_REPORT_H

#include "quorum/quorum.h"

/* all->mu held. */
void hlk_quorum_report_add(struct hlk_quorum *quorum, struct hlk_quorum_report *report);

/* Its outcome is known: completes it as soon as those before it are, or at once if it was not added. The caller has a
 * reference to the quorum. */
void hlk_quorum_report_complete(struct hlk_quorum *quorum, struct hlk_quorum_report *report);

#endif
