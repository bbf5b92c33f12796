-- include_condition: who waits at a condition, who is signalled next, and whose signal is passed on. Included by its
-- scripts, after waiters and leases are set.
--
-- A waiter is "<client id>:<number>", a new one for each wait. It listens to its own channel, "<waiters>:<waiter>".
-- waiters, a zset: those that wait for a signal. Score: the order in which they came, the server's us, and larger than
--                  all before
-- leases, a zset:  those, and the ones that were signalled and do not hold their lock again yet. Score: when the lease
--                  ends, the server's ms
--
-- So one that is in `leases` alone was signalled; its channel got its number. It leaves when it holds its lock again
-- (condition_done). If its lease ends before that, its signal is passed on to the next waiter. One that is in neither
-- key is awake: a broadcast removes all, and a server that lost its data has none. Both keys end 10 min, or two leases,
-- after the last command of a waiter.
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

local KEEP_MS = 600000 -- how long the keys live after the last command
local LONGEST_MS = 86400000 -- of a lease. One that ends later than this was written before the clock was set back
local FEW, CHUNK, CHUNKS = 8, 100, 10 -- how many waiters the first look sees, and each of the next ones
local SWEPT = 16 -- leases that are over, of one run

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
    return string.format('%.0f', number)
end

local function is_over(ends)
    ends = tonumber(ends or 0)
    return ends < now or ends > now + LONGEST_MS
end

-- The first `n` waiters that listen; if there are fewer, also the first ones that do not: one that has just come
-- listens a moment later. Second: those whose lease is over, as far as it has looked. `caller` (nil: none) is alive.
local function choose(n, caller)
    local chosen, others, dead = {}, {}, {}
    local from, to = 0, FEW - 1
    for _ = 0, CHUNKS do
        local some, channels = redis.call('zrange', waiters, from, to), {}
        for i, waiter in ipairs(some) do
            channels[i] = waiters .. ':' .. waiter
        end
        local ends = some[1] and redis.call('zmscore', leases, unpack(some))
        local there = some[1] and redis.pcall('pubsub', 'numsub', unpack(channels))
        for i, waiter in ipairs(some) do
            if waiter ~= caller and is_over(ends[i]) then
                dead[#dead + 1] = waiter
            elseif #chosen < n and (there.err or there[2 * i] > 0) then
                chosen[#chosen + 1] = waiter
            else
                others[#others + 1] = waiter
            end
        end
        if #chosen == n or #some <= to - from then
            break
        end
        from, to = to + 1, to + CHUNK
    end
    for i = 1, math.min(n - #chosen, #others) do
        chosen[#chosen + 1] = others[i]
    end
    return chosen, dead
end

-- Leases that are over, but for the caller's: of dead waiters, and of dead ones that were signalled.
local function find_over(caller)
    local over = redis.call('zrangebyscore', leases, '-inf', '(' .. text(now), 'limit', '0', SWEPT)
    if not over[1] then
        over = redis.call('zrangebyscore', leases, '(' .. text(now + LONGEST_MS), '+inf', 'limit', '0', SWEPT)
    end
    local since, dead, owed = over[1] and redis.call('zmscore', waiters, unpack(over)), {}, {}
    for i, waiter in ipairs(over) do
        if waiter ~= caller then
            local to = since[i] and dead or owed
            to[#to + 1] = waiter
        end
    end
    return dead, owed
end

local function remove(write, key, ...)
    local all = {}
    for _, some in ipairs({ ... }) do
        for _, waiter in ipairs(some) do
            all[#all + 1] = waiter
        end
    end
    if all[1] then
        write('zrem', key, unpack(all))
    end
end

local function publish(waiter)
    redis.pcall('publish', waiters .. ':' .. waiter, string.match(waiter, '%d+$'))
end

-- The chosen ones are signalled, the dead ones are gone. write: redis.call for the first write of a script.
local function signal(write, chosen, dead)
    remove(write, waiters, chosen, dead)
    remove(redis.pcall, leases, dead)
    for _, waiter in ipairs(chosen) do
        publish(waiter)
    end
end

local function keep(ms)
    for _, key in ipairs({ waiters, leases }) do
        redis.pcall('pexpire', key, text(math.max(KEEP_MS, 2 * ms)))
    end
end
-- luacheck: pop
