/* release.h - release and extend. */
#ifndef HLK_QUORUM_RELEASE_H
#define HLK_QUORUM_RELEASE_H

#include "quorum/quorum.h"

enum hlk_status hlk_quorum_release_as(struct hlk_quorum *quorum, struct hlk_thread *self);

/* Not HELD: why. forgets: of a lost hold one release less is due. */
enum hlk_status hlk_quorum_not_held(struct hlk_quorum *quorum, const char *operation, bool forgets);
void hlk_quorum_count_released(struct hlk_client *client, enum hlk_status status);
enum hlk_status hlk_quorum_extend_as(struct hlk_quorum *quorum, struct hlk_thread *self, int64_t ttl_ms);

/* The round of an extension by ttl_ms, which is the caller's; not sent. NULL: *error says why. */
struct hlk_round *hlk_quorum_extension(struct hlk_quorum *quorum, int64_t ttl_ms, struct hlk_error *error);

/* The masters' answers to it, as far as they are there. for_good: the hold is renewed from now on. */
enum hlk_status hlk_quorum_extended(struct hlk_quorum *quorum, struct hlk_round *round, bool for_good,
                                    struct hlk_error *error);

/* Releases one hold, or all of them; of a lost one, one release less is due. Waits for no answer. */
void hlk_quorum_release_nowait(struct hlk_quorum *quorum, bool all);

#endif
