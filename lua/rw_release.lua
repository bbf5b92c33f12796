--[[ rw_release: one half of a read/write lock. Held by `hold` -> the next waiters', or free; or, with reads of the same
     holder, held to read (a downgrade). In the queue -> removed. The only script that gives anything back, as
     lock_release

  KEYS[1] lock      hash: include_rw
  KEYS[2] queue     zset: see rw_acquire
  KEYS[3] own       a reader's: its lease
  ARGV[1] hold      "<client id>:<hold id>"
  ARGV[2] kind      "r": it reads; "w": it writes
  ARGV[3] yield_ms  > 0: if that frees the lock, and the channel has subscribers, it is left to them for so long. 0, or
                    none: not
  ARGV[4] tombstone_ms   > 0: an attempt of this hold's acquire may still be on its way: leave a tombstone for so long;
                    0, or none: no tombstone
  ARGV[5] member    it may have this ticket in the queue; none: it has not

  Returns 1         it was held by `hold`, and is not any more
          2         its ticket was in the queue, and is removed
          0         neither: expired, broken, released before, or never acquired
  Twice   the second run answers 0 and changes nothing but the tombstone's age
  Wakes   the next writer, or all readers before the next writer: they hold the lock when the message comes
          (include_rw), one message for each client. A waiter that leaves the queue lets those in for which only it was
          in the way. Redisson's waiters, on the channel, if the lock is free or to be read now, or if its ttl got
          shorter than what they know. The first waiter, by `open`, in a yield window, and if only readers of
          Redisson's are left before it: it has to subscribe
  Ttl     when one reader of several leaves, the ttl of the lock becomes the longest lease of the others, and those
          whose lease is over are removed. It stays if one of 8, chosen at random, has a lease of two thirds of it.
          So most releases look at one or two readers. If the others die then, the lock outlasts their longest lease
          by a half of it at most
  Order   a downgrade writes the mode first, which a full server refuses; then nothing was changed. Else the first write
          is one that a full server still allows. It is a call: if it is refused, the reply is that error. After it
          every call is a pcall; publish comes last
  Clock   the server's own, for tombstones and a yield window
  Source  Redisson's RReadWriteLock, its unlocks ]]
local lock, queue, own = KEYS[1], KEYS[2], KEYS[3]
local hold, kind, yield_ms, tombstone_ms = ARGV[1], ARGV[2], tonumber(ARGV[3] or '0'), tonumber(ARGV[4] or '0')
local member = ARGV[5]
local field = kind == 'w' and hold .. ':write' or hold

local done, fields = redis.call('hexists', lock, field), redis.call('hlen', lock)
if done == 0 and tombstone_ms == 0 and not member then
    return 0
end

--# include_queue
--# include_rw

local ttl = redis.call('pttl', lock)
ttl = ttl < 0 and math.huge or ttl
local now_left = ttl -- 0: it is free
if done == 1 and fields <= 2 then
    redis.call('del', lock)
    if own then
        redis.pcall('del', own)
    end
    now_left = 0
elseif done == 1 and kind == 'w' then
    redis.call('hset', lock, 'mode', 'read')
    redis.pcall('hdel', lock, field)
    now_left = shorten(ttl)
elseif done == 1 then
    redis.call('hdel', lock, field)
    redis.pcall('del', own)
    if redis.pcall('hget', lock, 'mode') == 'read' then
        now_left = shorten(ttl)
    end
end
local freed = now_left == 0

local score = member and redis.pcall('zscore', queue, member)
local write = done == 1 and redis.pcall or redis.call -- as the first write it says so if the server refuses it
local left = member and write('zrem', queue, member) == 1
if tombstone_ms > 0 then
    leave_tombstone(write, queue, hold, tombstone_ms)
end

if freed and yield_ms > 0 and listeners() > 0 then -- for yield_ms the lock is left to the subscribers
    local _, head = pass(nil, 'other')
    open_window(queue, yield_ms)
    wake_redisson()
    if head then
        send(head.client, head.kind .. 'open ' .. head.id .. ' ' .. yield_ms)
    end
    return 1
end

local waits = left and window_ms(redis.pcall('zscore', queue, 'open')) > 0
if redis.pcall('exists', queue) == 1 and not waits then
    local mode, head, granted = pass()
    local is_new = head and granted == 0 and (done == 1 or left and tonumber(score) < tonumber(head.score))
    if is_new then -- which client calls it?
        local ours = false
        for _, other in ipairs(redis.pcall('hkeys', lock)) do
            ours = ours or string.sub(other, 1, 4) == 'hlk-'
        end
        if mode and not ours then
            send(head.client, head.kind .. 'open ' .. head.id .. ' 0')
        end
    end
end
local passed = kind == 'w' or freed -- on to readers, or to any waiter
if done == 1 and (passed or now_left < ttl) and listeners() > 0 then
    if passed and redis.pcall('hget', lock, 'mode') ~= 'write' or redis.pcall('pttl', lock) < ttl then
        wake_redisson()
    end
end
return done == 1 and 1 or left and 2 or 0
