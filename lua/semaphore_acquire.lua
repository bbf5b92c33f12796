--[[ semaphore_acquire: enough permits, and none of those before in the queue needs them -> taken; else, with `member`,
     a ticket in the queue

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: tickets and notes (include_permits)
  ARGV[1] n        permits, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every acquire, the same in all its attempts
  ARGV[3] drop_notes  hold ids of this client whose notes are needed no more, with spaces between; ""
  ARGV[4] member   its ticket, the same in all attempts; "": one try

  Returns hold                  taken, by this run or by an earlier attempt
          -1                    this hold has a tombstone: it has ended, and a late attempt must not take anything
          {ttl, why, position}  not taken; ask again after ttl at the latest, which in a yield window is its end.
                                why: "none": there is no number of permits, it was never set; else "". position:
                                tickets before its own; -1: none
          HASPLOCK ..., WRONGTYPE ...    the key is no semaphore; nothing is changed
  Checks  the first that fits: a note (taken before); a tombstone; it was called, and n are free (taken); a yield window
          (not taken); n are left for it when all before it have theirs (taken); else not taken
  Twice   the second run finds the note of the first one, or its ticket
  Wakes   those before it, and if permits are left those behind it
  Order   it reads everything before the first write, which is the one that takes
  Clock   the server's own
  Source  key and value are Redisson's RSemaphore; the rest is hasplock's (docs/protocol.md) ]]
local key, queue = KEYS[1], KEYS[2]
local n, hold, drop_notes, member = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]

--# include_number
--# include_permits

local listens = 'listens ' .. string.match(hold, '^(.*):')
local notes = redis.pcall('zmscore', queue, hold, member, 'open', listens)
if notes.err then
    return redis.error_reply(notes.err .. ': ' .. queue)
end
local mark, place = tonumber(notes[1] or 0), tonumber(notes[2] or 0)
if mark >= 3e15 then
    return hold
elseif mark >= 2e15 then
    return -1
end
local free, refusal = permits(key)
if refusal then
    return refusal
end

local called = place >= 1e15 -- then n are set aside for it, unless a client of Redisson's was faster
local window = called and 0 or window_ms(notes[3])
local left = window > 0 and 0 or free
if left >= n and not called and has_entries(queue, 2e15) then -- those before it come first
    left = call_next(key, queue, not_set_aside(queue, free, hold), hold)
end

if left >= n then
    redis.call('incrby', key, '-' .. ARGV[1])
    note(queue, 3e15, hold) -- before what is removed, which would end the queue and its ttl with it
    remove(queue, place > 0 and member or nil, drop_notes, hold)
    if place > 0 and not called then
        call_next(key, queue, left - n)
    end
    return hold
end

-- The position of its ticket, which is taken if there is none.
local function ticket_position()
    if place == 0 then
        redis.call('zadd', queue, string.format('%s%05d', time[1], time[2] / 10), member)
    elseif called then
        redis.call('zadd', queue, string.format('%.0f', now), member)
    end
    if redis.call('pttl', queue) < 600000 then
        redis.call('pexpire', queue, '660000')
    end
    local position = redis.call('zrank', queue, member)
    if place == 0 and redis.call('zcount', queue, '-inf', '(1e15') > position + 1 then -- the clock was set back
        local last = redis.call('zrevrangebyscore', queue, '(1e15', '-inf', 'withscores', 'limit', '0', '1')
        redis.call('zadd', queue, string.format('%.0f', last[2] + 1), member)
        return redis.call('zrank', queue, member)
    end
    return position
end

remove(queue, nil, drop_notes, hold)
local position = member ~= '' and ticket_position() or -1
local noted = tonumber(notes[4] or 0) - 5e15 - now
if (position == 0 or position == 1) and (noted < -500 or noted > AHEAD_MS) then -- it will listen
    redis.call('zadd', queue, string.format('%.0f', 5e15 + now), listens)
end
local none = free == 0 and redis.call('exists', key) == 0
return { free >= n and window > 0 and math.min(window, 1000) or 1000, none and 'none' or '', position }
