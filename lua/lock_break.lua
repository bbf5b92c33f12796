--[[ lock_break: held by anybody -> free

  KEYS[1] lock     hash: hold -> count
  ARGV[1] channel  of the lock

  Returns nil      nobody held it, nothing changed
          field    of the holder it was taken from
  Twice   the second run answers nil, or takes it from whoever came after: it is for operators, and is not repeated
          in the background
  Wakes   publishes "0" on the channel, only when somebody is subscribed to it
  Order   hkeys refuses a key that is no hash before anything is written; del is allowed on a full server
  Source  Redisson's RLock.forceUnlock ]]
local lock, channel = KEYS[1], ARGV[1]

local holder = redis.call('hkeys', lock)[1]
if not holder then
    return nil
end
redis.call('del', lock)
local listeners = redis.pcall('pubsub', 'numsub', channel)
if listeners.err or listeners[2] > 0 then
    redis.pcall('publish', channel, '0')
end
return holder
