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

--# part_number
--# part_permits

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

-- Are there n beside what those before its ticket need? Without a ticket all are before it.
local function may_take()
    local left, at, size = free - n, 0, 2
    while left >= 0 do
        local alive, read = tickets(queue, at, size, hold)
        for _, ticket in ipairs(alive) do
            if ticket.field == hold then
                return true
            end
            left = left - ticket.n
            if left < 0 then
                return false
            end
        end
        if read < size then
            return true
        end
        at, size = at + #alive, 50
    end
    return false
end

if may_take() then
    redis.call('incrby', key, '-' .. ARGV[1])
    if notes[2] then
        redis.pcall('zrem', queue, member)
    end
    drop_notes(queue, settled, hold, note(queue, 3e15, hold))
    call_next(key, queue, free - n)
    return nil
end

-- The position of its ticket, which is taken if there is none.
local function take_ticket()
    if not notes[2] then
        local time = redis.call('time')
        redis.call('zadd', queue, string.format('%s%05d', time[1], time[2] / 10), member)
        local last = redis.call('zrevrangebyscore', queue, '(1e15', '1', 'withscores', 'limit', '0', '1')
        if last[1] ~= member then -- another ticket is behind it: the clock was set back
            redis.call('zadd', queue, string.format('%.0f', last[2] + 1), member)
        end
    end
    if mark > 0 then -- it was called, and somebody else was faster
        redis.pcall('zrem', queue, hold)
    end
    if redis.call('pttl', queue) < 600000 then
        redis.call('pexpire', queue, '660000')
    end
    return redis.call('zrank', queue, member)
end

if settled ~= '' then
    drop_notes(queue, settled, hold, now_ms())
end
local position = member ~= '' and take_ticket() or -1
call_next(key, queue, free, hold)
return { 1000, '', position }
