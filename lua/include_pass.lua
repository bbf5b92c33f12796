-- include_pass: which waiter gets a lock that is free. Included by the scripts that free it, behind include_queue and
-- the part that says what a held lock is: include_hash, include_string or include_permit.
--
-- A ticket in the queue is "<client id>:<hold id> <ttl> <tokens> <floor> <since>": the ttl that a grant sets for the
-- lock, how many fencing tokens the waiter takes and above which number, and, for people, since when it waits. Its
-- score is when it was taken, by the server's clock, in hundredths of a ms. Tickets come first (below 1e15), so the
-- queue's first entry is the first ticket, or there is none.
--
-- The lock goes to the first waiter whose inbox has a subscriber. Waiters before it are dead and are removed, however
-- many they are. It gets its tokens, field and ttl, leaves the queue, and is sent `grant`.
--   no token  the counter is not among the keys (a plain release, a fenced waiter), or is no counter. The waiter gets
--             field and ttl, and sends an acquire, whose reply has a token. So a fenced waiter that stands still costs
--             a plain one no more than any other waiter does
--   refused   the server refuses the field (it is full). The waiter is sent `open`, and keeps its ticket; the lock
--             stays free
--   "0"       on the channel, if that has subscribers: no waiter is alive; the first one was refused; or the new ttl is
--             shorter than what was left of the old one. The subscribers, Redisson's clients, have read the old one
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

local STEPS = 1000 -- of 100 tickets: how many dead ones a run removes at most

local function message(head, what, ttl, token)
    redis.pcall('publish', head.inbox, LETTER .. what .. ' ' .. head.id .. ' ' .. ttl .. ' ' .. token .. ' ' .. KEYS[1])
end

-- The number of subscribers; 1 if this user may not count them. Redisson's waiters subscribe to the lock's channel, and
-- a hasplock waiter behind one of them.
local function listeners(channel)
    local there = redis.pcall('pubsub', 'numsub', channel)
    return there.err and 1 or there[2]
end

-- The parts of a ticket; nil: the entry is no ticket. One with a ttl of more than 15 digits is none: Redis would refuse
-- that ttl, and the lock would have no end. `popped`: it was taken out of the queue already.
local function read_waiter(member, score, popped)
    local client, id, ttl, tokens, floor = string.match(member, '^(.*):(%d+) (%d+) (%d+) (%d+) %d+$')
    return client and #ttl <= 15 and { member = member, score = score, popped = popped,
        field = client .. ':' .. id, id = id, ttl = ttl, tokens = tokens, floor = floor,
        inbox = 'hasplock_inbox:' .. client }
end

-- Removes the dead among the first `max` tickets (at most 1000): those whose client's inbox has no subscriber, before
-- the first live one, or with `all` also behind it. `hold` sent this command, so it is alive. Returns the first live
-- one, or nil; whether there may be more tickets; and how many were removed.
local function drop_dead(queue, max, hold, all)
    local tickets, waiters, inboxes = redis.pcall('zrange', queue, '0', max - 1, 'withscores'), {}, {}
    for i = 1, #tickets, 2 do
        if tonumber(tickets[i + 1]) >= 1e15 then -- a yield window, or tombstones
            break
        end
        local waiter = read_waiter(tickets[i], tickets[i + 1]) or { member = tickets[i], inbox = '' }
        waiters[#waiters + 1], inboxes[#inboxes + 1] = waiter, waiter.inbox
    end
    if not waiters[1] then
        return nil, false, 0
    end
    local there, first, dead = redis.pcall('pubsub', 'numsub', unpack(inboxes)), nil, {}
    for i, waiter in ipairs(waiters) do
        if waiter.field and (waiter.field == hold or there.err or there[2 * i] > 0) then
            first = first or waiter
            if not all then
                break
            end
        else
            dead[#dead + 1] = waiter.member
        end
    end
    local dropped = dead[1] and redis.pcall('zrem', queue, unpack(dead)) or 0
    if type(dropped) == 'table' then -- refused: they are still there, and the next step would find the same ones
        return first, false, 0
    end
    return first, #waiters == max, dropped
end

-- The first waiter whose client is alive; nil: none. Those before it are removed, up to 100,000 of them: else the live
-- one would not be woken. Each costs 4 us; lock_acquire keeps them few.
local function first_alive(queue, hold)
    local head, more = drop_dead(queue, 1, hold)
    for _ = 1, more and not head and STEPS or 0 do
        head, more = drop_dead(queue, 100, hold)
        if head or not more then
            break
        end
    end
    return head
end

-- Whether a ticket of this score was before the first live waiter, `head`, or there is none.
local function was_first(head, score)
    return not head or tonumber(score) < tonumber(head.score)
end

-- The last of `tokens` new fencing tokens, each larger than floor and than all before. If the key is no counter: nil
-- and an error reply, and nothing was written.
local function take_tokens(key, tokens, floor)
    local counter = redis.pcall('get', key) or '0'
    if type(counter) == 'table' then
        return nil, redis.error_reply(counter.err .. ': ' .. key)
    end
    local last = string.find(counter, '^-?%d+$') and tonumber(counter)
    if not last or last + tokens > 2 ^ 53 then -- Lua's numbers are doubles
        return nil, redis.error_reply('HASPLOCK the counter of tokens is no number, or too large: ' .. key)
    end
    if last < tonumber(floor) then
        redis.call('set', key, floor)
    end
    return redis.call('incrby', key, tokens)
end

local function put_back(queue, score, member)
    redis.pcall('zadd', queue, score, member)
    if (tonumber(redis.pcall('pttl', queue)) or 0) < 0 then -- it was the last entry: the key is a new one
        redis.pcall('pexpire', queue, '600000')
    end
end

-- The waiter keeps its ticket, and is sent `open`: it sends acquire itself.
local function refuse(queue, head)
    if head.popped then
        put_back(queue, head.score, head.member)
    end
    message(head, 'open', 0, 0)
    return false
end

-- The last token of the head's block. 0: it takes none, or has to send acquire for it, because the counter is not among
-- the keys of this script or is no counter.
local function token_of(head, token_key)
    if head.tokens == '0' or not token_key then
        return 0
    end
    local ok, last = pcall(take_tokens, token_key, head.tokens, head.floor)
    return ok and last and string.format('%.0f', last) or 0
end

-- The ttl of a grant, and how long its ticket was in the queue if that is a ms or more: "5000+650".
local function ttl_and_wait(head)
    local waited = math.floor(now_ms() - head.score / 100)
    return waited > 0 and head.ttl .. '+' .. waited or head.ttl
end

-- Gives the free lock to the head, with its tokens or without. False: refused. `brief`: the message does not say how
-- long the ticket was in the queue. The clock is read before the ttl is set: if the server stands still between the two
-- (6.2 and 7.0 read the clock anew for each command), the grant must not look later than its ttl began.
local function grant(lock, queue, head, token_key, brief)
    local ttl = brief and head.ttl or ttl_and_wait(head)
    local token = token_of(head, token_key)
    if not give(lock, head.field, head.ttl) then
        return refuse(queue, head)
    end
    if not head.popped then
        redis.pcall('zrem', queue, head.member)
    end
    message(head, 'grant', ttl, token)
    return true
end

-- The waiter that was taken out of the queue as its first entry, if it is alive; else nil. An entry that is no ticket
-- is put back.
local function popped_head(queue, popped)
    local member, score = popped[1], popped[2]
    if member and tonumber(score) >= 1e15 then
        put_back(queue, score, member)
        return nil
    end
    local head = member and read_waiter(member, score, true)
    return head and listeners(head.inbox) > 0 and head or nil
end

-- Gives the free lock to the first live waiter, else to the channel's subscribers. Subscribers sleep for as long as the
-- ttl that they read, so "0" is also published for a shorter one. `ttl`: what was left; -1: it had no ttl; nil: no ttl
-- that was read is left. `popped`: the queue's first entry and its score, if it was taken out already: mostly a waiter
-- that is alive.
local function pass(lock, queue, channel, token_key, ttl, popped, brief)
    local head = popped and popped_head(queue, popped) or first_alive(queue)
    local granted = head and grant(lock, queue, head, token_key, brief)
    local shorter = type(ttl) == 'number' and (ttl == -1 or ttl > tonumber(head and head.ttl or 0))
    if (not granted or shorter) and listeners(channel) > 0 then
        redis.pcall('publish', channel, '0')
    end
end
-- luacheck: pop
