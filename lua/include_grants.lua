-- include_grants: free permits go to the waiters. Included by the scripts of permits, behind include_permit and
-- include_pass.
-- luacheck: push ignore 211 431

local GRANTS = 10000 -- in one run

-- Grants `free` permits to the first in the queue, one each, up to `hold`, which sent this command. Returns how many
-- are left.
local function grant_free(key, queue, free, hold)
    for _ = 1, math.min(free, GRANTS) do
        local head = first_alive(queue, hold)
        if not head or head.field == hold or not grant(key, queue, head) then
            break
        end
        free = free - 1
    end
    return free
end

-- Redisson's clients wake as many waiters as the message says; a number below 1 makes them fail.
local function tell_foreign(channel, free)
    if free > 0 and listeners(channel) > 0 then
        redis.pcall('publish', channel, string.format('%.0f', free))
    end
end
-- luacheck: pop
