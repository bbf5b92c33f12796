--[[ semaphore_acquire: enough permits, and none of those before in the queue needs them -> taken; else, with `member`,
     a ticket in the queue

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: tickets and notes (part_permits)
  ARGV[1] n        permits, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every acquire, the same in all its attempts
  ARGV[3] settled  hold ids of this client whose notes are needed no more, with spaces between; ""
  ARGV[4] member   its ticket, the same in all attempts; "": one try

  Returns nil                   taken, by this run or by an earlier attempt
          -1                    this hold has a tombstone: it has ended, and a late attempt must not take anything
          {ttl, "", position}   not taken; ask again after ttl at the latest. position: tickets before its own; -1: none
          HASPLOCK ..., WRONGTYPE ...    the key is no semaphore; nothing is changed
  Twice   the second run finds the note of the first one, or its ticket
  Wakes   the next in the queue, if permits are left for them
  Order   it reads everything before the first write, which is the one that takes
  Clock   the server's own
  Source  key and value are Redisson's RSemaphore; the rest is hasplock's (docs/protocol.md) ]]
local key, queue = KEYS[1], KEYS[2]
local n, hold, settled, member = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

--# part_permits
--# part_permits_take

local notes = redis.pcall('zmscore', queue, hold, member)
if notes.err then
    return redis.error_reply(notes.err .. ': ' .. queue)
end
local mark = tonumber(notes[1] or 0)
if mark >= 3e15 then
    return nil
elseif mark >= 2e15 then
    return -1
end
local free, refusal = permits(key)
if refusal then
    return refusal
end

if may_take(queue, free, n, hold) then
    redis.call('incrby', key, '-' .. ARGV[1])
    if notes[2] then
        redis.pcall('zrem', queue, member)
    end
    drop_notes(queue, settled, hold, note(queue, 3e15, hold))
    call_next(key, queue, free - n)
    return nil
end

if settled ~= '' then
    drop_notes(queue, settled, hold, now_ms())
end
local position = member ~= '' and take_ticket(queue, member, notes[2], hold, mark > 0) or -1
call_next(key, queue, free, hold)
return { 1000, '', position }
