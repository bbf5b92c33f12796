/* Asks a lock's holder to release it: lua/lock_ask.lua. */
#include "hasplock/lock.h"

#include "handle/send.h"
#include "script/shared_commands.h"

#include <string.h>

enum hlk_status hlk_lock_ask(hlk_lock *lock, const char *holder)
{
    int64_t listeners = 0;
    enum hlk_status status = hlk_lock_check(lock, "ask");
    if (status != HLK_OK)
        return status;
    const struct hlk_lock_group *group = hlk_lock_group(lock);
    if (group && !group->query)
        return hlk_lock_not_of_multilock(lock, "ask");
    if (!holder || !*holder || strlen(holder) >= HLK_FIELD_MAX)
        return hlk_lock_fail(lock, "ask", HLK_E_INVALID, "a holder has 1 to %d bytes", HLK_FIELD_MAX - 1);
    if (group)
        return hlk_lock_fail(lock, "ask", HLK_NOT_HOLDER, "over several masters no holder can be asked");
    const struct hlk_command cmd = { .type = &hlk_command_ask, .only = holder };
    status = hlk_lock_ask_number(lock, "ask", &cmd, true, &listeners);
    if (status == HLK_OK && listeners < 1)
        return hlk_lock_fail(lock, "ask", HLK_NOT_HOLDER, "%s",
                             listeners < 0 ? "the holder is not of this library"
                                           : "the holder's client does not listen, or is dead");
    return status;
}
