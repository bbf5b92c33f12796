--[[ rw_reacquire: held to read by `hold` -> the same with `count`, ttl at least lease. As lock_reacquire, which serves
     a writer

  KEYS[1] lock   hash: include_rw
  KEYS[2] own    the reader's lease
  ARGV[1] hold   "<client id>:<hold id>"
  ARGV[2] count  set, not added: running twice equals running once
  ARGV[3] lease  ms; 0: the ttl stays as it is (one nested hold less)

  Returns hold   held by `hold`; if lease > 0 the ttl was at least lease in this very run
          0      gone: not held, or its lease was over
  Twice   the same. A late run may set an older count, on which no rule depends, and never lowers a ttl
  Wakes   no waiter ]]
local lock, own = KEYS[1], KEYS[2]
local hold, count, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])

if redis.call('hexists', lock, hold) == 0 or redis.call('exists', own) == 0 then
    return 0
end
for _, key in ipairs(lease > 0 and KEYS or {}) do
    if redis.call('pttl', key) < lease then
        redis.call('pexpire', key, lease)
    end
end
redis.call('hset', lock, hold, count)
return hold
