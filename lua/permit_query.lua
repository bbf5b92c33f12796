--[[ permit_query: what the server knows about the permits. Changes nothing. Answers as lock_query

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: see permit_acquire
  KEYS[3] leases   zset: the permits that are held (include_leases)
  ARGV[1] max      how many waiters to name
  ARGV[2] channel  of the permits; Redisson's waiters subscribe to it, and the first of ours
  ARGV[3] hold     of the caller: if it holds a permit, it is the holder that is named; "": none

  Returns {ttl, listeners, holder, count, waiters, {member...}}
          ttl      ms left of the holder's lease; -1: it does not end; -2: no permit is held
          listeners client processes that are subscribed to the channel; -1: this user may not count them
          holder   the caller; else the one whose lease ends last; "": none. count: how many permits are held
          waiters  number of tickets, and the first of them as they are in the queue
          HASPLOCK ..., WRONGTYPE ... these are no permits
  Wakes   no waiter
  Clock   the server's own ]]
local key, queue, leases = KEYS[1], KEYS[2], KEYS[3]
local max, channel, hold = ARGV[1], ARGV[2], ARGV[3]

--# include_number

local _, refusal = permits(key)
if refusal then
    return refusal
end
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = redis.call('zcount', leases, '(' .. now, '+inf')
local last = redis.call('zrange', leases, '0', '0', 'rev', 'withscores')
local mine = hold ~= '' and redis.call('zscore', leases, hold)
if mine and tonumber(mine) > now then
    last = { hold, mine }
end
local ttl = count == 0 and -2 or tonumber(last[2]) >= 922337203685477 and -1 or last[2] - now
local waiters = redis.pcall('zcount', queue, 1, 1e15)
if type(waiters) == 'table' then
    return redis.error_reply(waiters.err .. ': ' .. queue)
end
local there = redis.pcall('pubsub', 'numsub', channel)
return { ttl, there.err and -1 or there[2], count > 0 and last[1] or '', count, waiters,
    redis.call('zrangebyscore', queue, 1, 1e15, 'limit', 0, max) }
