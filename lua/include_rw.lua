-- include_rw: the holders of a read/write lock, and which waiters get it next. Included by the scripts that need
-- either, behind include_queue and after lock and queue are set.
--
-- The lock is Redisson's hash: "mode" is "read" or "write"; "<hold>" counts a reader's holds, "<hold>:write" the
-- writer's. A reader has a key of its own, whose ttl is its lease: key_of(<hold>). The ttl of the hash is the longest
-- of all leases. Redisson has a key for each nested hold of a reader, hasplock one for each reader: nested holds raise
-- it. Redisson finds it when it looks for the longest lease that remains, and hasplock looks at all of Redisson's.
--
-- A message has all holds of a client, up to HOLDS_MAX: "rgrant <id> <ttl>[+<waited>],<id> <ttl>[+<waited>] 0 <lock>".
-- It goes to the first waiters that are alive; dead ones before them are removed.
--
-- A ticket in the queue is "<client id>:<hold id> <ttl> 0 0 <since> <kind>", kind "r" or "w"; else the queue is as for
-- a plain lock (lock_acquire).
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)
local CHUNK, CHUNKS = 100, 1000 -- tickets that one step looks at, and how many steps
local COUNT_MAX = 20 -- nested holds of a reader whose keys are looked at: a count may be any number
local HOLDS_MAX = 64 -- holds in a message
local SAMPLE = 8 -- fields that a release looks at (one may be `mode`), if a lease among them is long enough
local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
local channel = 'redisson_rwlock:' .. tag

local function key_of(field, i)
    return tag .. ':' .. field .. ':rwlock_timeout:' .. (i or '1')
end

-- The reader's keys of a field whose value is `count`: the first COUNT_MAX of them. The others run out by themselves.
local function keys_of(field, count)
    local keys = {}
    for i = 1, math.min(tonumber(count) or 0, COUNT_MAX) do
        keys[i] = key_of(field, i)
    end
    return keys
end

-- "read" or "write"; nil: the lock is free; "other": the key is something else.
local function mode_of()
    local mode = redis.pcall('hget', lock, 'mode')
    if mode == 'read' or mode == 'write' then
        return mode
    end
    return (mode or redis.pcall('exists', lock) ~= 0) and 'other' or nil
end

local function raise(key, ttl)
    if (tonumber(redis.pcall('pttl', key)) or 0) < tonumber(ttl) then
        redis.pcall('pexpire', key, ttl)
    end
end

-- The number of subscribers; 1 if this user may not count them. Redisson's waiters subscribe to the lock's channel, and
-- a hasplock waiter behind one of them.
local function listeners()
    local there = redis.pcall('pubsub', 'numsub', channel)
    return there.err and 1 or there[2]
end

-- "1" wakes all threads of a Redisson client that sleep when it arrives. A thread that was told that the lock is held,
-- and does not sleep yet, misses it, and then sleeps for the ttl that it was told. "0" is kept for the next thread of
-- the client that comes to sleep. That thread asks again, and its release wakes the others.
local function wake_redisson()
    redis.pcall('publish', channel, '1')
    redis.pcall('publish', channel, '0')
end

local function send(client, what)
    redis.pcall('publish', 'hasplock_inbox:' .. client, what .. ' 0 ' .. lock)
end

-- The lock is given to `hold`, which does not have it. Beside its own write hold a reader leaves the mode as it is.
-- Nil: the server refuses the write, and there are no more holders than before.
local function put(kind, hold, ttl, mode)
    local set
    if kind == 'w' then
        set = redis.pcall('hset', lock, 'mode', 'write', hold .. ':write', '1')
    else
        set = redis.pcall('set', key_of(hold), '1', 'px', ttl)
        if not set.err then
            set = redis.pcall('hset', lock, 'mode', mode or 'read', hold, '1')
        end
    end
    if type(set) == 'table' and set.err then
        return nil
    end
    raise(lock, ttl)
    return true
end

-- The longest lease of the readers among `fields`, which are fields and values of the hash. Those whose lease is over
-- are removed. It ends at one of `enough` ms, and at a reader with more holds than are looked at.
local function longest_of(fields, enough)
    local longest = 0
    for i = 1, #fields, 2 do
        local count, lease = tonumber(fields[i + 1]), 0
        for _, key in ipairs(keys_of(fields[i], count)) do
            lease = math.max(lease, tonumber(redis.pcall('pttl', key)) or 0)
        end
        if count and lease == 0 then
            redis.pcall('hdel', lock, fields[i])
        end
        longest = math.max(longest, count and count > COUNT_MAX and enough or lease)
        if longest >= enough then
            break
        end
    end
    return longest
end

-- A reader of several has left, and the ttl of the hash is `ttl`. It stays if SAMPLE fields at random show one lease of
-- two thirds of it or more: should all readers die, the hash lives longer than their longest lease by a half of that at
-- most. Else it becomes the longest lease of all. Returns the new ttl; 0: no reader is left, and nor is the hash.
local function shorten(ttl)
    local some, enough = redis.pcall('hrandfield', lock, SAMPLE, 'withvalues'), ttl * 2 / 3
    local longest = longest_of(some, enough)
    if longest < enough and (some.err or #some == 2 * SAMPLE) then -- there are more
        local all = redis.pcall('hgetall', lock)
        longest = all.err and ttl or longest_of(all, enough)
    end
    if longest >= enough then
        return ttl
    elseif longest == 0 then
        redis.pcall('del', lock)
    else
        redis.pcall('pexpire', lock, string.format('%.0f', longest))
    end
    return longest
end

-- The parts of a ticket; nil: the entry is no ticket.
local function read_waiter(member, score)
    local client, id, ttl, kind = string.match(member, '^(.*):(%d+) (%d+) %d+ %d+ %d+ ([rw])$')
    return client and { client = client, id = id, ttl = ttl, kind = kind, hold = client .. ':' .. id, score = score }
end

-- The next tickets, and which of their clients are subscribed to their inboxes.
local function look()
    local tickets, waiters, inboxes = redis.pcall('zrange', queue, '0', CHUNK - 1, 'withscores'), {}, {}
    for i = 1, #tickets, 2 do
        if tonumber(tickets[i + 1]) >= 1e15 then -- a yield window, or tombstones
            break
        end
        local waiter = read_waiter(tickets[i], tickets[i + 1]) or {}
        local client = waiter.client or ''
        waiter.member = tickets[i]
        waiters[#waiters + 1], inboxes[#inboxes + 1] = waiter, 'hasplock_inbox:' .. client
    end
    local there = waiters[1] and redis.pcall('pubsub', 'numsub', unpack(inboxes)) or {}
    for i, waiter in ipairs(waiters) do
        waiter.there = waiter.hold and (there.err or there[2 * i] > 0)
    end
    return waiters
end

-- One message for each client with all its holds.
local function send_grants(waiters, time)
    local texts, order = {}, {}
    for _, waiter in ipairs(waiters) do
        local waited = math.floor(time - waiter.score / 100)
        local part = waiter.id .. ' ' .. waiter.ttl .. (waited > 0 and '+' .. string.format('%.0f', waited) or '')
        local to = texts[waiter.client]
        if not to or #to == HOLDS_MAX then
            to = { client = waiter.client, what = waiter.kind .. 'grant ' }
            texts[waiter.client], order[#order + 1] = to, to
        end
        to[#to + 1] = part
    end
    for _, to in ipairs(order) do
        send(to.client, to.what .. table.concat(to, ','))
    end
end

-- Gives what the mode leaves free to the first live waiters: the lock to a writer, or to all readers before the next
-- writer. Those that are dead before them are removed. `caller` sent this command: it is alive, and gets no message.
-- Returns the mode (mode_of), the first live waiter that is still in the queue (nil: none), and how many were
-- granted. The clock is read before the ttls are set: a grant must not look later than its ttl began. `mode` "other":
-- nothing is given, and it only finds the first.
local function pass(caller, mode)
    local granted, head, n = {}, nil, 0
    mode = mode or mode_of()
    local time
    for _ = 1, CHUNKS do
        local gone, waiters = {}, look()
        time = time or waiters[1] and now_ms()
        for _, waiter in ipairs(waiters) do
            if waiter.there or waiter.hold and waiter.hold == caller then
                local blocked = mode and (mode ~= 'read' or waiter.kind == 'w')
                if not blocked and not put(waiter.kind, waiter.hold, waiter.ttl) then
                    send(waiter.client, waiter.kind .. 'open ' .. waiter.id .. ' 0') -- it sends acquire itself
                    blocked = true
                end
                if blocked then
                    head = waiter
                    break
                end
                mode, n = waiter.kind == 'w' and 'write' or 'read', n + 1
                if waiter.hold ~= caller then
                    granted[#granted + 1] = waiter
                end
            end
            gone[#gone + 1] = waiter.member
        end
        local removed = gone[1] and redis.pcall('zrem', queue, unpack(gone)) or 0
        if head or #waiters < CHUNK or type(removed) == 'table' then -- refused: the next step would find the same ones
            break
        end
    end
    if granted[1] then
        send_grants(granted, time)
    end
    return mode, head, n
end

-- For a waiter: a holder, and whether one of them is Redisson's, which calls waiters on the channel only.
local function holders(mode)
    local holder, foreign = '', 0
    for _, field in ipairs(redis.call('hkeys', lock)) do
        local writes = string.sub(field, -6) == ':write'
        if field ~= 'mode' and (holder == '' or writes and mode == 'write') then
            holder = writes and string.sub(field, 1, -7) or field
        end
        if field ~= 'mode' and string.sub(field, 1, 4) ~= 'hlk-' then
            foreign = 1
        end
    end
    return holder, foreign
end
-- luacheck: pop
