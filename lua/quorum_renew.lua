--[[ quorum_renew: the string `hold` -> the same with ttl at least lease

  KEYS[1] lock     string: the holder's token
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] lease    ms, >= 1

  Returns hold     it is this holder's; the ttl was at least the lease in this very run
          0        it is not
  Creates no key, shortens no ttl
  Twice   the same
  Wakes   no waiter ]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return ARGV[1]
