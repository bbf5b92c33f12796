--[[ lock_acquire: free -> held by `hold` with ttl = lease; held by `hold` already -> its ttl raised to lease

  KEYS[1] lock     hash: hold -> count, exactly one field while held
  KEYS[2] void     zset: holds that ended while a copy of their acquire may still be on its way
  ARGV[1] lease    ms, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every outermost acquire, the same in all copies of it

  Returns nil           acquired, or held by `hold` before: the ttl was set to at least lease in this very run
          -1            void: this hold has ended, a late copy must not revive it
          {ttl, holder} held by somebody else: ms left (-1: no end), and its field
  Twice   a second run finds the field and raises the ttl; a late run after lock_end with doubt finds the void set
  Wakes   nobody
  Source  key and field layout are Redisson's RLock; hold ids and the void set are ours (docs/protocol.md) ]]
local lock, void = KEYS[1], KEYS[2]
local lease, hold = ARGV[1], ARGV[2]

if redis.call('exists', lock, void) > 0 then
    if redis.call('zscore', void, hold) then
        return -1
    end
    if redis.call('hexists', lock, hold) == 1 then
        if redis.call('pttl', lock) < tonumber(lease) then
            redis.call('pexpire', lock, lease)
        end
        return nil
    end
    local holder = redis.call('hkeys', lock)[1]
    if holder then
        return { redis.call('pttl', lock), holder }
    end
end
redis.call('hset', lock, hold, 1)
redis.call('pexpire', lock, lease)
return nil
