--[[ permit_release: the permit `hold` -> free; a ticket of `hold` -> removed. The only script that gives a permit back
     whose lease is not over

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: tickets and notes (part_permits)
  KEYS[3] leases   zset: the permits that are held (part_leases)
  ARGV[1] hold     "<client id>:<hold id>", or the id of a permit of Redisson's
  ARGV[2] channel  of the permits; Redisson's waiters subscribe to it
  ARGV[3] void_ms  > 0: an attempt of this hold's acquire may still be on its way: leave a tombstone; 0: no tombstone
  ARGV[4] member   its ticket, if it may have one, else ""

  Returns 1        it was held by `hold`, and is free
          2        it had a ticket, which is removed
          0        neither: its lease was over, it was released before, or never acquired
          HASPLOCK ..., WRONGTYPE ...    these are no permits; nothing is changed
  Twice   the second run answers 0 and changes nothing but the tombstone's age
  Wakes   the next in the queue, and Redisson's clients
  Order   the first write is one that a full server still allows; after it every call is a pcall
  Clock   the server's own
  Source  keys, channel and message are Redisson's RPermitExpirableSemaphore ]]
local key, queue, leases = KEYS[1], KEYS[2], KEYS[3]
local hold, channel, void_ms, member = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]

-- The usual case, without the functions below: nobody waits in the queue.
if void_ms == 0 and member == '' and redis.call('exists', queue) == 0 then
    local value, ends = redis.pcall('get', key), tonumber(redis.call('zscore', leases, hold) or 0)
    if ends == 0 then
        return 0
    end
    if type(value) == 'string' and string.find(value, '^-?%d+$') then
        local time = redis.call('time')
        redis.call('zrem', leases, hold)
        local free, there = redis.pcall('incrby', key, '1'), redis.pcall('pubsub', 'numsub', channel)
        if type(free) == 'number' and free > 0 and (there.err or there[2] > 0) then
            redis.pcall('publish', channel, string.format('%.0f', free))
        end
        return ends > time[1] * 1000 + math.floor(time[2] / 1000) and 1 or 0
    end
end

--# part_permits

local free, refusal = permits(key)
if refusal then
    return refusal
end
local ends = tonumber(redis.call('zscore', leases, hold) or 0)
local held, now = redis.call('zrem', leases, hold) == 1, now_ms()
if held then
    free = redis.pcall('incrby', key, '1')
end
local left = member ~= '' and redis.pcall('zrem', queue, member, hold) ~= 0
if void_ms > 0 then
    drop_notes(queue, '', hold, note(queue, 2e15, hold))
end
if held and type(free) == 'number' then
    pass(key, queue, channel, free)
elseif left then
    call_next(key, queue, free)
end
return held and ends > now and 1 or left and 2 or 0
