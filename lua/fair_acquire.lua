--[[ fair_acquire: free, and `hold` first or nobody waiting -> held by `hold`; held by `hold` already -> its ttl raised

  KEYS[1] lock      hash: hold -> count, exactly one field while held
  KEYS[2] queue     list: who waits, first come first (Redisson's)
  KEYS[3] scores    zset: who waits -> epoch ms after which Redisson's clients take it for dead
  KEYS[4] notes     zset, ours: holds that ended in doubt, score < 0; and one mark, score > 0: "called <waiter> <its
                    score>" or "absent ...", the first in the queue of a free lock, and until when it is waited for
  ARGV[1] lease     ms, >= 1
  ARGV[2] hold      "<client id>:<hold id>", new for every outermost acquire, the same in all copies of it
  ARGV[3] channel   of the lock; a waiter listens on "<channel>:<waiter>"
  ARGV[4] patience  ms that a place in the queue adds to the scores of it and of those behind it
  ARGV[5] join      1: take a place in the queue, or keep it; 0: do not

  Returns nil                  acquired, or held by `hold` before: the ttl was set to at least lease in this very run
          -1                   void: this hold has ended, a late copy must not revive it
          {ms, holder, place}  not yet. holder "": the lock is free, and somebody else is first. ms: of the holder's ttl
                               (-1: no end), or until the first is given up. place: in the queue, from 0; -1: not in it
          HASPLOCK ...         a hash without end that is no lock (part_held); nothing is changed
  Twice   a second run finds the field, or its place; a late run after fair_end with doubt finds the void set
  Wakes   the first of the queue, once, when the lock is free and it has not come: "0" on its own channel
  Dead    the first in the queue goes when its score is over and nobody listens on its channel (as with Redisson), and
          of a free lock also when nobody has listened for 1 s (ours, who listen before they queue) or 5 s (Java, which
          queues first), or when it listens and has not come for 10 s
  Clock   the server's own. Redisson writes the scores by its clients' clocks: docs/protocol.md says what skew does
  Order   each key is looked at before anything is written
  Source  queue, scores, channel are Redisson's RFairLock; hold ids and the void set are ours (docs/protocol.md) ]]
local lock, queue, scores, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, hold, channel, patience, join = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'

local function take()
    redis.call('hset', lock, hold, '1')
    redis.call('pexpire', lock, lease)
    return nil
end

if redis.call('exists', lock, queue, notes) == 0 then
    return take()
end
if redis.call('zscore', notes, hold) then
    return -1
end
if redis.call('hexists', lock, hold) == 1 then
    if redis.call('pttl', lock) < tonumber(lease) then
        redis.call('pexpire', lock, lease)
    end
    return nil
end

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder = redis.call('hkeys', lock)[1]
local first, score = redis.call('lindex', queue, '0'), nil
local mark = redis.call('zrangebyscore', notes, '1', '+inf', 'withscores')

local function listens(waiter) -- true, false; nil: this user may not ask
    local n = redis.pcall('pubsub', 'numsub', channel .. ':' .. waiter)
    if not n.err then
        return n[2] > 0
    end
end

local function drop_first()
    redis.call('zrem', scores, first)
    redis.call('lpop', queue)
    first = redis.call('lindex', queue, '0')
end

local function leave() -- first in the queue no more: those behind are a place nearer
    redis.call('zrem', scores, hold)
    redis.call('lpop', queue)
    local ours, others = false, false
    for _, waiter in ipairs(redis.call('lrange', queue, '0', '-1')) do
        if string.sub(waiter, 1, 4) == 'hlk-' then
            ours = true
        else
            others = true
        end
        if redis.call('zscore', scores, waiter) then
            redis.call('zincrby', scores, -patience, waiter)
        end
    end
    if others and not ours then -- Redisson's own have no ttl
        redis.call('persist', queue)
        redis.call('persist', scores)
    end
end

-- The lock is free and `first` is somebody else: how long it is waited for. 0: it is given up.
local waited_in_vain = false
local function wait_for(hears)
    local what = (hears == false and 'absent ' or 'called ') .. first .. ' ' .. (score or 0)
    if hears == false and waited_in_vain then
        return 0 -- had as long as the one before it
    end
    if mark[1] ~= what then
        local ours = string.sub(first, 1, 4) == 'hlk-'
        mark = { what, now + (hears ~= false and 10000 or ours and 1000 or 5000) }
        redis.call('zremrangebyscore', notes, '1', '+inf')
        redis.call('zadd', notes, mark[2], what)
        if redis.call('pttl', notes) < 60000 then
            redis.call('pexpire', notes, '60000')
        end
        if hears ~= false then
            redis.pcall('publish', channel .. ':' .. first, '0')
        end
    end
    waited_in_vain = hears == false
    return math.max(0, mark[2] - now)
end

local ms = holder and redis.call('pttl', lock) or 0
if ms == -1 then -- nobody waits for what ends by itself never, and is no lock
--# part_held
    local refusal = no_lock(redis.call('hgetall', lock))
    if refusal then
        return refusal
    end
end
while first and first ~= hold do
    score = redis.call('zscore', scores, first)
    local over = score and tonumber(score) <= now
    local hears = nil
    if over or not holder then
        hears = listens(first)
    end
    if not over or hears then
        ms = holder and ms or wait_for(hears)
        if holder or ms > 0 then
            break
        end
    end
    drop_first()
end

if not holder and (not first or first == hold) then
    if mark[1] then
        redis.call('zremrangebyscore', notes, '1', '+inf')
    end
    if first then
        leave()
    end
    return take()
end

local place = redis.call('lpos', queue, hold)
if join then
    score = tonumber(redis.call('zscore', scores, hold) or 0)
    local least = now + math.max(0, ms) + ((place or 0) + 1) * patience
    if not place then
        local last = redis.call('lindex', queue, '-1')
        local behind = last and tonumber(redis.call('zscore', scores, last) or 0) or 0
        least = math.max(least, behind + patience)
    end
    if not place then
        redis.call('zadd', scores, least, hold)
        place = redis.call('rpush', queue, hold) - 1
    elseif score < least - patience / 2 then
        redis.pcall('zadd', scores, least, hold) -- on a full server it stays as it is
    end
    local left = least - now + patience / 2
    if redis.call('pttl', queue) < left or redis.call('pttl', scores) < left then
        redis.call('pexpireat', queue, least + patience)
        redis.call('pexpireat', scores, least + patience)
    end
end
return { ms, holder or '', place or -1 }
