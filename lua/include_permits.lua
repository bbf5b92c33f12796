-- include_permits: whose turn it is to take permits. Included by the scripts of semaphores, behind
-- include_number.
--
-- The queue is a zset. Its tickets are those of lock_acquire, where `tokens` says how many permits the waiter takes.
-- Other members are notes about holds, "<client id>:<hold id>", one for each. The score says what an entry is:
--   below 1e15   a ticket. The score is when it was taken, in hundredths of a ms. If its waiter was called, and others
--                had taken its permits, the score is in ms, which is before all other tickets
--   1e15 + ms    a ticket that was called: a message told its waiter that its permits are free. They are set aside
--   2e15 + ms    tombstone: the hold has ended, and a late attempt must not take anything
--   3e15 + ms    done: the hold has taken, or released; the next attempt must not do it again
--   4e15 + ms    "open": until then the free permits are left to Redisson's clients, in a yield window
--   5e15 + ms    "listens <client id>": a waiter of this client was among the first two then, so that its client
--                listened to the channel
-- All ms are the server's. Notes and tombstones are dropped after 10 min; the queue lives for 10 to 11 min.
--
-- A script that changes the number, or removes a ticket, calls waiters, and so does an acquire that was not called
-- itself. It goes through the tickets that were not called, from the first. One that fits into the permits that are
-- free and not set aside is called: `popen <id> 0 0 <key>` goes to its inbox. The first one that does not fit ends
-- this. An acquire ends it at its own ticket, and takes if enough are left there. An acquire that was called takes at
-- once, unless one of Redisson's clients was faster. A ticket is removed if its inbox has no subscriber, or if it was
-- called 2 s ago. The usual waiter comes at once: for those that were called in the last 100 ms subscribers are not
-- counted while they are as many as the free permits.
--
-- In a yield window no waiter is called. A waiter that was called before takes its permits; any other one is answered
-- how long the window lasts. What comes back in a window is a part of it. It opens if the channel has more subscribers
-- than there are `listens` notes of the last 2 s.
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

local CALL_MS, JUST_MS, LISTEN_MS = 2000, 100, 2000
-- As HLK_NOTE_MS of src/script/command.h: the client repeats no command whose note may be as old.
local NOTE_MS = 600000
local AHEAD_MS = 5000 -- a moment further ahead was written before the server's clock was set back: it is over
local STEPS = 200 -- of 50 tickets: how many one run looks at

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Redisson's waiters subscribe to the channel, and the first ones of ours. 1 if this user may not count them.
local function listeners(channel)
    local there = redis.pcall('pubsub', 'numsub', channel)
    return there.err and 1 or there[2]
end

-- Does one of Redisson's clients listen to the channel? Then it has more subscribers than the clients of ours that are
-- noted. LISTEN_MS: a waiter asks once a second, which renews a note of more than 500 ms, and its client listens for
-- 100 ms after the wait.
local function has_foreign(queue, channel)
    return listeners(channel) > redis.call('zcount', queue, string.format('%.0f', 5e15 + now - LISTEN_MS),
        string.format('%.0f', 5e15 + now + AHEAD_MS))
end

-- How long the yield window lasts whose score is `open`, in ms; 0: there is none.
local function window_ms(open)
    local left = open and tonumber(open) - 4e15 - now or 0
    return left <= AHEAD_MS and math.max(left, 0) or 0
end

-- A note about `hold`, which lives for NOTE_MS, as the tickets do.
local function note(queue, band, hold)
    redis.pcall('zadd', queue, string.format('%.0f', band + now), hold)
    if (tonumber(redis.pcall('pttl', queue)) or 0) < NOTE_MS then
        redis.pcall('pexpire', queue, string.format('%.0f', NOTE_MS + 60000))
    end
end

-- Removes `member`, if that is not nil, and notes that are needed no more: those of the ids in `drop_notes`, which the
-- sender of `hold` names; and old ones.
local function remove(queue, member, drop_notes, hold)
    local members, client = { member }, drop_notes ~= '' and string.match(hold, '^(.*:)%d+$')
    for id in string.gmatch(drop_notes, '%d+') do
        members[#members + 1] = client .. id
    end
    if members[1] then
        redis.call('zrem', queue, unpack(members))
    end
    if now % 16 == 0 then -- old ones are rare: one command in 16 looks for them
        for band = 2e15, 5e15, 1e15 do
            redis.pcall('zremrangebyscore', queue, band, string.format('%.0f', band + now - NOTE_MS))
        end
    end
end

-- At most `size` tickets with scores from min to max, behind the first `at` of them. Removes those of dead clients, and
-- those whose waiters were called and did not come, but not that of `hold`, which sent this command. Returns the rest,
-- and how many were read; 0: the server refuses to remove any.
local function tickets(queue, min, max, at, size, hold)
    local entries = redis.call('zrangebyscore', queue, min, max, 'withscores', 'limit', at, size)
    if not entries[1] then
        return {}, 0
    end
    local all, inboxes = {}, {}
    for i = 1, #entries, 2 do
        local client, id, n = string.match(entries[i], '^([^ ]*):(%d+) %d+ (%d+) %d+ %d+$')
        all[#all + 1] = { member = entries[i], n = tonumber(n), id = id, field = id and client .. ':' .. id,
            score = tonumber(entries[i + 1]), inbox = 'hasplock_inbox:' .. (client or '') }
        inboxes[#inboxes + 1] = all[#all].inbox
    end
    local there, late = redis.pcall('pubsub', 'numsub', unpack(inboxes)), min == '1e15' and 1e15 + now - CALL_MS
    local alive, dead = {}, {}
    for i, ticket in ipairs(all) do
        local gone = late and (ticket.score <= late or ticket.score > 1e15 + now + AHEAD_MS) or
            not there.err and there[2 * i] == 0
        if not ticket.field or gone and ticket.field ~= hold then
            dead[#dead + 1] = ticket.member
        else
            alive[#alive + 1] = ticket
        end
    end
    local removed = dead[1] and redis.pcall('zrem', queue, unpack(dead)) or 0
    return alive, type(removed) == 'number' and #all or 0
end

-- How many of the `free` permits are not set aside; 0 or less: none. The usual case is that waiters come at once. So
-- for those called just now one permit each is counted first, without reading them: if that leaves none, none is left.
local function not_set_aside(queue, free, hold)
    if free > 0 and redis.call('zcount', queue, string.format('%.0f', 1e15 + now - JUST_MS),
        string.format('%.0f', 1e15 + now + AHEAD_MS)) >= free then
        return 0
    end
    for _, ticket in ipairs(free > 0 and tickets(queue, '1e15', '(2e15', 0, 1000, hold) or {}) do
        free = free - ticket.n
    end
    return free
end

-- Calls the first waiters that were not called yet. `left` permits are not set aside: it ends at a waiter that needs
-- more than are left, and those behind it wait, so that a large one is not overtaken for ever. It ends before the
-- ticket of `hold`, too. Returns how many permits are left there; 0: a waiter before it needs more.
local function call_next(key, queue, left, hold)
    local at, size = 0, 2
    for _ = 1, left > 0 and STEPS or 0 do
        local alive, read = tickets(queue, '-inf', '(1e15', at, size, hold)
        for _, ticket in ipairs(alive) do
            if ticket.field == hold then
                return left
            elseif left < ticket.n then
                return 0
            end
            left = left - ticket.n
            local moved = redis.pcall('zadd', queue, string.format('%.0f', 1e15 + now), ticket.member)
            at = type(moved) == 'table' and at + 1 or at -- refused: it is still there
            redis.pcall('publish', ticket.inbox, 'popen ' .. ticket.id .. ' 0 0 ' .. key)
        end
        if read < size or left <= 0 then -- also if the server refuses to remove dead ones
            break
        end
        size = 50
    end
    return left
end

-- Is there a ticket, or a note, with a score below `max`?
local function has_entries(queue, max)
    local first = redis.call('zrange', queue, '0', '0', 'withscores')
    return first[1] and tonumber(first[2]) < max
end

-- Without a ticket and a note, a window and the notes of listening clients are of no use: the queue goes.
local function drop_if_idle(queue)
    if not has_entries(queue, 4e15) then
        redis.pcall('zremrangebyscore', queue, 4e15, '+inf')
    end
end

-- `free` permits are free now. Redisson's clients wake as many waiters as the message says; a number below 1 makes them
-- fail. The first waiters of ours hear it, too. `is_open`: in a yield window no waiter is called; they ask, and learn
-- how long it lasts.
local function pass(key, queue, channel, free, is_open)
    if free > 0 and not is_open and has_entries(queue, 1e15) then
        call_next(key, queue, not_set_aside(queue, free))
    end
    if free > 0 and listeners(channel) > 0 then
        redis.pcall('publish', channel, string.format('%.0f', free))
    end
end
-- luacheck: pop
