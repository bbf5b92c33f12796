--[[ condition_enroll: a waiter comes to a condition. It holds its lock still, so that no signal is missed

  KEYS[1] waiters  zset: include_condition
  KEYS[2] leases   zset: include_condition
  ARGV[1] waiter   "<client id>:<number>": of this wait alone
  ARGV[2] lease    ms

  Returns 1        it waits, behind all who came before, with a lease of `lease` from this very run; or it came before,
                   and has been signalled meanwhile
  Twice   the second run finds the waiter's lease, and writes it anew. One that runs after the wait has ended makes a
          waiter that nobody has: its lease ends, and it does not listen (include_condition)
  Wakes   nobody
  Order   it reads both keys before the first write, which is one that a full server refuses
  Clock   the server's own, for the order and the lease. If it was set back, the order goes on from the last waiter's ]]
local waiters, leases = KEYS[1], KEYS[2]
local waiter, lease = ARGV[1], tonumber(ARGV[2])

--# include_condition

local last = redis.call('zrevrangebyscore', waiters, '+inf', '-inf', 'withscores', 'limit', '0', '1')[2]
if redis.call('zscore', leases, waiter) then
    redis.call('zadd', leases, 'xx', text(now + lease), waiter)
else
    local order = math.max(time[1] * 1000000 + time[2], tonumber(last or 0) + 1)
    redis.call('zadd', waiters, 'nx', text(order), waiter)
    redis.pcall('zadd', leases, text(now + lease), waiter)
end
keep(lease)
return 1
