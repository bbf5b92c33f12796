--[[ lock_acquire: lock free, no waiter in the queue -> held by `hold`; held by `hold` already -> its ttl raised to
     lease; else, with `member`, a ticket in the queue

  KEYS[1] lock     hash: hold -> count, exactly one field while held
  KEYS[2] queue    zset: tickets (score: when taken, server's ms * 100); then "open" while a yield window lasts (1e15 +
                   server's ms); then tombstones: holds that ended while an attempt of their acquire may still be on
                   its way (2e15 + server's ms)
  KEYS[3] token    counter of fencing tokens; only for a fenced hold
  ARGV[1] lease    ms, >= 1
  ARGV[2] hold     "<client id>:<hold id>", new for every outermost acquire, the same in all its attempts
  ARGV[3] member   its ticket (include_pass), the same in all attempts; "" or none: one try
  ARGV[4] tokens   with KEYS[3]: how many tokens it takes
  ARGV[5] floor    with KEYS[3]: each token is above this number

  Returns hold                  acquired, or held before: the ttl was set to at least lease in this very run
          {token, hold}         the same for a fenced hold: the last of its tokens, which were taken in this very run
          -1                    this hold has a tombstone: it has ended, and a late attempt must not revive it
          {ttl, holder, position}
                                busy. ttl: ms left (-1: no ttl). holder: "": none; a yield window lasts for ttl. ttl 0
                                without a holder: the server refused the grant to the first waiter, which is sent
                                `open`. position: tickets before its own (-1: it has none)
          HASPLOCK ...          a hash that is no lock (include_held), or a counter that is no number. Nothing
                                is changed, but dead waiters may be removed. A read/write lock that has a ttl is busy;
                                one without a ttl is refused. WRONGTYPE names its key unless it is the lock's
  Checks  the first that fits: neither key exists (acquired); a tombstone; another holder; its own field; a yield
          window; the first live waiter is another one (the lock is granted to it); else acquired, and it leaves the
          queue
  Twice   a second run finds the field, takes new tokens and then raises the ttl, or finds its ticket. It needs new
          tokens: the grant may have set the field without any. A run that is refused tokens has changed nothing. A
          late run after lock_release with doubt finds the tombstone
  Wakes   the first waiter in the queue, if the lock is found free and that waiter is another one
  Cost    at position 50 or later it removes the dead among the first 50, which a release would have to remove
  Order   it reads everything before the first write. That is one that a full server still allows, or the one that
          takes the lock or a ticket
  Clock   the server's own, for a yield window, and for how long a ticket is in the queue
  Source  key and field layout are Redisson's RLock; the rest is hasplock's (docs/protocol.md) ]]
local lock, queue, token_key = KEYS[1], KEYS[2], KEYS[3]
local lease, hold, member = ARGV[1], ARGV[2], ARGV[3]

if redis.call('exists', lock, queue) == 0 and not token_key then
    redis.call('hset', lock, hold, '1')
    redis.call('pexpire', lock, lease)
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
local holder = redis.call('hkeys', lock)[1]
local ttl, position
if holder and holder ~= hold then
    ttl = redis.call('pttl', lock)
    -- A quick look at the name: hasplock's prefix, or a colon behind a UUID. include_held looks closely at the others,
    -- and at what has no ttl
    if ttl == -1 or string.sub(holder, 1, 4) ~= 'hlk-' and string.sub(holder, 37, 37) ~= ':' then
--# include_held
--# include_rw_held
        local held = redis.call('hgetall', lock)
        local refusal = no_lock(held)
        if refusal and (ttl == -1 or no_rw_lock(held)) then -- a read/write lock with an end is waited for
            return refusal
        end
    end
    position = take_ticket(void[2])
    if position < 50 then
        return { ttl, holder, position }
    end
end

--# include_hash
--# include_queue
--# include_pass

if position then -- a long queue: the dead among its first are removed now, so that a release will find few
    local _, _, dropped = drop_dead(queue, 50, hold, true)
    return { ttl, holder, position - dropped }
end

-- New tokens, also if the hold exists already: the script that granted it may have taken none.
local function answer_tokens()
    local last, refusal = take_tokens(token_key, ARGV[4], ARGV[5])
    return refusal or { last, hold }
end

if holder == hold then
    local answer = token_key and answer_tokens() or hold
    if answer.err then -- a string has none
        return answer
    end
    if redis.call('pttl', lock) < tonumber(lease) then
        redis.call('pexpire', lock, lease)
    end
    return answer
end

local open = redis.call('zscore', queue, 'open')
local left = window_ms(open)
if left > 0 then
    return { left, '', take_ticket(void[2]) }
end
if open then
    redis.call('zrem', queue, 'open')
end
local head = first_alive(queue, hold)
if not head or head.field == hold then
    local answer = token_key and answer_tokens() or hold
    if answer.err then -- a string has none
        return answer
    end
    if head then
        redis.call('zrem', queue, head.member)
    end
    redis.call('hset', lock, hold, '1')
    redis.call('pexpire', lock, lease)
    return answer
end
if grant(lock, queue, head, token_key) then
    return { tonumber(head.ttl), head.field, take_ticket(void[2]) }
end
return { 0, '', take_ticket(void[2]) }
