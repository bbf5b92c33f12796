-- include_fair: which waiter gets a fair lock that is free, and which tickets in its queue are given up. Included by
-- the scripts that free it or find it free, after lock, queue, scores, notes and channel are set.
--
-- The queue is Redisson's list. A waiter is its field: "hlk-<...>:<hold id>" is hasplock's, any other one Redisson's. A
-- hasplock waiter is present if its client's inbox has a subscriber, and is granted the lock. A waiter of Redisson's
-- subscribes to "<channel>:<waiter>", is called there, and takes the lock by its own script, which it may do only as
-- the first. The queue's ttl, while a hasplock waiter is in it, outlasts the scores by 150 s or more.
--
-- A hasplock client without a subscriber keeps its tickets for 1 s, counted from the first pass that did not find it;
-- those behind it are served meanwhile. Its scores are set to the end of that second, so that Redisson's scripts do the
-- same. Then hasplock's next script, or Redisson's, removes its tickets at the head. A command of the client shows that
-- it lives. Behind such a ticket a waiter of Redisson's cannot take the lock. It waits for that second if another
-- hasplock waiter is subscribed, which is sent `fopen` and comes back for it. Else the tickets before it are removed at
-- once.
--
-- A waiter of Redisson's is present if its channel has a subscriber, or its score is not over. It is called and waited
-- for, counted from the first command that finds the lock free: 5 s if it is not subscribed (Redisson takes its place
-- first and subscribes then), 10 s if it is subscribed and does not come. Then it is removed, and with it those behind
-- it that are not subscribed either. When it becomes the first by a script of hasplock's, or a hasplock waiter polls
-- behind it, its score is lowered to clock + the lock's ttl + 5 min, which it would be among Redisson's alone. So it
-- loses the rest of a wait of more than 5 min. A second waiter of Redisson's is not looked at, and keeps the lead of
-- hasplock's.
--
-- The members of `notes`. The key lives for 10 min after the last tombstone, else for 60 s after the last note:
--   score < 0           "<field>": a tombstone, -(server's ms)
--   score below 1e12    "<field>": the ttl that a grant to this waiter sets, where that is not GRANT_MS. Each poll of
--                       the waiter writes it again
--   score above         a moment (server's ms). Until then "away <client id>" keeps the tickets of a hasplock client
--                       that is not subscribed. It is removed when a waiter of the client gets the lock or leaves, and
--                       by the next command of the client that waits. "called <waiter> <score>" and "absent ...":
--                       Redisson's first waiter of a free lock is waited for
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)
local GRANT_MS, AWAY_MS, ABSENT_MS, CALLED_MS = '5000', 1000, 5000, 10000
local PATIENCE_MS = 300000 -- of Redisson's waiters, for each place
local CHUNK, CHUNKS = 1000, 10 -- how much of the queue one run looks through
local STALE_MS = 10000 -- if that moment is so long ago, the client is away anew

local now
local function now_ms()
    if not now then
        local time = redis.call('time')
        now = time[1] * 1000 + math.floor(time[2] / 1000)
    end
    return now
end

local function client_of(waiter) -- nil: a waiter of Redisson's
    return string.match(waiter, '^(hlk%-.*):%d+$')
end

local function listens(name) -- true, false; nil: this user may not count subscribers
    local there = redis.pcall('pubsub', 'numsub', name)
    if not there.err then
        return there[2] > 0
    end
end

local function send(waiter, what, ttl)
    local client, id = string.match(waiter, '^(.*):(%d+)$')
    redis.pcall('publish', 'hasplock_inbox:' .. client, what .. ' ' .. id .. ' ' .. ttl .. ' 0 ' .. lock)
end

local function score_of(zset, member) -- nil: none
    return tonumber(redis.pcall('zscore', zset, member))
end

-- A note, which lives for `ms` at least. A key of another type stays as it is.
local function remember(member, score, ms)
    local added = redis.pcall('zadd', notes, score, member)
    if type(added) == 'number' and (tonumber(redis.pcall('pttl', notes)) or 0) < ms then
        redis.pcall('pexpire', notes, ms)
    end
end

-- With the note that the client is away: one that was granted the lock, or left, was there.
local function remove(waiters)
    for _, waiter in ipairs(waiters) do
        redis.pcall('lrem', queue, '1', waiter)
        redis.pcall('zrem', scores, waiter)
        redis.pcall('zrem', notes, waiter, 'away ' .. (client_of(waiter) or ''))
    end
end

-- The first waiter is Redisson's, with this score. Returns the score, lowered to what it can be among Redisson's alone:
-- behind hasplock's it includes the lead of those.
local function lowered(waiter, score)
    local most = now_ms() + PATIENCE_MS
    if not score or score <= most then
        return score
    end
    most = most + math.max(0, tonumber(redis.pcall('pttl', lock)) or 0)
    if score > most then
        redis.pcall('zadd', scores, 'XX', string.format('%.0f', most), waiter)
    end
    return math.min(score, most)
end

-- The first waiter, if it is Redisson's; else nil. Redisson sets no ttl on the queue. hasplock does, and it must not
-- end while all waiters are Redisson's.
local function first_is_redissons()
    local first = redis.pcall('lindex', queue, '0')
    if type(first) ~= 'string' or client_of(first) then
        return nil
    end
    redis.pcall('persist', queue)
    redis.pcall('persist', scores)
    lowered(first, score_of(scores, first))
    return first
end

-- A hasplock client has got the lock. If the first waiter is Redisson's, it may sleep for the longer ttl of an earlier
-- holder.
local function taken()
    local first = first_is_redissons()
    if first then
        redis.pcall('publish', channel .. ':' .. first, '0')
    end
end

-- The ttl of the grant; nil: refused, and the waiter is sent `fopen`: it sends acquire itself.
local function grant(waiter)
    local ttl = score_of(notes, waiter)
    ttl = ttl and ttl > 0 and ttl < 1e12 and string.format('%.0f', ttl) or GRANT_MS
    local set = redis.pcall('hset', lock, waiter, '1')
    if type(set) == 'table' then
        send(waiter, 'fopen', 0)
        return nil
    end
    redis.pcall('pexpire', lock, ttl)
    remove({ waiter })
    send(waiter, 'fgrant', ttl)
    taken()
    return tonumber(ttl)
end

-- Whether a hasplock client is present. true: it is subscribed; a moment: it is not, and its tickets are kept until
-- then; false: its tickets are given up.
local function look(client)
    if listens('hasplock_inbox:' .. client) ~= false then
        return true
    end
    local until_ms = score_of(notes, 'away ' .. client)
    if not until_ms or until_ms < now_ms() - STALE_MS or until_ms > now_ms() + AWAY_MS then
        until_ms = now_ms() + AWAY_MS -- anew: long ago, or the server's clock was set back
        remember('away ' .. client, until_ms, 60000)
    elseif until_ms <= now_ms() then
        redis.pcall('zrem', notes, 'away ' .. client)
        return false
    end
    return until_ms
end

local seen = {}
local function is_there(client)
    if seen[client] == nil then
        seen[client] = look(client)
    end
    return seen[client]
end

-- The lock is free, and the first waiter is Redisson's: how long it is still waited for, counted from the first command
-- that finds it so. 0: it is given up. A waiter that is not subscribed, behind one that was given up, has had the same
-- time.
local in_vain = false
local function chance_of(waiter, score, hears)
    if hears == false and in_vain then
        return 0
    end
    local what = (hears == false and 'absent ' or 'called ') .. waiter .. ' ' .. string.format('%.0f', score or 0)
    local until_ms, ms = score_of(notes, what), hears == false and ABSENT_MS or CALLED_MS
    if not until_ms or until_ms > now_ms() + ms then -- later: the server's clock was set back
        until_ms = now_ms() + ms
        redis.pcall('zremrangebyscore', notes, '1e12', now_ms() - STALE_MS)
        remember(what, until_ms, 60000)
        if hears ~= false then
            redis.pcall('publish', channel .. ':' .. waiter, '0')
        end
    elseif until_ms <= now_ms() then
        redis.pcall('zrem', notes, what)
    end
    in_vain = hears == false
    return math.max(0, until_ms - now_ms())
end

-- Whether a waiter of Redisson's is present. One whose score is over and that is not subscribed is not, as with
-- Redisson. For a free lock also how long it is waited for, if `caller` can wait, and whether it is subscribed.
local function redissons_is_there(waiter, caller, held)
    local score, hears = score_of(scores, waiter), nil
    local over = score and score <= now_ms()
    if over or not held then
        hears = listens(channel .. ':' .. waiter)
    end
    if over and not hears then
        return false
    end
    score = caller and lowered(waiter, score) or score
    local ms = caller and not held and chance_of(waiter, score, hears) or 1
    return ms > 0, ms, hears
end

-- The clients of these waiters are away. If no script of hasplock's looks again, Redisson's scripts remove them by
-- their scores, after the same second.
local function keep(waiters, untils)
    local args = {}
    for i = 1, math.min(#waiters, CHUNK) do
        args[2 * i - 1], args[2 * i] = string.format('%.0f', untils[i]), waiters[i]
    end
    if #args > 0 then
        redis.pcall('zadd', scores, 'XX', 'LT', unpack(args))
    end
end

-- Finds the first waiter that is present; `caller` and all waiters of its client are. Dead ones before it are removed.
-- Returns it (nil: none), how many tickets before it are kept, until when the first of these is, and, for a waiter of
-- Redisson's, how long it is waited for, and whether it is subscribed.
local function find_first(caller, held)
    local gone, kept, untils, first, ms, hears = {}, {}, {}, nil, nil, nil
    local own, from, to = caller and client_of(caller), 0, 9
    for _ = 0, CHUNKS do
        local some = redis.pcall('lrange', queue, from, to)
        for _, waiter in ipairs(some) do
            local client, there = client_of(waiter), waiter == caller
            if not there and client then
                there = client == own or is_there(client)
            elseif not there then
                there, ms, hears = redissons_is_there(waiter, #kept == 0 and caller, held)
            end
            if there == true then
                first = waiter
                break
            elseif there then
                kept[#kept + 1], untils[#untils + 1] = waiter, there
            else
                gone[#gone + 1] = waiter
            end
        end
        if first or #some <= to - from then
            break
        end
        from, to = to + 1, to + CHUNK
    end
    remove(gone)
    keep(kept, untils)
    return first, #kept, untils[1], ms, hears
end

-- A hasplock waiter that is present; nil: none.
local function somebody_of_ours()
    for _, waiter in ipairs(redis.pcall('lrange', queue, '0', CHUNK * CHUNKS)) do
        local client = client_of(waiter)
        if client and is_there(client) == true then
            return waiter
        end
    end
end

-- The lock is free, the first waiter that is present is Redisson's, and this script has no caller that waits. The
-- waiter cannot take the lock if it is not the first in the list, and may be dead if it is not subscribed. Then a
-- hasplock waiter has to come back for it.
local function call(waiter, kept, hears)
    local ours = (kept > 0 or hears == false) and somebody_of_ours()
    if ours then
        send(ours, 'fopen', 0)
        return
    end
    if kept > 0 then
        remove(redis.pcall('lrange', queue, '0', kept - 1))
    end
    first_is_redissons()
    redis.pcall('publish', channel .. ':' .. waiter, '0')
end

-- The lock is free. `caller` sent an acquire; nil: none. Returns the caller if it may take the lock; or the new holder,
-- and its ttl; or '' for no holder, and how long that may last.
local function pass(caller)
    local first, kept, kept_until, ms, hears = find_first(caller, false)
    if not first or first == caller then
        return caller
    end
    local client = client_of(first)
    if client and caller and client == client_of(caller) and is_there(client) ~= true then
        return '', AWAY_MS -- it is subscribing, and all its waits send acquire then, the first of them first
    end
    if client then
        ms = grant(first)
        return ms and first or '', ms or 0
    end
    if not caller then
        call(first, kept, hears)
    elseif kept > 0 then
        ms = math.max(1, kept_until - now_ms())
    end
    return '', ms
end
-- luacheck: pop
