--[[ fair_release: held by `hold` -> the next waiter's, or free; in the queue -> removed. The only script that gives
     anything back, as lock_release

  KEYS[1] lock      hash: hold -> count
  KEYS[2] queue     list: the waiters (Redisson's)
  KEYS[3] scores    zset: waiter -> epoch ms (Redisson's)
  KEYS[4] notes     zset, hasplock's own: include_fair
  KEYS[5] other     zset: the queue of a plain lock of the same name (lock_acquire)
  ARGV[1] hold      "<client id>:<hold id>"
  ARGV[2] channel   of the lock; a waiter of Redisson's subscribes to "<channel>:<waiter>"
  ARGV[3] tombstone_ms   > 0: an attempt of this hold's acquire may still be on its way: leave a tombstone for so long;
                    0, or none: no tombstone
  ARGV[4] waits     present: it may have a ticket in the queue

  Returns 1         it was held by `hold`, and is the next one's, or free
          2         it was in the queue, and is removed
          3         it was held by `hold`, and is free, and a plain lock of this name has waiters: the first is sent
                    `open`
          0         neither: expired, broken, released before, or never acquired
  Twice   the second run answers 0 and changes nothing but the tombstone's age
  Wakes   when it frees the lock, or removes the first waiter of a free one: the first waiter (include_fair). A hasplock
          waiter that a client of Redisson's will call from now on, because the one between them has left: it is sent
          `fopen`, and has to subscribe
  Cost    the usual release looks at the first two of the queue, however many wait
  Order   the first write is one that a full server still allows; after it every call is a pcall; publish comes last
  Clock   the server's own, for include_fair and the tombstones
  Source  Redisson's RFairLock, its unlock and its "acquire failed" ]]
local lock, queue, scores, notes, other = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local hold, channel, tombstone_ms, waits = ARGV[1], ARGV[2], ARGV[3] or '0', ARGV[4]

local done
if tombstone_ms == '0' and not waits then -- the usual case; fast if the queue is empty, or its first two are hasplock's
    done = redis.call('hdel', lock, hold)
    if done == 0 then
        return 0
    end
    local first = redis.pcall('lrange', queue, '0', '1')
    local waiter, second = first[1], first[2]
    if not waiter then -- one name, two kinds of lock: nothing else would wake waiters of the other kind
        local member = redis.pcall('exists', other) == 1 and redis.pcall('zrange', other, '0', '0')[1]
        local client, id = string.match(member or '', '^(.*):(%d+) ')
        if client then
            redis.pcall('publish', 'hasplock_inbox:' .. client, 'open ' .. id .. ' 0 0 ' .. lock)
        end
        return client and 3 or 1
    end
    -- Short form of include_fair's grant: making the functions below costs a third of a run
    local client, id = string.match(waiter, '^(hlk%-[^:]*):(%d+)$')
    local inbox = client and (not second or string.sub(second, 1, 4) == 'hlk-') and 'hasplock_inbox:' .. client
    if inbox and (redis.pcall('pubsub', 'numsub', inbox)[2] or 0) > 0 then
        local away = 'away ' .. client
        local noted = redis.pcall('zmscore', notes, waiter, away)
        local ttl = noted[1] or '5000'
        local ms = tonumber(ttl) or 0
        if ms > 0 and ms < 1e12 and redis.pcall('hset', lock, waiter, '1') == 1 then
            redis.pcall('pexpire', lock, ttl)
            redis.pcall('lpop', queue)
            redis.pcall('zrem', scores, waiter)
            if noted[1] or noted[2] then
                redis.pcall('zrem', notes, waiter, away)
            end
            redis.pcall('publish', inbox, 'fgrant ' .. id .. ' ' .. ttl .. ' 0 ' .. lock)
            return 1
        end
    end
end

--# include_fair

-- Removes `hold` from the queue. Returns the position that it had; nil: none.
local function leave()
    local position = redis.pcall('lpos', queue, hold)
    if type(position) ~= 'number' then
        return nil
    end
    local near = redis.pcall('lrange', queue, math.max(position - 1, 0), position + 1)
    local before = position > 0 and near[1] or redis.pcall('hkeys', lock)[1]
    local behind = near[position > 0 and 3 or 2]
    remove({ hold })
    if before and not client_of(before) and behind and client_of(behind) then
        send(behind, 'fopen', 0)
    end
    return position
end

done = done or redis.call('hdel', lock, hold)
local position = waits and leave()
if tombstone_ms ~= '0' then
    redis.pcall('zremrangebyscore', notes, '(' .. string.format('%.0f', -(now_ms() - tombstone_ms)), '0')
    remember(hold, -now_ms(), tonumber(tombstone_ms))
end
if done == 1 or position == 0 and redis.pcall('exists', lock) == 0 then
    pass()
elseif position then
    first_is_redissons()
end
return done == 1 and 1 or position and 2 or 0
