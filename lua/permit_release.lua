--[[ permit_release: the permit `hold` -> the next waiter's, or free; a ticket of `hold` -> removed. The only script
     that gives a permit back whose lease is not over

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: see permit_acquire
  KEYS[3] leases   zset: the permits that are held (include_leases)
  ARGV[1] hold     "<client id>:<hold id>", or the id of a permit of Redisson's
  ARGV[2] channel  of the permits; Redisson's waiters subscribe to it
  ARGV[3] yield_ms > 0: if others than clients of ours (include_listens) listen to the channel, the free permits are
                   left to them for so long (yield window) before they are the queue's; 0: this release opens none
  ARGV[4] tombstone_ms  > 0: an attempt of this hold's acquire may still be on its way: leave a tombstone for so long;
                   0: no tombstone
  ARGV[5] member   its ticket, if it may have one, else ""
  ARGV[6] drop     "1": if no permit is held then, no client listens to the channel, and no yield window is open, the
                   number is deleted that an acquire has set (include_leases). None: it stays

  Returns 1        it was held by `hold`, and is passed on, or free
          2        it had a ticket, which is removed
          0        neither: its lease was over (it is passed on all the same), it was released before, or never acquired
          HASPLOCK ..., WRONGTYPE ...    these are no permits; nothing is changed
  Twice   the second run answers 0 and changes nothing but the tombstone's age
  Wakes   the first waiter in the queue that is alive: it holds the permit then, for the ttl of its ticket, and is sent
          `egrant`. Else, or for a yield window, Redisson's clients: the channel gets the number of free permits. What
          comes back during a window is a part of it
  Number  a release that finds none makes it, with the mark of one that an acquire has set (include_leases)
  Order   the first write is one that a full server still allows; after it every call is a pcall; publish comes last
  Clock   the server's own
  Source  keys, channel and message are Redisson's RPermitExpirableSemaphore ]]
local key, queue, leases = KEYS[1], KEYS[2], KEYS[3]
local hold, channel, yield_ms, tombstone_ms, member = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

-- With "drop" no permit is held any more, and none of Redisson's clients waits: the number goes. Else false.
local function drop_idle()
    if ARGV[6] ~= '1' or redis.pcall('exists', leases) ~= 0 or (tonumber(redis.pcall('pttl', key)) or 0) < 1e12 then
        return false
    end
    local there = redis.pcall('pubsub', 'numsub', channel)
    return not there.err and there[2] == 0 and redis.pcall('del', key) == 1
end

local value, ends = redis.pcall('get', key), tonumber(redis.call('zscore', leases, hold) or 0)
local gone = value == false -- evicted, or deleted; it comes back with the mark of one that an acquire has set
value = value or '0'

local function give_back()
    local free = redis.pcall('incrby', key, '1')
    if gone then
        redis.pcall('pexpire', key, '3153600000000') -- the mark of include_leases
    end
    return free
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local is_number = type(value) == 'string' and string.find(value, '^-?%d+$') and
    math.abs(tonumber(value) + 0.5) < 2147483648 -- as include_number
local held = is_number and redis.call('zrem', leases, hold) == 1
local there = held and yield_ms > 0 and redis.pcall('pubsub', 'numsub', channel)
local yields = there and (there.err or there[2] > 0)
if yields and not there.err then -- do others listen than clients of ours (include_listens)?
    yields = there[2] > (tonumber(redis.pcall('zcount', queue, string.format('%.0f', 3e15 + now),
        string.format('%.0f', 3e15 + now + 5000))) or 0)
end
if held and not yields and value == '0' and tombstone_ms == 0 and member == '' then
    -- The usual case, without the functions below: no ticket, or the first waiter is alive
    local popped = redis.pcall('zpopmin', queue)
    local field, client, id, ttl = string.match(popped[1] or '', '^(([^:]+):(%d+)) (%d+) %d+ %d+ %d+$')
    local inbox = client and 'hasplock_inbox:' .. client
    if inbox and (redis.pcall('pubsub', 'numsub', inbox)[2] or 0) > 0 and
        redis.pcall('zadd', leases, 'nx', now + ttl, field) == 1 then
        local waited, left = math.floor(time[1] * 1000 + time[2] / 1000 - popped[2] / 100), redis.pcall('pttl', key)
        if type(left) == 'number' and left > 0 and left < 1e12 then -- the leases end with the number: include_permit
            redis.pcall('pexpire', leases, left)
        end
        if waited > 100 then -- its client listens no more: include_listens
            redis.pcall('zadd', queue, 'xx', string.format('%.0f', 3e15 + now + 100), 'listens ' .. client)
        end
        redis.pcall('publish', inbox, 'egrant ' .. id .. ' ' .. ttl .. (waited > 0 and '+' .. waited or '') .. ' 0 ' ..
            key)
        return ends > now and 1 or 0
    elseif popped[1] then
        redis.pcall('zadd', queue, popped[2], popped[1])
        redis.pcall('pexpire', queue, '660000') -- it may be a new key
    else
        if not drop_idle() then
            give_back()
            there = there or redis.pcall('pubsub', 'numsub', channel)
            if there.err or there[2] > 0 then
                redis.pcall('publish', channel, '1')
            end
        end
        return ends > now and 1 or 0
    end
end

--# include_number
--# include_listens
--# include_permit
--# include_queue
--# include_pass
--# include_grants

local _, refusal = permits(key)
if refusal then
    return refusal
end
local left = member ~= '' and redis.pcall('zrem', queue, member) == 1
if tombstone_ms > 0 then
    leave_tombstone(redis.pcall, queue, hold, tombstone_ms, 660000)
end
local free = held and give_back() or tonumber(value)
if held and not yields then -- in a yield window that is open this permit is part of it
    yields, yield_ms = window_ms(redis.pcall('zscore', queue, 'open')) > 0, 0
end
if yields then
    if yield_ms > 0 then
        open_window(queue, yield_ms, 660000)
        local head = first_alive(queue)
        if head then
            message(head, 'open', yield_ms, 0)
        end
    end
    tell_foreign(channel, free)
elseif (held or left) and type(free) == 'number' then
    free = grant_free(key, queue, free)
    if free > 0 and not (held and drop_idle()) then
        tell_foreign(channel, free)
    end
end
drop_silent(queue, now)
return held and ends > now and 1 or left and 2 or 0
