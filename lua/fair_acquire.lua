--[[ fair_acquire: lock free, no waiter before `hold` -> held by `hold`; held by `hold` already -> its ttl raised; else,
     with `grant`, a ticket in the queue

  KEYS[1] lock      hash: hold -> count, exactly one field while held
  KEYS[2] queue     list: the waiters, first come first (Redisson's)
  KEYS[3] scores    zset: waiter -> epoch ms after which Redisson's clients take it for dead
  KEYS[4] notes     zset, hasplock's own: include_fair
  KEYS[5] other     zset: the queue of a plain lock of the same name (lock_acquire); none: it is not looked at
  ARGV[1] lease     ms, >= 1
  ARGV[2] hold      "<client id>:<hold id>", new for every outermost acquire, the same in all its attempts
  ARGV[3] channel   of the lock; a waiter of Redisson's subscribes to "<channel>:<waiter>"
  ARGV[4] grant     the ttl, in ms, that a grant to it sets; none: one try

  Returns hold      acquired, or held by `hold` before: the ttl was set to at least lease in this very run
          -1        this hold has a tombstone: it has ended, and a late attempt must not revive it
          {ms, holder, position, foreign[, mixed]}
                    busy. holder "": the lock is free, and a waiter before it is waited for. ms: the holder's ttl (-1:
                    no ttl), or how long that waiter is waited for. position: in the queue, from 0; -1: not in it.
                    foreign 1: a client of Redisson's is just before it, holder or waiter, and calls it on
                    "<channel>:<hold>" only. mixed 1: a plain lock of this name has waiters
                    {1000, "", ...}: an earlier wait of the same client is first, and the client is not subscribed. Its
                    waits send acquire when the inbox is confirmed, the first of them first
          HASPLOCK ...
                    a hash that is no lock (include_held); nothing is changed. A read/write lock that has a ttl is busy
  Checks  the first that fits: a tombstone; its own field; another holder; the first waiter that is present is another
          one (a hasplock waiter is granted the lock, a waiter of Redisson's is called, once); else acquired, and it
          leaves the queue
  Twice   a second run finds the field, or its ticket; a late run after fair_release with doubt finds the tombstone
  Wakes   the first waiter, if the lock is found free and that waiter is another one: include_fair
  Dead    a command whose hold is in the queue removes dead waiters at the head: include_fair
  Scores  it keeps its own ahead, and lowers that of a first waiter of Redisson's. It writes no others. A ticket gets
            max( ahead + t, min( s, ahead + 2 t ) )
          ahead: clock + the lock's ttl + 2.5 min. t: 5 min for each waiter of Redisson's before it, which takes so
          much from the scores behind it when it is served or leaves. s: the score of the waiter before it; it counts
          if a waiter of Redisson's waits for longer than 5 min, and takes more. Redisson's waiters are counted only if
          the waiter just before is Redisson's, or has a score that includes some: a queue of hasplock's alone is not
          read. A score less than 2 min + t ahead of the clock, or more than 1 min above ahead + 2 t, is set anew. A
          waiter sends each 31 s or more often, so its score is always more than 80 s ahead
  Clock   the server's own. Redisson writes the scores by its clients' clocks. What skew does: docs/decisions/fair.md
  Order   each key is read before the first write
  Source  queue, scores, channel are Redisson's RFairLock; hold ids, grants, notes are hasplock's (docs/protocol.md) ]]
local lock, queue, scores, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local lease, hold, channel, grant_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- A score is LEAD and the holder's ttl ahead of the clock when a ticket is taken, and then at least KEPT. A waiter
-- sends acquire each 31 s or more often. Each waiter of Redisson's takes PATIENCE from the scores behind it when it
-- gets the lock or leaves, so those behind add it. Waiters of hasplock take nothing.
local LEAD, KEPT, PATIENCE, SLACK, LOOKED = 150000, 120000, 300000, 60000, 10000
local NOTED = 60000 -- how long a note lives if it is not written again

if redis.call('exists', lock, queue, notes) == 0 then
    redis.call('hset', lock, hold, '1')
    redis.call('pexpire', lock, lease)
    return hold
end
local away = 'away ' .. (string.match(hold, '^(.*):') or '')
local noted = redis.call('zmscore', notes, hold, away)
if noted[1] and tonumber(noted[1]) < 0 then
    return -1
end
local holder = redis.call('hkeys', lock)[1]
if holder == hold then
    if redis.call('pttl', lock) < tonumber(lease) then
        redis.call('pexpire', lock, lease)
    end
    return hold
end
local ms = holder and redis.call('pttl', lock) or 0
-- A quick look at the name: hasplock's prefix, or a colon behind a UUID. include_held looks closely at the others, and
-- at what has no ttl
if ms == -1 or holder and string.sub(holder, 1, 4) ~= 'hlk-' and string.sub(holder, 37, 37) ~= ':' then
--# include_held
--# include_rw_held
    local held = redis.call('hgetall', lock)
    local refusal = no_lock(held)
    if refusal and (ms == -1 or no_rw_lock(held)) then -- a read/write lock with an end is waited for
        return refusal
    end
end
if holder and not grant_ms then
    return { ms, holder, -1, 0 }
end

local last = redis.call('lindex', queue, '-1')
local known = redis.call('zmscore', scores, hold, last or '')
local position
if known[1] or noted[2] then -- it sends, so it is there; and after this write a full server allows the others
    redis.call('zrem', notes, away)
end
if not holder or known[1] then
--# include_fair
    if holder then
        find_first(hold, true)
    else
        holder, ms = pass(hold)
    end
    if holder == hold then
        redis.call('hset', lock, hold, '1')
        redis.call('pexpire', lock, lease)
        if known[1] then
            remove({ hold })
        end
        taken()
        return hold
    end
    if not grant_ms then
        return { ms, holder, -1, 0 }
    end
    position = known[1] and redis.call('lpos', queue, hold)
    last = position ~= 0 and redis.call('lindex', queue, position and position - 1 or -1)
    known = redis.call('zmscore', scores, hold, last or '')
end

-- It has a ticket, or takes a new one. `last` is the waiter before it.
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local score, before = tonumber(known[1]), tonumber(known[2]) or 0
local foreign_last = last and string.sub(last, 1, 4) ~= 'hlk-'

-- What Redisson's waiters before it will take. None, if hasplock's waiter just before it has no more than a lead.
local ahead, takes = now + math.max(0, ms) + LEAD, 0
if foreign_last or before > ahead + SLACK then
    for _, waiter in ipairs(redis.call('lrange', queue, 0, math.min(position or LOOKED, LOOKED) - 1)) do
        takes = takes + (string.sub(waiter, 1, 4) ~= 'hlk-' and PATIENCE or 0)
    end
end
-- One that said that it waits for longer than 5 min takes more. It has added that to its own score
local wanted = math.max(ahead + takes, math.min(math.floor(before), ahead + 2 * takes))
if not position then
    position, score = redis.call('rpush', queue, hold) - 1, wanted
    redis.call('zadd', scores, score, hold)
elseif not score or score < now + KEPT + takes or score > ahead + 2 * takes + SLACK then
    score = wanted
    redis.pcall('zadd', scores, score, hold) -- on a full server it stays as it is
end
local left = math.floor(score) - now + PATIENCE / 2
if redis.call('pttl', queue) < left then
    redis.call('pexpire', queue, left + PATIENCE)
    redis.call('pexpire', scores, left + PATIENCE)
end
if grant_ms ~= '5000' then -- GRANT_MS of include_fair
    local added = redis.pcall('zadd', notes, grant_ms, hold)
    if type(added) == 'number' and redis.pcall('pttl', notes) < NOTED then
        redis.pcall('pexpire', notes, NOTED)
    end
end
local foreign = foreign_last or not last and holder ~= '' and string.sub(holder, 1, 4) ~= 'hlk-'
local answer = { ms, holder, position, foreign and 1 or 0 }
if KEYS[5] and string.find(redis.pcall('zrange', KEYS[5], '0', '0')[1] or '', ' ', 1, true) then
    answer[5] = 1
end
return answer
