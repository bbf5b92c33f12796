--[[ condition_broadcast: all waiters of a condition are woken

  KEYS[1] waiters  zset: include_condition
  KEYS[2] leases   zset: include_condition

  Returns how many were there, dead ones included
  Twice   the second run wakes those who came meanwhile, which look in vain: no harm
  Wakes   all. No waiter has a record any more, and nor has one that was signalled before: there is nobody to whom its
          signal could be passed on
  Order   it reads both keys before the first write, which a full server allows ]]
local waiters, leases = KEYS[1], KEYS[2]

--# include_condition

redis.call('zcard', leases) -- other data there is an error, and not deleted
local all = redis.call('zrange', waiters, '0', '-1')
if all[1] then
    redis.call('del', waiters, leases)
end
for _, waiter in ipairs(all) do
    publish(waiter)
end
return #all
