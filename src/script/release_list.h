/* release_list.h - which releases are pending: see pending_release.h. */
#ifndef HLK_SCRIPT_RELEASE_LIST_H
#define HLK_SCRIPT_RELEASE_LIST_H

#include "script/pending_release.h"

size_t hlk_releases_count(struct hlk_releases *releases);                       /* that were started */
size_t hlk_releases_awaited(struct hlk_releases *releases);                     /* those of them that close waits for */

/* A release of this hold is not settled yet, or is announced. */
bool hlk_releases_has(struct hlk_releases *releases, uint64_t hold);
bool hlk_releases_has_started(struct hlk_releases *releases, uint64_t hold);    /* the same, and it was started */

/* Logs what hlk_releases_settle_all will give up: holds that end with their leases, tickets that waiters pass over. */
void hlk_releases_log_unanswered(struct hlk_releases *releases);

/* A release of this hold is not settled, and each attempt of it was refused so far: *error is the last refusal. */
bool hlk_releases_refused(struct hlk_releases *releases, uint64_t hold, struct hlk_error *error);

#endif
