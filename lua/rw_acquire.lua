--[[ rw_acquire: one half of a read/write lock. Free for it, no waiter in the queue -> held by `hold`; held by `hold`
     already -> its ttl raised to lease; else, with `member`, a ticket in the queue

  KEYS[1] lock     hash: include_rw
  KEYS[2] queue    zset: tickets, a yield window, tombstones, as lock_acquire has them; include_rw
  KEYS[3] own      a reader's: its lease
  ARGV[1] lease    ms, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every outermost acquire, the same in all its attempts
  ARGV[3] kind     "r": to read; "w": to write
  ARGV[4] member   its ticket (include_rw), the same in all attempts; "" or none: one try
  ARGV[5] beside   to read: the write hold of the same holder, beside which it is granted at once; "" or none
  ARGV[6] shares   "1": to read, with other readers of its process, if nobody waits (docs/decisions/shared_reads.md)

  Returns hold      acquired, or held before: the ttl was set to at least lease in this very run
          hold:shared   the same, with `shares`: no live waiter is in the queue, nor any client on the channel
          -1        this hold has a tombstone: it has ended, and a late attempt must not revive it
          {ttl, holder, position, foreign}
                    busy. ttl: ms left (-1: no ttl). holder: one of them; "": none, a yield window lasts for ttl.
                    position: tickets before its own (-1: it has none). foreign 1: some holder is Redisson's, and calls
                    waiters on the channel
          HASPLOCK ...
                    a hash that is no lock at all, or without ttl no read/write lock; nothing is changed
  Checks  the first that fits: neither key exists (acquired); a tombstone; its own field; `beside` holds it to write
          (acquired, whatever waits); a yield window; then the first live waiters get what is free, and it is acquired
          if no live waiter is before it. To read, it is free without a holder or held to read; to write, without a
          holder
  Twice   a second run finds the field and raises the ttl, or finds its ticket. A late run after rw_release with doubt
          finds the tombstone
  Wakes   the first waiters, if the lock is found free for them. For a writer that takes or has a ticket while others
          read it sends `rwant` to each hasplock client that reads: its readers may share a hold
  Order   it reads everything before the first write. That is one that a full server still allows, or the one that
          takes the lock or a ticket
  Clock   the server's own, for a yield window, and for how long a ticket is in the queue
  Source  key and field layout are Redisson's RReadWriteLock; the rest is hasplock's (docs/protocol.md) ]]
local lock, queue, own = KEYS[1], KEYS[2], KEYS[3]
local lease, hold, kind, member, beside = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or '', ARGV[5] or ''
local shares = ARGV[6] == '1'
local CLIENTS_MAX = 100 -- that one run sends messages to: the holds of others end sharing by themselves
local field = kind == 'w' and hold .. ':write' or hold

if not shares and redis.call('exists', lock, queue) == 0 then
    if own then
        redis.call('set', own, '1', 'px', lease)
    end
    redis.call('hset', lock, 'mode', own and 'read' or 'write', field, '1')
    redis.call('pexpire', lock, lease)
    return hold
end
local void = redis.pcall('zmscore', queue, hold, member)
if void.err then
    return redis.error_reply(void.err .. ': ' .. queue)
end
if void[1] then
    return -1
end

--# include_ticket
--# include_queue
--# include_rw

-- A message for each client that reads, by one of its holds.
local function end_sharing()
    local told, n = {}, 0
    for _, other in ipairs(redis.pcall('hkeys', lock)) do
        local client, id = string.match(other, '^(hlk%-.*):(%d+)$')
        if client and not told[client] and n < CLIENTS_MAX then
            told[client], n = true, n + 1
            send(client, 'rwant ' .. id .. ' 0')
        end
    end
end

local function hold_on()
    if own then
        redis.call('set', own, '1', 'px', math.max(tonumber(lease), redis.call('pttl', own)))
    end
    raise(lock, lease)
    return hold
end

local mode = mode_of()
if mode == 'other' then -- waited for if it is another lock, which has an end
--# include_held
    local refusal = no_lock(redis.call('hlen', lock) == 1 and redis.call('hgetall', lock) or { '', '' })
    if refusal or redis.call('pttl', lock) == -1 then
        return redis.error_reply('HASPLOCK the key is a hash, but no read/write lock: that has a field "mode". ' ..
            'Nothing was changed')
    end
elseif mode and redis.call('hexists', lock, field) == 1 then
    return hold_on()
end
if mode == 'write' and beside ~= '' and redis.call('hexists', lock, beside .. ':write') == 1 then
    if not put(kind, hold, lease, mode) then
        redis.call('set', own, '1', 'px', lease) -- the reply is the server's refusal
    end
    if void[2] then -- else it would be granted again when it has been released
        redis.pcall('zrem', queue, member)
    end
    return hold
end

local free = not mode or mode == 'read' and kind == 'r'
if free then
    local open = redis.call('zscore', queue, 'open')
    local left = window_ms(open)
    if left > 0 then
        return { left, '', take_ticket(void[2]), 0 }
    end
    if open then
        redis.call('zrem', queue, 'open')
    end
    local head
    mode, head = pass(hold)
    if mode and redis.call('hexists', lock, field) == 1 then
        return hold_on()
    end
    if not head and (not mode or mode == 'read' and kind == 'r') then
        if own then
            redis.call('set', own, '1', 'px', lease)
        end
        redis.call('hset', lock, 'mode', own and 'read' or 'write', field, '1')
        raise(lock, lease)
        return shares and listeners() == 0 and hold .. ':shared' or hold
    end
end
local holder, foreign = holders(mode)
local ttl, position = holder == '' and 0 or redis.call('pttl', lock), take_ticket(void[2])
if kind == 'w' and mode == 'read' and position >= 0 then
    end_sharing()
end
return { ttl, holder, position, foreign }
