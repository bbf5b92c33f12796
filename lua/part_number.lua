-- part_number: how many permits are free. Included by the scripts of semaphores and permits.
-- luacheck: push ignore 211 431

-- How many are free; or nil and an error reply.
local function permits(key)
    local value = redis.pcall('get', key) or '0'
    if type(value) == 'table' then
        return nil, redis.error_reply(value.err .. ': ' .. key)
    end
    if not string.find(value, '^-?%d+$') then
        return nil, redis.error_reply('HASPLOCK the key is a string, but no semaphore: that is a whole number. ' ..
            'Nothing was changed')
    end
    return tonumber(value)
end
-- luacheck: pop
