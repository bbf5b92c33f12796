-- include_listens: which clients of ours listen to the channel of the permits: those with a waiter to which an acquire
-- has said so. A yield window is for others. Included by the scripts of permits.
--
-- The queue has a note "listens <client id>" for each, with the score 3e15 + the moment until which it is taken to
-- listen. A waiter asks once a second, and its client listens for 100 ms after the wait. So an acquire notes 1.1 s.
-- When the waiter is granted a permit after a wait of more than 100 ms, the note ends 100 ms later. A moment that is
-- further ahead than 5 s does not count: it was written before the server's clock was set back. With only notes left
-- the queue ends with them.
-- luacheck: push ignore 211 431

local LISTEN_MS, LINGER_MS = 1100, 100

-- `noted`: its score so far. Each client writes it twice a second at most.
local function note_listener(queue, listens, noted, now)
    local left = (tonumber(noted) or 0) - 3e15 - now
    if left < LISTEN_MS - 500 or left > LISTEN_MS then
        redis.pcall('zadd', queue, string.format('%.0f', 3e15 + now + LISTEN_MS), listens)
    end
end

-- The wait of `holder` is over. Its client listens no more, unless another wait of it asks again.
local function note_silence(queue, holder, now)
    local client = string.match(holder, '^(.*):%d+$')
    redis.pcall('zadd', queue, 'xx', string.format('%.0f', 3e15 + now + LINGER_MS), 'listens ' .. (client or ''))
end

-- Removes old notes. If nothing but notes is left the queue ends with them, and then an acquire is fast again.
local function drop_silent(queue, now)
    redis.pcall('zremrangebyscore', queue, 3e15, '(' .. string.format('%.0f', 3e15 + now))
    local first = redis.pcall('zrange', queue, '0', '0', 'withscores')
    if first[2] and tonumber(first[2]) >= 3e15 then
        redis.pcall('pexpire', queue, LISTEN_MS)
    end
end
-- luacheck: pop
