--[[ lock_acquire: free and nobody in line -> held by `hold`; held by `hold` already -> its ttl raised to lease; else,
     with `member`, in line

  KEYS[1] lock     hash: hold -> count, exactly one field while held
  KEYS[2] queue    zset: who waits (score 1 and up), then "open" (1e15 + server's ms) while an open window lasts, then
                   the holds that ended while a copy of their acquire may still be on its way (2e15 + server's ms)
  KEYS[3] token    counter of fencing tokens; only for a fenced hold
  ARGV[1] lease    ms, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every outermost acquire, the same in all copies of it
  ARGV[3] member   its place in the queue (part_pass), the same in all copies; "" or none: one try
  ARGV[4] tokens   with KEYS[3]: how many it takes,
  ARGV[5] floor    and above which number

  Returns nil                   acquired, or held before: the ttl was set to at least lease in this very run
          {token}               the same for a fenced hold: the last of its tokens
          -1                    void: this hold has ended, a late copy must not revive it
          {ttl, holder, place}  not acquired; ms left (-1: no end), who holds it ("": nobody yet, an open window lasts
                                so long), and how many are before it in line (-1: it is not in line)
          HASPLOCK ...          a hash without end that is no lock (part_held), or a counter that is no number; nothing
                                is changed. WRONGTYPE names its key unless it is the lock's
  Twice   a second run finds the field and raises the ttl, takes no token, or finds its place; a late run after lock_end
          with doubt finds the void entry
  Wakes   the first in line, when the lock is found free and it is not this one
  Order   before the first write all is looked at; the first write is one that a full server still allows, or the one
          that takes the lock or joins the queue
  Clock   the server's own, only for an open window
  Source  key and field layout are Redisson's RLock; the rest is ours (docs/protocol.md) ]]
local lock, queue, token_key = KEYS[1], KEYS[2], KEYS[3]
local lease, hold, member = ARGV[1], ARGV[2], ARGV[3]

if redis.call('exists', lock, queue) == 0 and not token_key then
    redis.call('hset', lock, hold, '1')
    redis.call('pexpire', lock, lease)
    return nil
end

-- Its place, taken if it has none; -1: it wants none.
local function take_place(queued)
    if not member or member == '' then
        return -1
    end
    local place = 0
    if queued then
        place = redis.call('zrank', queue, member)
    else
        local last = redis.call('zrevrange', queue, '0', '0', 'withscores')
        if last[1] and not string.find(last[1], ' ', 1, true) then -- void, or an open window
            last = redis.call('zrevrangebyscore', queue, '1e15', '1', 'withscores', 'limit', '0', '1')
        end
        redis.call('zadd', queue, string.format('%d', (last[2] or 0) + 1), member)
        if last[1] then
            place = redis.call('zrank', queue, member)
        end
    end
    if redis.call('pttl', queue) < 150000 then
        redis.call('pexpire', queue, '300000')
    end
    return place
end

local void = redis.pcall('zmscore', queue, hold, member or '')
if void.err then
    return redis.error_reply(void.err .. ': ' .. queue)
end
if void[1] then
    return -1
end
local holder = redis.call('hkeys', lock)[1]
if holder and holder ~= hold then
    local ttl = redis.call('pttl', lock)
    if ttl == -1 then -- nobody waits for what ends by itself never, and is no lock
--# part_held
        local refusal = no_lock(redis.call('hgetall', lock))
        if refusal then
            return refusal
        end
    end
    return { ttl, holder, take_place(void[2]) }
end

--# part_pass

local function yours() -- a counter that somebody deleted meanwhile begins anew
    if not token_key then
        return nil
    end
    local last, refusal = tonumber(redis.call('get', token_key)), nil
    if not last then
        last, refusal = take_tokens(token_key, ARGV[4], ARGV[5])
    end
    return refusal or { last }
end

if holder == hold then
    if redis.call('pttl', lock) < tonumber(lease) then
        redis.call('pexpire', lock, lease)
    end
    return yours()
end

local open = redis.call('zscore', queue, 'open')
local left = open and tonumber(open) - 1e15 - now_ms() or 0
if left > 0 then
    return { left, '', take_place(void[2]) }
end
if open then
    redis.call('zrem', queue, 'open')
end
local head = first_alive(queue, hold)
if not head or head.field == hold then
    if token_key then
        local last, refusal = take_tokens(token_key, ARGV[4], ARGV[5])
        if not last then
            return refusal
        end
    end
    if head then
        redis.call('zrem', queue, head.member)
    end
    redis.call('hset', lock, hold, '1')
    redis.call('pexpire', lock, lease)
    return yours()
end
if grant(lock, queue, head, token_key) then
    return { tonumber(head.ttl), head.field, take_place(void[2]) }
end
return { 0, '', take_place(void[2]) }
