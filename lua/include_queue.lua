-- include_queue: what is in the queue of a lock beside tickets: a yield window ("open") and tombstones, each with a
-- moment. Included before include_pass and include_rw.
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

-- A yield window lasts 1 s at most. If its end is further ahead than this, the server's clock was set back since, and
-- the window is over (docs/decisions/small.md, Clock).
local WINDOW_MS = 5000

local function now_ms()
    local time = redis.call('time')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- How long the yield window lasts whose score is `open` (nil: there is none). 0: it is over.
local function window_ms(open)
    local left = (tonumber(open) or 0) - 1e15
    left = left > 0 and left - now_ms() or 0
    return left <= WINDOW_MS and math.max(left, 0) or 0
end

-- A tombstone, or a yield window. The queue lives for `ms` more at least. A key of another type stays as it is.
local function add(queue, score, member, ms)
    local added = redis.pcall('zadd', queue, string.format('%.0f', score), member)
    if type(added) == 'number' and (tonumber(redis.pcall('pttl', queue)) or ms) < ms then
        redis.pcall('pexpire', queue, ms)
    end
end

-- `hold` has ended: a late attempt of its acquire finds the tombstone. Those that are older than `ms` are removed. The
-- queue lives for `lives` ms more at least (nil: `ms`). write: redis.call if a refusal is to be the script's reply.
local function leave_tombstone(write, queue, hold, ms, lives)
    local now = now_ms()
    write('zremrangebyscore', queue, 2e15, string.format('%.0f', 2e15 + now - ms))
    add(queue, 2e15 + now, hold, lives or ms)
end

local function open_window(queue, ms, lives)
    add(queue, 1e15 + now_ms() + ms, 'open', lives or ms)
end
-- luacheck: pop
