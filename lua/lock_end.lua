--[[ lock_end: held by `hold` -> free. The one script that gives anything back: release, give-up, clean-up after a loss

  KEYS[1] lock     hash: hold -> count
  KEYS[2] void     zset: holds that ended in doubt, score = server's ms when they did
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] channel  of the lock, where Redisson's waiters and ours listen
  ARGV[3] void_ms  > 0: a copy of this hold's acquire may still be on its way, remember for so long that it has ended;
                   0: none is

  Returns 1 + n    it was held by `hold` and is free now; n clients are subscribed to the channel and were told
          0        it was not: expired, broken, ended before, or never acquired
  Twice   the second run answers 0 and changes nothing but the void set's ttl
  Wakes   publishes "0" on the channel, only when somebody is subscribed to it (a pattern subscriber is not a waiter)
  Order   the first write is one that a full server still allows; after it every call is a pcall; publish comes last
  Clock   the server's own, only to drop members of the void set that are older than void_ms
  Source  channel and message are Redisson's RLock ]]
local lock, void = KEYS[1], KEYS[2]
local hold, channel, void_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local done = redis.call('hdel', lock, hold)
if void_ms > 0 then
    local time = redis.pcall('time')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.pcall('zremrangebyscore', void, '-inf', now - void_ms)
    redis.pcall('zadd', void, now, hold)
    redis.pcall('pexpire', void, void_ms)
end
if done == 1 then
    local listeners = redis.pcall('pubsub', 'numsub', channel)
    local n = listeners.err and 1 or listeners[2]
    if n > 0 then
        redis.pcall('publish', channel, '0')
    end
    return 1 + n
end
return 0
