--[[ permit_extend: the permit `hold` -> the same with its lease at least. The part of lock_reacquire

  KEYS[1] leases   zset: the permits that are held (include_leases)
  ARGV[1] hold     "<client id>:<hold id>", or the id of a permit of Redisson's
  ARGV[2] count    of holds, which is not written: a permit does not nest
  ARGV[3] lease    ms; 0: it stays as it is, and something is written, for replicas

  Returns hold     held by `hold`; if lease > 0 it was at least this in this very run
          0        gone: not held, or its lease was over
  Twice   the same. Never shortens a lease
  Wakes   no waiter
  Clock   the server's own ]]
local leases, hold, lease = KEYS[1], ARGV[1], tonumber(ARGV[3])

--# include_number
--# include_leases

if lease == 0 and redis.call('zscore', leases, hold) then -- the key must not be removed in between: it may have a ttl
    redis.call('zrem', leases, '')
    redis.call('zadd', leases, '1', '')
    redis.call('zrem', leases, '')
end
local time = redis.call('time')
return raise(leases, hold, lease, time[1] * 1000 + math.floor(time[2] / 1000)) == 1 and hold or 0
