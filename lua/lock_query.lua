--[[ lock_query: what the server knows about a lock. Changes nothing

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    zset: see lock_acquire
  ARGV[1] channel  of the lock
  ARGV[2] max      how many waiters to name

  Returns {ttl, listeners, holder, count, waiters, {member...}}
          ttl       in ms; -1: held without ttl; -2: free (holder "", count 0)
          listeners client processes that are subscribed to the channel; -1: this user may not count them
          waiters   number of tickets, and the first of them as they are in the queue (include_pass)
          or HASPLOCK ...: a hash that is no lock (include_held)
  Wakes   no waiter ]]
local lock, queue, channel = KEYS[1], KEYS[2], ARGV[1]

--# include_held

local held = redis.call('hgetall', lock)
local refusal = no_lock(held)
if refusal then
    return refusal
end
local waiters = redis.pcall('zcount', queue, 1, 1e15)
if type(waiters) == 'table' then
    return redis.error_reply(waiters.err .. ': ' .. queue)
end
local listeners = redis.pcall('pubsub', 'numsub', channel)
return { redis.call('pttl', lock), listeners.err and -1 or listeners[2], held[1] or '', tonumber(held[2] or 0),
    waiters, redis.call('zrangebyscore', queue, 1, 1e15, 'limit', 0, ARGV[2]) }
