--[[ semaphore_end: taken by `hold` -> given back; a ticket of `hold` -> removed. For an acquire that is given up, and
     may have taken, or may take still

  KEYS[1] key      string: free permits
  KEYS[2] queue    zset: tickets and notes (include_permits)
  ARGV[1] n        permits
  ARGV[2] hold     "<client id>:<hold id>"
  ARGV[3] channel  of the semaphore; Redisson's waiters subscribe to it
  ARGV[4] tombstone_ms  > 0: an attempt of the acquire may still be on its way: leave a tombstone; 0: no tombstone
  ARGV[5] member   its ticket, if it may have one, else ""

  Returns 1        it had taken, and n permits more are free. If the semaphore was deleted meanwhile it stays so
          2        it had a ticket, which is removed
          0        neither
  Twice   the second run finds no note, and returns 0
  Wakes   the next in the queue, and Redisson's clients
  Order   the first write is one that a full server still allows; after it every call is a pcall
  Clock   the server's own
  Source  channel and message are Redisson's RSemaphore ]]
local key, queue = KEYS[1], KEYS[2]
local n, hold, channel, tombstone_ms, member = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5]

--# include_number
--# include_permits

local notes = redis.call('zmscore', queue, hold, 'open')
local mark = tonumber(notes[1] or 0)
local free, refusal = permits(key)
if refusal then
    return refusal
end
redis.call('zrem', queue, hold)
local left = member ~= '' and redis.pcall('zrem', queue, member) == 1
if tombstone_ms > 0 then
    note(queue, 2e15, hold)
end
local taken = mark >= 3e15
if taken and redis.pcall('exists', key) == 1 then
    free = redis.pcall('incrby', key, n)
end
if taken and type(free) == 'number' then
    pass(key, queue, channel, free, window_ms(notes[2]) > 0)
elseif left then
    call_next(key, queue, not_set_aside(queue, free))
end
drop_if_idle(queue)
return taken and 1 or left and 2 or 0
