--[[ condition_signal: the first waiter of a condition is woken

  KEYS[1] waiters  zset: include_condition
  KEYS[2] leases   zset: include_condition

  Returns how many are woken: 0 or 1
  Twice   the second run wakes the next one, which looks in vain: no harm
  Wakes   the first waiter that listens; else the first one whose lease is not over, which may not listen yet and finds
          the signal when it asks. Of FEW + CHUNKS * CHUNK waiters
  Dead    waiters before it whose lease is over are removed
  Order   it reads both keys before the first write, which a full server allows
  Clock   the server's own, for the leases ]]
local waiters, leases = KEYS[1], KEYS[2]

--# include_condition

redis.call('zcard', leases) -- other data there is an error also if nobody waits
local chosen, dead = choose(1)
signal(redis.call, chosen, dead)
return #chosen
