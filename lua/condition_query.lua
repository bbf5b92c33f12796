--[[ condition_query: how many wait at a condition. Changes nothing

  KEYS[1] waiters  zset: include_condition
  KEYS[2] leases   zset: include_condition

  Returns how many wait for a signal. SWEPT of those whose lease is over do not count
  Twice   the same
  Wakes   nobody
  Clock   the server's own, for the leases ]]
local waiters, leases = KEYS[1], KEYS[2]

--# include_condition

local dead = find_over()
return redis.call('zcard', waiters) - #dead
