--[[ barrier_query: how many wait at a barrier. Changes nothing

  KEYS[1] arrived  zset: include_barrier

  Returns how many have arrived, and have a lease
  Twice   the same
  Wakes   no waiter
  Clock   the server's own ]]
local time = redis.call('time')
return redis.call('zcount', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000), '+inf')
