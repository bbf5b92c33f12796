--[[ string_extend: the string `hold` -> the same with ttl at least lease. The part of lock_reacquire

  KEYS[1] lock     string: the holder's token
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] count    of holds, which is not written: a string lock does not nest
  ARGV[3] lease    ms; 0: the ttl stays as it is, and the token is written again, for replicas

  Returns hold     held by `hold`; if lease > 0 the ttl was at least lease in this very run
          0        gone: not held
          -1       another one holds it
  Twice   the same. Never lowers the ttl
  Wakes   no waiter ]]
local lock, hold, lease = KEYS[1], ARGV[1], ARGV[3]

local holder = redis.call('get', lock)
if holder ~= hold then
    return holder and -1 or 0
end
if lease == '0' then
    redis.call('set', lock, hold, 'keepttl')
elseif redis.call('pttl', lock) < tonumber(lease) then
    redis.call('pexpire', lock, lease)
end
return hold
