-- include_latch: the count of a latch, and the moment of its last opening. Included by its scripts.
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

local OPENED_MS = 600000 -- how long an opening is remembered: for waits that heard no message

-- The count, above or below 0; nil: there is none; or nil and an error reply.
local function count_of(latch)
    local count = redis.call('get', latch)
    if not count then
        return nil
    end
    local n = string.find(count, '^-?%d+$') and #count <= 16 and tonumber(count)
    if not n then
        return nil, redis.error_reply('HASPLOCK the key is a string, but no latch: that is a whole number. Nothing ' ..
            'was changed')
    end
    return n
end

-- The count is 0 from now on. A key of another type in the place of `notes` stays as it is.
local function open(latch, notes, channel)
    local time = redis.call('time')
    redis.call('del', latch)
    local noted = redis.pcall('zadd', notes, string.format('%.0f', time[1] * 1000000 + time[2]), 'opened')
    if type(noted) == 'number' then
        redis.pcall('pexpire', notes, OPENED_MS)
    end
    redis.pcall('publish', channel, '0')
end
-- luacheck: pop
