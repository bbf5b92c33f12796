-- include_barrier: the generation of a barrier. Included by its scripts, after barrier, arrived and channel are set.
--
-- barrier, a hash:
--   gen, data           number of the generation that is under way, and of the first one of this data. That is the
--                       server's us, and the next ones follow, so that no number comes twice
--   parties, here       for how many the parties that have arrived wait, and how many have
--   lost                the last generation in which some had arrived that are not known any more
--   <client id>:<slot>  a party, and its last wait: "<hold> <gen> <index> <ms>". When that generation is broken it
--                       becomes "<hold> broken <gen> <ms> <word> <party>": why, and who broke it. The words: timeout,
--                       cancelled, left, died, reset. "<hold> left 0 <ms>": the wait has ended
-- arrived, a zset: the parties that have arrived in `gen`, and when their leases end (server's ms)
-- channel: "<gen>": it has passed; "broken <gen>"
--
-- Both keys end 10 min, or two leases, after the last command. If the zset does not have as many as `here` says, the
-- server has lost it (an eviction). Each script that writes first makes that generation `lost`: a party that arrived in
-- it, or earlier, and has not learned how it ended, is broken. A generation that is broken is written into the record
-- of each party that has arrived. Then the next one is under way, and the channel gets `broken <gen>`.
-- luacheck: push ignore 211 431 (each script uses some of these, and has variables of the same names)

local KEEP_MS = 600000 -- how long the keys live after the last command
local CHUNK = 500 -- parties of one command
local LOOKS, SPARE = 16, 100 -- fields that a run looks at, if there are more than these beside twice the parties

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function text(number)
    return string.format('%.0f', number)
end

-- The generation under way (nil: there is none), how many have arrived in it, the last one that was lost, and the first
-- one, as text.
local function state()
    local numbers = redis.call('hmget', barrier, 'gen', 'here', 'lost', 'data')
    return tonumber(numbers[1] or nil), tonumber(numbers[2] or 0), tonumber(numbers[3] or 0), numbers[4]
end

-- A party's last wait: its number; its generation, or "broken", "left"; and the rest. nil: there was none.
local function last_wait(party)
    local record = redis.call('hget', barrier, party)
    local hold, what, rest = string.match(record or '', '^(%d+) (%S+) (.*)$')
    return tonumber(hold), what, rest
end

-- The reply about a wait that has arrived, by its record; nil: its generation is under way.
local function outcome(mine, rest, gen, lost)
    local number = tonumber(mine)
    if mine == 'broken' then
        local broken, why = string.match(rest, '^(%d+) %d+ (.*)$')
        return { 2, broken, why }
    elseif number > gen or number <= lost then
        return { 2, mine, 'lost -' }
    elseif number < gen then
        return { 1, mine, tonumber(string.match(rest, '^%d+')) }
    end
end

-- `gen` is over, and the next one begins. A number alone says that it has passed. Else the waiting parties ask.
local function next_generation(gen, told)
    redis.call('hset', barrier, 'gen', text(gen + 1), 'here', '0')
    redis.pcall('del', arrived)
    redis.pcall('publish', channel, told .. text(gen))
end

-- The server has lost one of the two keys. Returns what `state` does.
local function lose(gen)
    redis.call('hset', barrier, 'lost', text(gen))
    next_generation(gen, 'broken ')
    return gen + 1, 0, gen
end

-- `party` of `gen` will not come. Each party that has arrived has that in its record. Returns the reason.
local function break_generation(gen, word, party)
    local why = word .. ' ' .. party
    for at = 0, redis.call('zcard', arrived) - 1, CHUNK do
        local members, args = redis.call('zrange', arrived, at, at + CHUNK - 1), {}
        for i, record in ipairs(redis.call('hmget', barrier, unpack(members))) do
            args[2 * i - 1] = members[i]
            args[2 * i] = (string.match(record or '', '^%d+') or '0') .. ' broken ' .. text(gen) .. ' ' .. text(now) ..
                ' ' .. why
        end
        redis.call('hset', barrier, unpack(args))
    end
    next_generation(gen, 'broken ')
    return why
end

-- A party of a new name has come. Those whose clients are gone leave no more than a few of them behind.
local function forget_old(gen, parties)
    local fields = redis.call('hlen', barrier) > 2 * parties + SPARE and
        redis.pcall('hrandfield', barrier, LOOKS, 'withvalues') or {}
    for i = 1, #fields, 2 do
        local mine, ms = string.match(fields[i + 1], '^%d+ (%d+) %d+ (%d+)$')
        ms = ms or string.match(fields[i + 1], '^%d+ %a+ %d+ (%d+)')
        if ms and mine ~= text(gen) and tonumber(ms) < now - KEEP_MS then
            redis.pcall('hdel', barrier, fields[i])
        end
    end
end

local function keep(ms)
    for _, key in ipairs({ barrier, arrived }) do
        redis.pcall('pexpire', key, text(math.max(KEEP_MS, 2 * ms)))
    end
end
-- luacheck: pop
