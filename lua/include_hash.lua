-- include_hash: what a held lock is, for include_pass: a hash with one field, the holder. Its messages have no letter.
-- luacheck: push ignore 211 431

local LETTER = ''

-- False: refused.
local function give(lock, holder, ttl)
    local set = redis.pcall('hset', lock, holder, '1')
    if type(set) == 'table' then
        return false
    end
    redis.pcall('pexpire', lock, ttl)
    return true
end
-- luacheck: pop

