--[[ fair_query: what the server knows about a fair lock. Changes nothing. Answers as lock_query

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    list: the waiters (Redisson's)
  ARGV[1] max      how many waiters to name

  Returns {ttl, -1, holder, count, waiters, {waiter...}}
          ttl      in ms; -1: held without ttl; -2: free (holder "", count 0)
          waiters  tickets in the queue, one for each thread or owner, and the first of them
          or HASPLOCK ...: a hash that is no lock (include_held)
  Wakes   no waiter ]]
local lock, queue, max = KEYS[1], KEYS[2], tonumber(ARGV[1])

--# include_held

local held = redis.call('hgetall', lock)
local refusal = no_lock(held)
if refusal then
    return refusal
end
return { redis.call('pttl', lock), -1, held[1] or '', tonumber(held[2] or 0), redis.call('llen', queue),
    max > 0 and redis.call('lrange', queue, 0, max - 1) or {} }
