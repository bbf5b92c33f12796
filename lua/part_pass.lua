-- part_pass: who gets a lock that is free. Included by the scripts that free it.
--
-- In the queue a waiter is "<client id>:<hold id> <ttl> <tokens> <floor> <since>": what a grant sets as the lock's ttl,
-- how many fencing tokens it takes and above which number, and when it came, for people. Waiters come first (score 1
-- and up), so the queue's first entry is the first in line, or no waiter at all.
-- luacheck: push ignore 211 431 (each script uses what it needs, and has the same names)

local function now_ms()
    local time = redis.call('time')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function message(head, what, ttl, token)
    redis.pcall('publish', head.inbox, what .. ' ' .. head.id .. ' ' .. ttl .. ' ' .. token .. ' ' .. KEYS[1])
end

-- Those who listen; 1 if this user may not ask. To the lock's channel listen Redisson's clients, and ours behind one.
local function listeners(channel)
    local there = redis.pcall('pubsub', 'numsub', channel)
    return there.err and 1 or there[2]
end

-- A waiter of the queue, if its client listens; nil: it is dead, or none of ours.
local function alive(member, hold)
    local client, id, ttl, tokens, floor = string.match(member, '^(.*):(%d+) (%d+) (%d+) (%d+) %d+$')
    if not client then
        return nil
    end
    local head = { member = member, field = client .. ':' .. id, id = id, ttl = ttl, tokens = tokens,
        floor = floor, inbox = 'hasplock_inbox:' .. client }
    return (head.field == hold or listeners(head.inbox) > 0) and head or nil
end

-- The first in line whose client listens; those before it are dead, and dropped, 1000 at most (some ms).
-- nil: nobody.
local function first_alive(queue, hold, most)
    for _ = 1, most or 1000 do
        local member = redis.pcall('zrange', queue, '0', '0')[1]
        if not member or not string.find(member, ' ', 1, true) then
            return nil -- nobody, or only void entries and an open window
        end
        local head = alive(member, hold)
        if head then
            return head
        end
        redis.pcall('zrem', queue, member)
    end
    return nil
end

-- The last of `tokens` new fencing tokens, each larger than floor and than any before. nil: the key is no counter, and
-- the answer that says so; nothing was written.
local function take_tokens(key, tokens, floor)
    local counter = redis.pcall('get', key) or 0
    if type(counter) == 'table' then
        return nil, redis.error_reply(counter.err .. ': ' .. key)
    end
    local last = tonumber(counter)
    if not last then
        return nil, redis.error_reply('HASPLOCK the counter of tokens is no number: ' .. key)
    end
    if last < tonumber(floor) then
        redis.call('set', key, floor)
    end
    return redis.call('incrby', key, tokens)
end

local function put_back(queue, score, member)
    redis.pcall('zadd', queue, score, member)
    if redis.pcall('pttl', queue) < 0 then -- it was the last one: the key is a new one
        redis.pcall('pexpire', queue, '600000')
    end
end

-- It stays in line (out of which it was taken already if it has a score), and is told to ask for itself.
local function refuse(queue, head)
    if head.score then
        put_back(queue, head.score, head.member)
    end
    message(head, 'open', 0, 0)
    return false
end

-- The lock is free: it is the head's from here on. False: refused, or its tokens are not among our keys.
local function grant(lock, queue, head, token_key)
    local token = 0
    if head.tokens ~= '0' then
        local ok, last = false, nil
        if token_key then
            ok, last = pcall(take_tokens, token_key, head.tokens, head.floor)
        end
        if not ok or not last then
            return refuse(queue, head)
        end
        token = string.format('%.0f', last)
    end
    local set = redis.pcall('hset', lock, head.field, '1')
    if type(set) == 'table' then
        return refuse(queue, head)
    end
    redis.pcall('pexpire', lock, head.ttl)
    if not head.score then
        redis.pcall('zrem', queue, head.member)
    end
    message(head, 'grant', head.ttl, token)
    return true
end

-- The lock is free: to the first in line, or to whoever listens. `popped`: the queue's first entry, if it was taken out
-- already, and its score: mostly the first in line, and alive.
local function pass(lock, queue, channel, token_key, popped)
    local member = popped and popped[1]
    if member and not string.find(member, ' ', 1, true) then
        put_back(queue, popped[2], member)
        member = nil
    end
    local head = member and alive(member)
    if head then
        head.score = popped[2]
    else
        head = first_alive(queue, nil, member and 999 or 1000)
    end
    if head then
        grant(lock, queue, head, token_key)
    elseif listeners(channel) > 0 then
        redis.pcall('publish', channel, '0')
    end
end
-- luacheck: pop
