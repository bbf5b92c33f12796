--[[ lock_release: held by `hold` -> the next waiter's, or free; a ticket of `hold` -> removed. The only script that
     gives anything back: a release, a wait that is given up, what is left after a loss, a grant that no waiter needs

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    zset: see lock_acquire
  KEYS[3] token    counter of fencing tokens; only by clients that use the lock as a fenced one
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] channel  of the lock; Redisson's waiters subscribe to it
  ARGV[3] brief    ms; the wait for the hold and the hold took less than 20 ms together: no waiter in the queue has
                   waited for longer, and at most this is left of the ttl. It saves PTTL, and TIME: a grant does not
                   say how long its ticket was in the queue. 0, or none: not known
  ARGV[4] yield_ms  > 0: if the channel has subscribers, the lock is left to them for so long (yield window) before it
                   is the queue's; 0, or none: no window
  ARGV[5] tombstone_ms  > 0: an attempt of this hold's acquire may still be on its way: leave a tombstone for so long;
                   0, or none: no tombstone
  ARGV[6] member   its ticket, if it may have one

  Returns 1        it was held by `hold`, and is passed on, or free
          2        it had a ticket, which is removed
          0        neither: expired, broken, released before, or never acquired
  Twice   the second run answers 0 and changes nothing but the tombstone's age
  Wakes   the first waiter in the queue that is alive: it is granted the lock; for a yield window it is sent `open`. "0"
          on the channel if there is none, for a yield window, or if the ttl of the next hold is shorter than that of
          this one (include_pass). The next waiter also when the first one leaves and no other release would wake it:
          it is granted a lock that is free; it is sent `open` if the lock is a foreign client's, or in a yield window
  Order   the first write is one that a full server still allows; after it every call is a pcall, whose answer may be
          an error: a key that is deleted while its slot moves is another server's from then on; publish comes last.
          If the hold turns out not to exist, what was taken out of the queue before is put back
  Clock   the server's own, for a yield window and to remove tombstones that are older than tombstone_ms
  Source  channel and message are Redisson's RLock ]]
local lock, queue, token_key = KEYS[1], KEYS[2], KEYS[3]
local hold, channel, brief, yield_ms = ARGV[1], ARGV[2], ARGV[3] or '0', ARGV[4] or '0'
local tombstone_ms, member = ARGV[5] or '0', ARGV[6]

local popped, done
if tombstone_ms == '0' and not member then -- the usual case; fast if the queue is empty, or the first waiter is alive
    local there = yield_ms ~= '0' and redis.pcall('pubsub', 'numsub', channel)
    if not there or there[2] == 0 then
        yield_ms = '0'
        popped = redis.pcall('zpopmin', queue)
        local head = popped[1]
        if not head then
            if redis.call('hdel', lock, hold) == 0 then
                return 0
            end
            there = there or redis.pcall('pubsub', 'numsub', channel)
            if there.err or there[2] > 0 then
                redis.pcall('publish', channel, '0')
            end
            return 1
        end
        -- Short form of pass and grant, for a waiter without tokens: making the functions below costs a fifth of a run.
        -- The waiter's ttl is no shorter than what is left of this hold's
        local field, client, id, ttl = string.match(head, '^(([^:]+):(%d+)) (%d+) 0 ')
        local inbox = ttl == brief and 'hasplock_inbox:' .. client
        if inbox and (redis.pcall('pubsub', 'numsub', inbox)[2] or 0) > 0 then
            done = redis.pcall('hdel', lock, hold)
            if done == 1 and redis.pcall('hset', lock, field, '1') == 1 then
                redis.pcall('pexpire', lock, ttl)
                redis.pcall('publish', inbox, 'grant ' .. id .. ' ' .. ttl .. ' 0 ' .. lock)
                return 1
            end
        end
    end
end

--# include_hash
--# include_queue
--# include_pass

tombstone_ms, yield_ms = tonumber(tombstone_ms), tonumber(yield_ms)
local score = member and redis.pcall('zscore', queue, member)
local ttl = brief == '0' and redis.pcall('pttl', lock) or tonumber(brief)
done = done or redis.pcall('hdel', lock, hold)
if done ~= 1 and popped then
    put_back(queue, popped[2], popped[1])
end
if type(done) == 'table' then -- a key of another type, or a refused write: the reply is that error
    return redis.call('hdel', lock, hold)
end
local left = member and redis.pcall('zrem', queue, member) == 1

if tombstone_ms > 0 then
    leave_tombstone(redis.pcall, queue, hold, tombstone_ms)
end

if done == 1 and yield_ms > 0 and listeners(channel) > 0 then -- for yield_ms the lock is left to the subscribers
    local head = first_alive(queue)
    open_window(queue, yield_ms)
    redis.pcall('publish', channel, '0')
    if head then
        message(head, 'open', yield_ms, 0)
    end
elseif done == 1 then
    pass(lock, queue, channel, token_key, ttl, popped, brief ~= '0')
elseif left then -- a hasplock holder's release wakes the next waiter; else this script has to, if that is first now
    local holder = redis.pcall('hkeys', lock)[1]
    local head = not (holder and string.sub(holder, 1, 4) == 'hlk-') and first_alive(queue)
    if not holder and was_first(head, score) and window_ms(redis.pcall('zscore', queue, 'open')) == 0 then
        pass(lock, queue, channel, token_key)
    elseif head and was_first(head, score) then
        message(head, 'open', 0, 0)
    end
end
return done == 1 and 1 or left and 2 or 0
