--[[ permit_acquire: a permit is free, and none of those before in the queue needs it -> `hold` has it, with a lease;
     else, with `member`, a ticket in the queue

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: tickets (include_pass), tombstones, and for a moment a yield window, as of a plain lock; and
                   who listens (include_listens)
  KEYS[3] leases   zset: the permits that are held (include_leases)
  ARGV[1] lease    ms, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every acquire, the same in all its attempts
  ARGV[3] channel  of the permits; Redisson's waiters subscribe to it
  ARGV[4] number   how many permits there are, those that are held included: it is set if it is another one; 0: as it
                   was set. A number that no acquire has set (include_leases), and of which no permit is held, may
                   be another thing: it stays
  ARGV[5] member   its ticket, the same in all attempts; "": one try

  Returns hold     held, by this run or by an earlier attempt; the lease was at least `lease` in this very run
          -1       this hold has a tombstone: it has ended, and a late attempt must not take anything
          {ttl, held, position, foreign}
                   not taken; ask again after ttl at the latest: the first two in the queue when the next lease ends.
                   held: how many are held; "none": there is no number of permits, it was never set. position: tickets
                   before its own; -1: none. foreign: 1 if it has to listen to the channel. In a yield window ttl is
                   what is left of it, and foreign is 0: it asks again then. foreign is 1 if there is no number, and for
                   the first two if one of Redisson's clients holds one of the first 10,000 permits
          HASPLOCK ..., WRONGTYPE ...    these are no permits; nothing is changed
  Checks  the first that fits: a tombstone; its own lease, which is raised; then leases that are over come back, and the
          number is set; a yield window (not taken); those before it are granted free permits, and one is left (held);
          else not taken
  Twice   the second run finds its lease and raises it, or finds its ticket
  Wakes   the others in the queue for which permits are free: those before it, and if any are left those behind it. They
          hold them then. Redisson's clients, if leases were over or the number was set
  Order   it reads everything before the first write
  Clock   the server's own; Redisson's clients compare the ends of leases with theirs
  Source  keys, channel and message are Redisson's RPermitExpirableSemaphore; the rest is hasplock's
          (docs/protocol.md) ]]
local key, queue, leases = KEYS[1], KEYS[2], KEYS[3]
local lease, hold, channel, number, member = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

-- The usual case, without the functions below: no ticket and no tombstone, a permit is free, and this
-- hold has none yet.
if redis.call('exists', queue) == 0 then
    local value, time = redis.pcall('get', key), redis.call('time')
    local free = type(value) == 'string' and #value < 10 and string.find(value, '^%d+$') and tonumber(value)
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local right = free and free > 0 and
        (number == 0 or redis.pcall('zcount', leases, '-inf', '+inf') == number - free)
    if right and redis.call('zadd', leases, 'nx', now + lease, hold) == 1 then
        redis.call('incrby', key, '-1')
        local ttl = redis.call('pttl', key)
        if ttl > 0 and ttl < 1e12 then -- the number of permits has an end, and the leases end with it: include_permit
            redis.call('pexpire', leases, ttl)
        end
        return hold
    elseif value == false and number > 0 and redis.pcall('zcard', leases) == 0 then
        redis.call('set', key, string.format('%.0f', number - 1), 'px', '3153600000000') -- the mark of include_leases
        redis.call('zadd', leases, now + lease, hold)
        return hold
    end
end

--# include_ticket
--# include_number
--# include_leases
--# include_listens
--# include_permit
--# include_queue
--# include_pass
--# include_grants

local listens = 'listens ' .. string.match(hold, '^(.*):')
local void = redis.pcall('zmscore', queue, hold, member, 'open', listens)
if void.err then
    return redis.error_reply(void.err .. ': ' .. queue)
end
if void[1] then
    return -1
end
local _, refusal = permits(key)
local now, ends = now_ms(), refusal or redis.pcall('zscore', leases, hold)
if type(ends) == 'table' then
    return refusal or redis.error_reply(ends.err .. ': ' .. leases)
elseif ends and raise(leases, hold, lease, now) == 1 then
    return hold
end
local held = redis.call('zcount', leases, '-inf', '+inf')
local unheld = held == 0 -- then reclaim changes nothing
local free, changes = reclaim(key, leases, now)
held = held - changes
if number > 0 and free + held ~= number then -- the difference of two numbers of 32 bits
    if unheld and not is_set_here(key) and redis.call('exists', key) == 1 then
        return redis.error_reply('HASPLOCK the key is the number ' .. free .. ', which no acquire of hasplock ' ..
            'has set, and nobody holds a permit: it may be a semaphore\'s number, or a counter. It was not set to ' ..
            ARGV[4] .. '. Nothing was changed')
    end
    free, changes = redis.call('incrby', key, string.format('%.0f', number - free - held)), 1
    keep(key)
end

-- A yield window: the free permits are left to foreign waiters.
local left = window_ms(void[3])
if left > 0 then
    return { left, tostring(held), take_ticket(void[2]), 0 }
elseif void[3] then
    redis.call('zrem', queue, 'open')
end

free = grant_free(key, queue, free, hold)
if free > 0 then
    free = redis.call('incrby', key, '-1')
    redis.call('zadd', leases, now + lease, hold)
    end_leases(key)
    if void[2] then
        redis.pcall('zrem', queue, member)
    end
    drop_silent(queue, now)
    free = grant_free(key, queue, free)
    if changes > 0 then
        tell_foreign(channel, free)
    end
    return hold
end

-- Does one of Redisson's clients hold a permit? Its release reaches only clients that listen to the channel. A waiter
-- that does not, because more than 10,000 are held, asks a second later.
local function is_foreign()
    for at = 0, math.min(held, 10000) - 1, 500 do
        for _, id in ipairs(redis.call('zrange', leases, at, at + 499)) do
            if string.sub(id, 1, 4) ~= 'hlk-' then
                return true
            end
        end
    end
    return false
end

local position, first = take_ticket(void[2]), redis.call('zrange', leases, '0', '0', 'withscores')
if position >= 50 then -- a long queue: the dead among its first are removed now, so that a release will find few
    local _, _, dropped = drop_dead(queue, 50, hold, true)
    position = position - dropped
end
local ttl = position < 2 and first[2] and first[2] - now + 1 or 1000
local none = held == 0 and redis.call('exists', key) == 0
local foreign = member ~= '' and (none or position < 2 and is_foreign())
if foreign then
    note_listener(queue, listens, void[4], now)
end
return { math.max(1, math.min(ttl, 1000)), none and 'none' or tostring(held), position, foreign and 1 or 0 }
