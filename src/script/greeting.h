/* greeting.h - what a connection says first: the probe, which tells which server it is, and whether this user may run
 * what the scripts need. No text of a script is sent ahead (docs/decisions/script-texts.md). */
#ifndef HLK_SCRIPT_GREETING_H
#define HLK_SCRIPT_GREETING_H

#include "script/command.h"

/* What a connection says first: a probe (lua/probe.lua) that names a missing right, and which server it is. pubsub: the
 * rights are also those for messages. sharded: for sharded pub/sub. False: no memory. */
bool hlk_scripts_greeting(struct hlk_greeting *greeting, const char *client_id, bool pubsub, bool sharded);

#endif
