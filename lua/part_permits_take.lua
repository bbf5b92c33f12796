-- part_permits_take: may this waiter take permits now; if not, its ticket. Included by the scripts that acquire, behind
-- part_permits.
-- luacheck: push ignore 211 431

-- Do `free` permits suffice for n, and for those before the ticket of `hold`? Without a ticket all are before it.
local function may_take(queue, free, n, hold)
    local left, at, size = free - n, 0, 2
    while left >= 0 do
        local alive, read = tickets(queue, at, size, hold)
        for _, ticket in ipairs(alive) do
            if ticket.field == hold then
                return true
            end
            left = left - ticket.n
            if left < 0 then
                return false
            end
        end
        if read < size then
            return true
        end
        at, size = at + #alive, 50
    end
    return false
end

-- The position of the ticket `member` of `hold`, which is taken if it is not there. `called`: it was called, and
-- somebody else was faster.
local function take_ticket(queue, member, there, hold, called)
    if not there then
        local time = redis.call('time')
        redis.call('zadd', queue, string.format('%s%05d', time[1], time[2] / 10), member)
        local last = redis.call('zrevrangebyscore', queue, '(1e15', '1', 'withscores', 'limit', '0', '1')
        if last[1] ~= member then -- another ticket is behind it: the clock was set back
            redis.call('zadd', queue, string.format('%.0f', last[2] + 1), member)
        end
    end
    if called then
        redis.pcall('zrem', queue, hold)
    end
    if redis.call('pttl', queue) < 600000 then
        redis.call('pexpire', queue, '660000')
    end
    return redis.call('zrank', queue, member)
end
-- luacheck: pop
