--[[ fair_end: held by `hold` -> free; waiting -> not in the queue. Release, give-up, clean-up after a loss

  KEYS[1] lock      hash: hold -> count
  KEYS[2] queue     list: who waits (Redisson's)
  KEYS[3] scores    zset: who waits -> epoch ms (Redisson's)
  KEYS[4] notes     zset, ours: holds that ended in doubt, score = -(server's ms when they did)
  ARGV[1] hold      "<client id>:<hold id>"
  ARGV[2] channel   of the lock; a waiter listens on "<channel>:<waiter>"
  ARGV[3] patience  ms, what a place in the queue has added to the scores of those behind it
  ARGV[4] void_ms   > 0: a copy of this hold's acquire may still be on its way, remember for so long that it has ended;
                    0: none is

  Returns 1         it was held by `hold` and is free now
          0         it was not: expired, broken, ended before, waiting, or never acquired
  Twice   the second run answers 0 and changes nothing but the void set's ttl
  Wakes   when it frees the lock, or takes the first out of the queue of a free lock: "0" to the first, if it listens,
          else to the first of ours who does, so that somebody asks and finds out that the first is dead
  Order   the first write is one that a full server still allows; after it every call is a pcall; publish comes last
  Clock   the server's own, for the void set
  Source  Redisson's RFairLock, its unlock and its "acquire failed" ]]
local lock, queue, scores, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold, channel, patience, void_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local done = redis.call('hdel', lock, hold)
if void_ms > 0 then
    local time = redis.pcall('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.pcall('zremrangebyscore', notes, '(' .. -(now - void_ms), '0')
    redis.pcall('zadd', notes, -now, hold)
    redis.pcall('pexpire', notes, void_ms)
end

local waiters = redis.pcall('lrange', queue, '0', '-1')
if waiters.err or #waiters == 0 then
    return done
end
local place = nil
for i, waiter in ipairs(waiters) do
    if waiter == hold then
        place = i
    elseif place and type(redis.pcall('zscore', scores, waiter)) == 'string' then
        redis.pcall('zincrby', scores, -patience, waiter)
    end
end
if place then
    redis.pcall('zrem', scores, hold)
    redis.pcall('lrem', queue, '0', hold)
    table.remove(waiters, place)
    if waiters[1] and not string.find(' ' .. table.concat(waiters, ' '), ' hlk-', 1, true) then
        -- Redisson's own have no ttl
        redis.pcall('persist', queue)
        redis.pcall('persist', scores)
    end
end
if done == 1 or (place == 1 and redis.pcall('exists', lock) == 0) then
    for i, waiter in ipairs(waiters) do
        local n = redis.pcall('pubsub', 'numsub', channel .. ':' .. waiter)
        if (n.err or n[2] > 0) and (i == 1 or string.sub(waiter, 1, 4) == 'hlk-') then
            redis.pcall('publish', channel .. ':' .. waiter, '0')
            break
        end
    end
end
return done
