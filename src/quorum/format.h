/* format.h - how a lock over several masters is written on each of them. */
#ifndef HLK_QUORUM_FORMAT_H
#define HLK_QUORUM_FORMAT_H

#include "script/format.h"

struct hlk_quorum_layout {
    const struct hlk_command_type *acquire, *release, *renew;
    enum hlk_answer_kind (*read_acquire)(const struct hlk_command *cmd, const redisReply *reply,
                                         struct hlk_answer *out);
};

/* By the number that users know (HLK_QUORUM_STRING...). NULL: there is none. */
const struct hlk_quorum_layout *hlk_quorum_layout_get(int number);

/* Of a renewal's reply: 1, extended; 0, not held by this hold; -1, no answer of this script. */
int hlk_quorum_read_renew(const struct hlk_command *cmd, const redisReply *reply);

#endif
