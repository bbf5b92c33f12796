/* shared_commands.h - commands that several formats have, or that are about no one format. */
#ifndef HLK_SCRIPT_SHARED_COMMANDS_H
#define HLK_SCRIPT_SHARED_COMMANDS_H

#include "script/command.h"

extern const struct hlk_command_type hlk_command_reacquire, hlk_command_list, hlk_command_find, hlk_command_ask,
    hlk_command_renew;

/* Notes for people, beside a lock (include/hasplock/inspect.h). They are written and removed by SET and DEL, which stay
 * in the order of the calls. A script that the server does not know is sent again, behind what followed it: a note
 * would come behind its removal. */
extern const struct hlk_command_type hlk_command_write_note, hlk_command_remove_note, hlk_command_read_note;

/* How many leases a renewal of many says: the last of them stands for all behind it, as mostly all are the same. */
size_t hlk_renewal_leases(const struct hlk_command *cmd);

/* hold, count, lease (lua/lock_reacquire.lua); holds and leases (lua/lock_renew.lua): of the type's own script. */
char *hlk_put_reacquire(char *at, struct hlk_command *cmd);
char *hlk_put_renew(char *at, struct hlk_command *cmd);

#endif
