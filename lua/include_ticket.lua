-- include_ticket: a waiter's ticket in the queue. Included by the scripts that acquire a lock, which have `queue` and
-- `member` before it. A ticket that is taken, or asked for again, keeps the queue for 150 to 300 s.

-- The position of its ticket, which is taken if there is none; -1: without `member`. The score is the moment at which
-- it was taken, in hundredths of a ms, and larger than all before.
local function take_ticket(queued)
    if not member or member == '' then
        return -1
    end
    if not queued then
        local time = redis.call('time')
        redis.call('zadd', queue, string.format('%s%05d', time[1], time[2] / 10), member)
        if redis.call('zrevrank', queue, member) ~= 0 then -- a yield window and tombstones are behind it
            local last = redis.call('zrevrangebyscore', queue, '1e15', '1', 'withscores', 'limit', '0', '1')
            if last[1] ~= member then -- another ticket is: the clock was set back
                redis.call('zadd', queue, string.format('%.0f', last[2] + 1), member)
            end
        end
    end
    if redis.call('pttl', queue) < 150000 then
        redis.call('pexpire', queue, '300000')
    end
    return redis.call('zrank', queue, member)
end
