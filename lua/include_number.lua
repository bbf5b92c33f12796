-- include_number: how many permits are free. Included by the scripts of semaphores and permits.
-- luacheck: push ignore 211 431

-- How many are free; or nil and an error reply.
local function permits(key)
    local value = redis.pcall('get', key) or '0'
    if type(value) == 'table' then
        return nil, redis.error_reply(value.err .. ': ' .. key)
    end
    local n = string.find(value, '^-?%d+$') and tonumber(value)
    if not n or n > 2147483647 or n < -2147483648 then
        return nil, redis.error_reply('HASPLOCK the key is a string, but no semaphore: that is a whole number ' ..
            'from -2^31 to 2^31 - 1. Nothing was changed')
    end
    return n
end
-- luacheck: pop
