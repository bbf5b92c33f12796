--[[ string_acquire: lock free, no waiter in the queue -> the string `hold` with a ttl; held by `hold` already -> its
     ttl raised to lease; else, with `member`, a ticket in the queue

  KEYS[1] lock     string: the holder's token, as redis-py's Lock and bsm/redislock write it
  KEYS[2] queue    zset: tickets and tombstones, as of a plain lock (lock_acquire)
  ARGV[1] lease    ms, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every acquire, the same in all its attempts
  ARGV[3] member   its ticket (include_pass), the same in all attempts; none: one try

  Returns hold                  acquired, or held before: the ttl was set to at least lease in this very run
          -1                    this hold has a tombstone: it has ended, and a late attempt must not revive it
          {ttl, holder, position}
                                busy. ttl: ms left (-1: no ttl, which is waited for and never taken). ttl 0 without a
                                holder: the server refused the grant to the first waiter, which is sent `sopen`.
                                position: tickets before its own (-1: it has none)
          WRONGTYPE ...         the key is no string; nothing is changed
  Twice   a second run finds its token and raises the ttl, or finds its ticket. A late run after string_release with
          doubt finds the tombstone
  Wakes   the first waiter in the queue, if the lock is found free and that waiter is another one: the release of a
          foreign holder wakes nobody
  Order   it reads everything before the first write
  Source  SET NX PX with a token is the Redis page on distributed locks; the queue is hasplock's (docs/protocol.md) ]]
local lock, queue = KEYS[1], KEYS[2]
local lease, hold, member = ARGV[1], ARGV[2], ARGV[3]

if redis.call('exists', lock, queue) == 0 then
    redis.call('set', lock, hold, 'px', lease)
    return hold
end

--# include_ticket

local void = redis.pcall('zmscore', queue, hold, member or '')
if void.err then
    return redis.error_reply(void.err .. ': ' .. queue)
end
if void[1] then
    return -1
end
local holder = redis.call('get', lock)
if holder == hold then
    if redis.call('pttl', lock) < tonumber(lease) then
        redis.call('pexpire', lock, lease)
    end
    return hold
end

--# include_string
--# include_queue
--# include_pass

if holder then
    local ttl, position = redis.call('pttl', lock), take_ticket(void[2])
    if position >= 50 then -- a long queue: the dead among its first are removed now, so that a release will find few
        local _, _, dropped = drop_dead(queue, 50, hold, true)
        position = position - dropped
    end
    return { ttl, shown(holder), position }
end
local head = first_alive(queue, hold)
if not head or head.field == hold then
    if head then
        redis.call('zrem', queue, head.member)
    end
    redis.call('set', lock, hold, 'px', lease)
    return hold
end
if grant(lock, queue, head) then
    return { tonumber(head.ttl), head.field, take_ticket(void[2]) }
end
return { 0, '', take_ticket(void[2]) }
