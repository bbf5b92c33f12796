--[[ quorum_acquire: lock free -> the string `hold` with a ttl. One master's part of a lock over several; the format is
     that of the page on distributed locks of Redis (SET name token NX PX ttl)

  KEYS[1] lock     string: the holder's token
  ARGV[1] lease    ms, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for each try, the same when a master is asked again

  Returns hold                  acquired, or held by `hold` before: the ttl is then as it was
          {ttl, holder, -1}     busy. ttl: ms left (-1: no ttl)
  Twice   the same: a second run finds the string of the first
  Order   one write, which is the last command
  Wakes   no waiter ]]
if redis.call('set', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[1]) then
    return ARGV[2]
end
local holder = redis.call('get', KEYS[1])
if holder == ARGV[2] then
    return ARGV[2]
end
return { redis.call('pttl', KEYS[1]), holder, -1 }
