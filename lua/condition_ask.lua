--[[ condition_ask: a waiter asks whether it was signalled, and passes on the signals of waiters that have died

  KEYS[1] waiters  zset: include_condition
  KEYS[2] leases   zset: include_condition
  ARGV[1] waiter   see condition_enroll
  ARGV[2] lease    ms

  Returns {0, waiting}
                   it waits, with a lease of `lease` from this very run. waiting: how many do, for people
          {1}      it was signalled, perhaps by this run
          {2}      it is awake, without a record: a broadcast, or its lease was over, or its data was lost
  Twice   the same. A late run writes the lease anew, which then ends later
  Wakes   for each waiter that was signalled and whose lease is over: the next one. Of SWEPT such leases; those of dead
          waiters are removed
  Order   it reads both keys before the first write, which is one that a full server refuses; {2}: which one allows
  Clock   the server's own, for the leases ]]
local waiters, leases = KEYS[1], KEYS[2]
local waiter, lease = ARGV[1], tonumber(ARGV[2])

--# include_condition

local ends, since = redis.call('zscore', leases, waiter), redis.call('zscore', waiters, waiter)
if ends and not since then
    return { 1 }
elseif not ends then
    if since then -- its lease alone was lost
        redis.call('zrem', waiters, waiter)
    end
    return { 2 }
end
local dead, owed = find_over(waiter)
local chosen, more = {}, {}
if owed[1] then
    chosen, more = choose(#owed, waiter)
end
local waiting = redis.call('zcard', waiters)

redis.call('zadd', leases, 'xx', text(now + lease), waiter)
keep(lease)
remove(redis.pcall, leases, dead, owed)
remove(redis.pcall, waiters, dead)
signal(redis.pcall, chosen, more)
for _, one in ipairs(chosen) do
    if one == waiter then
        return { 1 }
    end
end
return { 0, waiting - #dead .. ' waiting' }
