--[[ lock_query: changes nothing; what the server says about a lock

  KEYS[1] lock     hash: hold -> count
  ARGV[1] channel  of the lock

  Returns {ttl, listeners}                 free (ttl is -2)
          {ttl, listeners, holder, count}  ttl in ms, -1: held without end
          listeners: client processes subscribed to the channel, -1: this user may not ask
  Wakes   nobody ]]
local lock, channel = KEYS[1], ARGV[1]

local held = redis.call('hgetall', lock)
local answer = { redis.call('pttl', lock), -1, held[1], tonumber(held[2]) }
local listeners = redis.pcall('pubsub', 'numsub', channel)
if not listeners.err then
    answer[2] = listeners[2]
end
return answer
