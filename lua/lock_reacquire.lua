--[[ lock_reacquire: held by `hold` -> held by `hold` with `count`, ttl at least lease

  For nested holds with a fixed lease and for extend. Under the watchdog nested holds are counted in the process alone.

  KEYS[1] lock     hash: hold -> count
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] count    set, not added: running twice equals running once
  ARGV[3] lease    ms; 0: the ttl stays as it is (one nested hold less)

  Returns hold     held by `hold`; if lease > 0 the ttl was at least lease in this very run
          0        gone: not held
          -1       another one holds it
  Twice   the same. A late run may set an older count, on which no rule depends, and never lowers the ttl
  Wakes   no waiter ]]
local lock = KEYS[1]
local hold, count, lease = ARGV[1], ARGV[2], ARGV[3]

if redis.call('hexists', lock, hold) == 0 then
    return -redis.call('exists', lock)
end
if lease ~= '0' and redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
redis.call('hset', lock, hold, count)
return hold
