-- include_kind: which kind of lock a name is, by the type and the form of its key, and by the keys and subscribers
-- beside it. Included behind include_held and include_rw_held. Changes nothing. A key or a command that this user may
-- not use says nothing.
--
-- A lock that is a hash is a fair one if a queue of fair waiters is there: without one it is the same as a plain lock.
-- A string is a string lock if hasplock holds it or waits for it. A number is permits with leases if one of them is
-- held, or if an acquire of hasplock has set it; a latch or a semaphore if somebody waits for it, or if its queue has
-- what only they write. Else it may be any of the three, or other data.
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

-- enum hlk_lock_kind, and enum hlk_found_kind
local PLAIN, FAIR, STRING, READ, WRITE, PERMIT = 0, 2, 6, 7, 8, 9
local SEMAPHORE, LATCH, BARRIER, CONDITION = 23, 24, 25, 26
local NUMBER, SOME_STRING, OTHER, NOTHING = 32, 33, 34, -1

local SET_HERE_MS = 1576800000000 -- half of the ttl that marks a number that an acquire has set: include_leases
local NO_END = 922337203685477 -- the end of a lease that does not end

local function number(answer)
    return type(answer) == 'number' and answer or 0
end

-- As src/script/keys.c names them.
local function key_of(prefix, name, bare_prefix)
    if string.find(name, '{', 1, true) then
        return (bare_prefix or prefix) .. name
    end
    return prefix .. '{' .. name .. '}'
end

-- How many clients are subscribed to these channels.
local function listeners(...)
    local answer, sum = redis.pcall('pubsub', 'numsub', ...), 0
    for i = 2, answer.err and 0 or #answer, 2 do
        sum = sum + answer[i]
    end
    return sum
end

local function queued(name)
    return number(redis.pcall('zcount', key_of('hasplock_queue:', name, 'hasplock_queue::'), 1, 1e15))
end

local clock
local function clock_ms()
    local time = clock or redis.call('time')
    clock = time
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- How many wait at the barrier, and at the condition, of that name.
local function at_barrier(name)
    return number(redis.pcall('zcount', key_of('hasplock_arrived:', name, 'hasplock_arrived::'), clock_ms(), '+inf'))
end

local function at_condition(name)
    return number(redis.pcall('zcount', key_of('hasplock_condition:', name, 'hasplock_condition::'), '-inf', '+inf'))
end

-- The permits of `name` that are held with a lease; nil: none. `free`: as its key says.
local function leased(name, free)
    local leases, now = key_of('', name) .. ':timeout', clock_ms()
    local count = number(redis.pcall('zcount', leases, '(' .. now, '+inf'))
    local last = count > 0 and redis.pcall('zrange', leases, '0', '0', 'rev', 'withscores') or {}
    local ends = tonumber(last[2])
    if ends then
        return { kind = PERMIT, holder = string.gsub(last[1], '%z', '?'), count = count, number = free,
            ttl = ends >= NO_END and -1 or ends - now }
    end
end

-- `held`: all fields and values of the hash `name`. nil: it is no lock.
local function kind_of_hash(name, held)
    if not no_lock(held) then
        local fair = redis.pcall('exists', key_of('redisson_lock_queue:', name)) == 1
        return { kind = fair and FAIR or PLAIN, holder = held[1], count = tonumber(held[2]) }
    elseif no_rw_lock(held) then
        return nil
    end
    local found = { kind = READ, count = 0 }
    for i = 1, #held, 2 do
        if held[i] == 'mode' and held[i + 1] == 'write' then
            found.kind = WRITE
        end
    end
    for i = 1, #held, 2 do
        local hold, writes = string.gsub(held[i], ':write$', '')
        if held[i] ~= 'mode' and (writes == 1) == (found.kind == WRITE) then
            found.holder, found.count = hold, found.count + tonumber(held[i + 1])
        end
    end
    return found.holder and found
end

-- What waits for a number, or has waited.
local function kind_of_number(name)
    local queue = key_of('hasplock_queue:', name, 'hasplock_queue::')
    if listeners('redisson_countdownlatch__channel__{' .. name .. '}', 'redisson_countdownlatch__channel__' .. name) > 0
        or type(redis.pcall('zscore', queue, 'opened')) == 'string' then
        return LATCH
    elseif listeners(key_of('redisson_sc:', name)) > 0 or number(redis.pcall('zcount', queue, '-inf', '+inf')) > 0 then
        return SEMAPHORE
    end
    return NUMBER
end

local function number_in(text)
    return #text <= 16 and string.find(text, '^%-?%d+$') and tonumber(text)
end

local function is_hold(text)
    return string.find(text, '^hlk%-.*:%d+$')
end

-- `text`: the string `name`, or the beginning of it.
local function kind_of_string(name, text)
    local free = number_in(text)
    if is_hold(text) then
        return { kind = STRING, holder = text, count = 1 }
    elseif not free then
        text = text == '' and '(empty)' or string.gsub(string.sub(text, 1, 191), '%z', '?')
        return { kind = queued(name) > 0 and STRING or SOME_STRING, holder = text, count = 1 }
    end
    local set_here = number(redis.pcall('pttl', name)) > SET_HERE_MS
    return leased(name, free) or { kind = set_here and PERMIT or kind_of_number(name), count = 0, number = free }
end
-- luacheck: pop
