--[[ string_query: what the server knows about a string lock. Changes nothing. Answers as lock_query

  KEYS[1] lock     string: the holder's token
  KEYS[2] queue    zset: see string_acquire
  ARGV[1] max      how many waiters to name

  Returns {ttl, -1, holder, count, waiters, {member...}}
          ttl      in ms; -1: held without ttl; -2: free (holder "", count 0)
          waiters  number of tickets, and the first of them as they are in the queue (include_pass)
          WRONGTYPE ... the key is no string
  Wakes   no waiter ]]
local lock, queue = KEYS[1], KEYS[2]

--# include_string

local holder = redis.call('get', lock)
local waiters = redis.pcall('zcount', queue, 1, 1e15)
if type(waiters) == 'table' then
    return redis.error_reply(waiters.err .. ': ' .. queue)
end
return { redis.call('pttl', lock), -1, shown(holder or nil), holder and 1 or 0, waiters,
    redis.call('zrangebyscore', queue, 1, 1e15, 'limit', 0, ARGV[1]) }
