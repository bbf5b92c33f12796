--[[ rw_query: what the server knows about one half of a read/write lock. Changes nothing. Answers as lock_query

  KEYS[1] lock   hash: include_rw
  KEYS[2] queue  zset: see rw_acquire
  ARGV[1] kind   "r": its readers; "w": its writer
  ARGV[2] max    how many waiters to name

  Returns {ttl, listeners, holder, count, waiters, {member...}}
          ttl       in ms; -1: held without ttl; -2: free
          listeners client processes that are subscribed to the channel; -1: this user may not count them
          holder    one of the readers; the writer; "": this half is not held. count: its holds; of all readers together
          waiters   number of tickets of both halves, and the first of them, without their kind
          or HASPLOCK ...: a hash that is no read/write lock
  Wakes   no waiter ]]
local lock, queue = KEYS[1], KEYS[2]
local kind, max = ARGV[1], tonumber(ARGV[2])

--# include_held
--# include_rw_held
--# include_queue
--# include_rw

local held, holder, count = redis.call('hgetall', lock), '', 0
local refusal = no_rw_lock(held)
if refusal then
    return refusal
end
for i = 1, #held, 2 do
    local hold, writes = string.gsub(held[i], ':write$', '')
    if held[i] ~= 'mode' and (writes == 1) == (kind == 'w') then
        holder, count = hold, count + (tonumber(held[i + 1]) or 0)
    end
end
local waiters = redis.pcall('zcount', queue, 1, 1e15)
if type(waiters) == 'table' then
    return redis.error_reply(waiters.err .. ': ' .. queue)
end
local there, members = redis.pcall('pubsub', 'numsub', channel), {}
for i, member in ipairs(max > 0 and redis.call('zrangebyscore', queue, 1, 1e15, 'limit', 0, max) or {}) do
    members[i] = string.sub(member, 1, -3)
end
return { count > 0 and redis.call('pttl', lock) or -2, there.err and -1 or there[2], holder, count, waiters, members }
