-- part_latch: the count of a latch. Included by its scripts.
-- luacheck: push ignore 431

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
-- luacheck: pop
