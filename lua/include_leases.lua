-- include_leases: permits that have a lease each. Included by the scripts of permits, behind include_number.
--
-- The leases are a zset: the id of each permit that is held, and when its lease ends, in ms; 922337203685477: never, as
-- Redisson writes it. An id is "<client id>:<hold id>" or, of Redisson's clients, 16 random bytes. The number of
-- permits is the key's number plus the members of the zset. A script that finds leases that are over reclaims them: it
-- removes them, adds as many to the number, and passes them on.
--
-- A number that an acquire has set, and one that a release or a reclaim has made because there was none, ends in 100
-- years if it had no ttl. That is a mark and no end: the leases do not get it. An acquire that names another number
-- than there is sets it if a lease is there, if the number has the mark, or if there is none. Any other number may be a
-- semaphore's, a counter, or what `permit_change` or Redisson's trySetPermits has set: the acquire is refused.
-- luacheck: push ignore 211 431

-- A number that an acquire of hasplock has set ends in 100 years. By that end idle permits are told from what has the
-- same form: a semaphore's number, and any counter.
local KEPT_MS = '3153600000000'

local function is_set_here(key)
    return (tonumber(redis.pcall('pttl', key)) or 0) > KEPT_MS / 2
end

local function keep(key)
    if redis.pcall('pttl', key) == -1 then
        redis.pcall('pexpire', key, KEPT_MS)
    end
end

-- Ends the leases that are over. Returns how many permits are free then, and how many of them were given back; or nil
-- and an error reply. The first write is one that a full server allows; it then allows the rest of the script.
local function reclaim(key, leases, now)
    local free, refusal = permits(key)
    local over = refusal and 0 or redis.pcall('zcount', leases, '0', now)
    if type(over) == 'table' then
        return nil, redis.error_reply(over.err .. ': ' .. leases)
    elseif refusal or over == 0 then
        return free, refusal or 0
    end
    redis.call('zremrangebyscore', leases, '0', now)
    local gone = redis.call('exists', key) == 0 -- evicted, or deleted
    free = redis.call('incrby', key, over)
    if gone then
        keep(key)
    end
    return free, over
end

-- Raises the lease of `id` to `lease` ms at least. Returns 1, or 0: it is not held, or its lease is over. It removes a
-- member that does not exist, because a full server allows that write and then the rest of the script.
local function raise(leases, id, lease, now)
    local ends = tonumber(redis.call('zscore', leases, id) or 0)
    if ends <= now then
        return 0
    end
    if ends < now + lease then
        redis.call('zrem', leases, '')
        redis.call('zadd', leases, now + lease, id)
    end
    return 1
end
-- luacheck: pop
