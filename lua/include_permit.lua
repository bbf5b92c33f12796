-- include_permit: what a permit that is held is, for include_pass: a lease in a zset (include_leases). Its messages
-- begin with "e". Included by scripts that have `leases` and `queue` before it, behind include_listens.
-- luacheck: push ignore 211 431

local LETTER = 'e'

-- The number of permits may have an end, and the leases end with it. The last lease that is removed removes the key of
-- the leases and its ttl. The end that an acquire gives a number (include_leases), in 100 years, is none.
local function end_leases(key)
    local ttl = tonumber(redis.pcall('pttl', key)) or 0
    if ttl > 0 and ttl < 1e12 then
        redis.pcall('pexpire', leases, ttl)
    end
end

-- Takes a free permit for `holder`, unless it has one. False: refused.
local function give(key, holder, ttl)
    local time = redis.pcall('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local added = redis.pcall('zadd', leases, 'gt', now + ttl, holder)
    if added == 1 then
        redis.pcall('incrby', key, '-1')
        end_leases(key)
        note_silence(queue, holder, now)
    end
    return type(added) == 'number'
end
-- luacheck: pop
