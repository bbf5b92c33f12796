--[[ fair_break: held by anybody -> free

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    list: who waits (Redisson's)
  ARGV[1] channel  of the lock; a waiter listens on "<channel>:<waiter>"

  Returns nil      nobody held it, nothing changed
          field    of the holder it was taken from
          or HASPLOCK ...: a hash that is no lock (part_held), nothing changed
  Twice   the second run answers nil, or takes it from whoever came after: it is for operators, and is not repeated
          in the background
  Wakes   the one that a release would (fair_end)
  Order   a key that is no lock, and a queue of another type, are refused before anything is written
  Source  Redisson's RFairLock.forceUnlock ]]
local lock, queue, channel = KEYS[1], KEYS[2], ARGV[1]

--# part_held

local held = redis.call('hgetall', lock)
local holder = held[1]
local waiters = redis.call('lrange', queue, 0, -1)
local refusal = no_lock(held)
if refusal or not holder then
    return refusal
end
redis.call('del', lock)
for i, waiter in ipairs(waiters) do
    local n = redis.pcall('pubsub', 'numsub', channel .. ':' .. waiter)
    if (n.err or n[2] > 0) and (i == 1 or string.sub(waiter, 1, 4) == 'hlk-') then
        redis.pcall('publish', channel .. ':' .. waiter, '0')
        break
    end
end
return holder
