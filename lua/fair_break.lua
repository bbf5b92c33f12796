--[[ fair_break: held by anybody -> free

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    list: who waits (Redisson's)
  ARGV[1] channel  of the lock; a waiter listens on "<channel>:<waiter>"

  Returns nil      nobody held it, nothing changed
          field    of the holder it was taken from
  Twice   the second run answers nil, or takes it from whoever came after: it is for operators, and is not repeated
          in the background
  Wakes   the one that a release would (fair_end)
  Order   hkeys and lrange refuse keys of another type before anything is written
  Source  Redisson's RFairLock.forceUnlock ]]
local lock, queue, channel = KEYS[1], KEYS[2], ARGV[1]

local holder = redis.call('hkeys', lock)[1]
local waiters = redis.call('lrange', queue, 0, -1)
if not holder then
    return nil
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
