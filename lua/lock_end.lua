--[[ lock_end: held by `hold` -> the next waiter's, or free; in line -> not. The one script that gives anything back:
     release, give-up, clean-up after a loss, a grant that nobody wants

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    zset: see lock_acquire
  KEYS[3] token    counter of fencing tokens; only by clients that use the lock as a fenced one
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] channel  of the lock, where Redisson's waiters listen
  ARGV[3] void_ms  > 0: a copy of this hold's acquire may still be on its way, remember for so long that it has ended;
                   0, or none: none is
  ARGV[4] open_ms  > 0: where others listen on the channel, the lock is theirs for so long before it is the queue's;
                   0, or none: it is the queue's
  ARGV[5] member   its place in the queue, if it may have one

  Returns 1        it was held by `hold`, and is passed on, or free
          2        it was in line, and is not any more
          0        neither: expired, broken, ended before, or never acquired
  Twice   the second run answers 0 and changes nothing but the void entry's age
  Wakes   the first waiter in line that lives; "0" on the channel when there is none, or for an open window. The next in
          line also when the first one leaves while nobody else would wake it: the lock is free, or a foreign client's
  Order   the first write is one that a full server still allows; after it every call is a pcall; publish comes last
  Clock   the server's own, for an open window and to drop void entries that are older than void_ms
  Source  channel and message are Redisson's RLock ]]
local lock, queue, token_key = KEYS[1], KEYS[2], KEYS[3]
local hold, channel, void_ms, open_ms, member = ARGV[1], ARGV[2], ARGV[3] or '0', ARGV[4] or '0', ARGV[5]

local popped
if void_ms == '0' and not member then -- mostly so, and quick when nobody is in line, or the first there is alive
    if redis.call('hdel', lock, hold) == 0 then
        return 0
    end
    local there = open_ms ~= '0' and redis.pcall('pubsub', 'numsub', channel)
    if not there or there[2] == 0 then
        open_ms = '0'
        popped = redis.pcall('zpopmin', queue)
        local head = popped[1]
        if not head then
            there = there or redis.pcall('pubsub', 'numsub', channel)
            if there.err or there[2] > 0 then
                redis.pcall('publish', channel, '0')
            end
            return 1
        end
        -- pass and grant of a waiter without tokens, in few words: to make the functions below costs a fifth of a run
        local field, client, id, ttl = string.match(head, '^(([^:]+):(%d+)) (%d+) 0 ')
        local inbox = field and 'hasplock_inbox:' .. client
        if inbox and (redis.pcall('pubsub', 'numsub', inbox)[2] or 0) > 0
            and redis.pcall('hset', lock, field, '1') == 1 then
            redis.pcall('pexpire', lock, ttl)
            redis.pcall('publish', inbox, 'grant ' .. id .. ' ' .. ttl .. ' 0 ' .. lock)
            return 1
        end
    end
end

--# part_pass

local function remember_void()
    local now = now_ms()
    redis.pcall('zremrangebyscore', queue, 2e15, string.format('%.0f', 2e15 + now - void_ms))
    redis.pcall('zadd', queue, string.format('%.0f', 2e15 + now), hold)
    if redis.pcall('pttl', queue) < void_ms then
        redis.pcall('pexpire', queue, void_ms)
    end
end

-- Those who listen have the lock to themselves for open_ms. False: nobody listens.
local function open()
    if listeners(channel) == 0 then
        return false
    end
    local head = first_alive(queue)
    redis.pcall('zadd', queue, string.format('%.0f', 1e15 + now_ms() + open_ms), 'open')
    if redis.pcall('pttl', queue) < open_ms then
        redis.pcall('pexpire', queue, open_ms)
    end
    redis.pcall('publish', channel, '0')
    if head then
        message(head, 'open', open_ms, 0)
    end
    return true
end

-- The first in line has left. If the lock is somebody's of ours, its end wakes the next one; else nobody would.
local function wake_next()
    local holder = redis.call('hkeys', lock)[1]
    local until_ms = not holder and redis.pcall('zscore', queue, 'open')
    if not holder and not (until_ms and tonumber(until_ms) - 1e15 > now_ms()) then
        pass(lock, queue, channel, token_key)
    elseif not holder or string.sub(holder, 1, 4) ~= 'hlk-' then
        local head = first_alive(queue)
        if head then
            message(head, 'open', 0, 0)
        end
    end
end

local quick = void_ms == '0' and not member
void_ms, open_ms = tonumber(void_ms), tonumber(open_ms)
local first = member and redis.pcall('zrange', queue, '0', '0')[1]
local done = quick and 1 or redis.call('hdel', lock, hold)
local left = member and redis.pcall('zrem', queue, member) == 1
if void_ms > 0 then
    remember_void()
end
if done == 1 then
    if open_ms == 0 or not open() then
        pass(lock, queue, channel, token_key, popped)
    end
    return 1
end
if left then
    if first == member then
        wake_next()
    end
    return 2
end
return 0
