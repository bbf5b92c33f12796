--[[ condition_leave: a waiter gives up its wait for a signal

  KEYS[1] waiters  zset: include_condition
  KEYS[2] leases   zset: include_condition
  ARGV[1] waiter   see condition_enroll
  ARGV[2] word     why it leaves: timeout: its time is over, and it goes on with its lock. Else it does not: cancelled,
                   left

  Returns {0}      it has left. If it had been signalled, its signal is passed on
          {1}      only timeout: it has not left, because it was signalled
          {2}      only timeout: it is awake, without a record (condition_ask)
  Twice   the second run finds no record: {0}, and {2} of a timeout: it looks in vain, no harm
  Wakes   the next waiter, if a signal is passed on
  Order   it reads both keys before the first write, which a full server allows
  Clock   the server's own, for the leases ]]
local waiters, leases = KEYS[1], KEYS[2]
local waiter, word = ARGV[1], ARGV[2]

--# include_condition

local ends, since = redis.call('zscore', leases, waiter), redis.call('zscore', waiters, waiter)
if since then
    redis.call('zrem', waiters, waiter)
    redis.pcall('zrem', leases, waiter)
elseif word == 'timeout' then
    return { ends and 1 or 2 }
elseif ends then
    local chosen, dead = choose(1)
    redis.call('zrem', leases, waiter)
    signal(redis.pcall, chosen, dead)
end
return { 0 }
