-- part_permits: whose turn it is to take permits. Included by the scripts of semaphores, behind
-- part_number.
--
-- The queue is a zset. Tickets are those of lock_acquire, where `tokens` says how many permits the waiter takes; score:
-- when taken, in hundredths of a ms. Behind them are notes about holds, "<client id>:<hold id>", one for each:
--   1e15 + ms   called: its waiter was told that it may take now
--   2e15 + ms   tombstone: it has ended, and a late attempt must not take anything
--   3e15 + ms   done: it has taken, or released; the next attempt must not do it again
-- All ms are the server's.
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

local CALL_MS, NOTE_MS = 2000, 600000

local function now_ms()
    local time = redis.call('time')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Redisson's waiters subscribe to the channel, and the first ones of ours. 1 if this user may not count them.
local function listeners(channel)
    local there = redis.pcall('pubsub', 'numsub', channel)
    return there.err and 1 or there[2]
end

-- A note about `hold`, which lives for NOTE_MS, as the tickets do.
local function note(queue, band, hold)
    local now = now_ms()
    redis.pcall('zadd', queue, string.format('%.0f', band + now), hold)
    if (tonumber(redis.pcall('pttl', queue)) or 0) < NOTE_MS then
        redis.pcall('pexpire', queue, string.format('%.0f', NOTE_MS + 60000))
    end
    return now
end

-- Notes that are needed no more: those of the ids in `settled`, which the sender of `hold` names; and old ones.
local function drop_notes(queue, settled, hold, now)
    local client = string.match(hold, '^(.*):%d+$')
    for id in string.gmatch(settled, '%d+') do
        redis.pcall('zrem', queue, client .. ':' .. id)
    end
    if now % 16 == 0 then -- old ones are rare: one command in 16 looks for them
        for band = 2e15, 3e15, 1e15 do
            redis.pcall('zremrangebyscore', queue, band, string.format('%.0f', band + now - NOTE_MS))
        end
    end
end

-- `size` tickets from position `at` on: those of dead clients, and of waiters that were called and did not come, are
-- removed, but not one of `hold`, which sent this command. Returns the others, and how many there were in all.
local function tickets(queue, at, size, hold)
    local tickets, all, inboxes, fields = redis.pcall('zrange', queue, at, at + size - 1, 'withscores'), {}, {}, {}
    for i = 1, #tickets, 2 do
        if tonumber(tickets[i + 1]) >= 1e15 then
            break
        end
        local client, id, n = string.match(tickets[i], '^(.*):(%d+) %d+ (%d+) %d+ %d+$')
        client = client or ''
        all[#all + 1] = { member = tickets[i], n = tonumber(n or 0), id = id, field = client .. ':' .. (id or ''),
            inbox = 'hasplock_inbox:' .. client }
        inboxes[#inboxes + 1], fields[#fields + 1] = all[#all].inbox, all[#all].field
    end
    if not all[1] then
        return {}, 0
    end
    local there, marks = redis.pcall('pubsub', 'numsub', unpack(inboxes)), redis.call('zmscore', queue, unpack(fields))
    local now, alive, dead = now_ms(), {}, {}
    for i, ticket in ipairs(all) do
        local mark = tonumber(marks[i] or 0)
        ticket.called = mark >= 1e15 and mark < 2e15
        local missing = ticket.called and now - (mark - 1e15) >= CALL_MS
        if ticket.field ~= hold and (not ticket.id or missing or not there.err and there[2 * i] == 0) then
            dead[#dead + 1] = ticket.member
            if ticket.called then
                dead[#dead + 1] = ticket.field
            end
        else
            alive[#alive + 1] = ticket
        end
    end
    if dead[1] then
        redis.pcall('zrem', queue, unpack(dead))
    end
    return alive, #all
end

-- Calls the first waiters, as many as find enough of the `free` permits. Who needs more than is left keeps those behind
-- it waiting, so that a large one is not overtaken for ever.
local function call_next(key, queue, free, hold)
    local at, size = 0, 2
    while free > 0 do
        local alive, read = tickets(queue, at, size, hold)
        for _, ticket in ipairs(alive) do
            if free < ticket.n then
                return
            end
            free = free - ticket.n
            if not ticket.called and ticket.field ~= hold then
                note(queue, 1e15, ticket.field)
                redis.pcall('publish', ticket.inbox, 'popen ' .. ticket.id .. ' 0 0 ' .. key)
            end
        end
        if read < size then
            return
        end
        at, size = at + #alive, 50
    end
end

-- `free` permits are free now. Redisson's clients wake as many waiters as the message says; a number below 1 makes them
-- fail.
local function pass(key, queue, channel, free, hold)
    call_next(key, queue, free, hold)
    if free > 0 and listeners(channel) > 0 then
        redis.pcall('publish', channel, string.format('%.0f', free))
    end
end
-- luacheck: pop
