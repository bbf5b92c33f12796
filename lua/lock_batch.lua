--[[ lock_batch: acquires and releases of many locks. Each does what lock_acquire or lock_release would do, in the
     simple cases: no waiter is in the queue, and nothing else is in it

  KEYS[2i-1], [2i]     lock and queue of the i-th, of at most 16 (see lock_acquire)
  ARGV[1]              a letter for each: "a" acquire; "e" release; "o" release with a yield window if the channel has
                       subscribers
  ARGV[2i], [2i+1]     lease and hold of an acquire; hold and channel of a release

  Returns a reply for each
          acquire      hold               acquired; the ttl is lease
                       {ttl, holder, -1}  busy; ms left, and the holder
          release      1                  it was held by `hold`, and is free
                       0                  it was not
          either       -2                 no simple case, or refused: nothing was changed; send it unbatched
  Simple  acquires without a member and tokens; releases without a tombstone and a member. Not if the queue exists, or
          the key is no hash. An acquire finds the lock free, or with a ttl and another holder, whose field is named as
          one (include_held). A release with a yield window finds no subscriber of the channel
  Twice   the second run of an acquire answers -2, that of a release 0
  Wakes   "0" on the channel of a lock that was freed, if it has subscribers
  Order   one after the other. A refused one does not prevent the others: every call is a pcall, and the first write of
          each is the one that may be refused
  Source  lock_acquire and lock_release ]]
local letters, answers = ARGV[1], {}

-- For all releases at once: are their queues empty, and which channels have subscribers? This script changes neither.
local queues, channels = {}, {}
for i = 1, #letters do
    if string.sub(letters, i, i) ~= 'a' then
        queues[#queues + 1], channels[#channels + 1] = KEYS[2 * i], ARGV[2 * i + 1]
    end
end
local no_queue, listeners, ends = false, nil, 0
if queues[1] then
    no_queue = redis.pcall('exists', unpack(queues)) == 0
    listeners = redis.pcall('pubsub', 'numsub', unpack(channels))
end

local function is_busy(lock, queue, hold)
    local holder = redis.pcall('exists', queue) == 0 and redis.pcall('hkeys', lock)[1]
    -- A quick look at the name, as in lock_acquire, which refuses what is no lock
    local known = holder and (string.sub(holder, 1, 4) == 'hlk-' or string.sub(holder, 37, 37) == ':')
    local ttl = known and holder ~= hold and redis.pcall('pttl', lock)
    return type(ttl) == 'number' and ttl > 0 and { ttl, holder, -1 } or -2
end

for i = 1, #letters do
    local letter, answer = string.sub(letters, i, i), -2
    local lock, queue, first, second = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i], ARGV[2 * i + 1]
    if letter == 'a' then
        if redis.pcall('exists', lock, queue) ~= 0 then
            answer = is_busy(lock, queue, second)
        elseif redis.pcall('hset', lock, second, '1') == 1 and redis.pcall('pexpire', lock, first) == 1 then
            answer = second
        end
    else
        ends = ends + 1
        local listens = listeners.err or listeners[2 * ends] > 0
        if not (letter == 'o' and listens) and (no_queue or redis.pcall('exists', queue) == 0) then
            local freed = redis.pcall('hdel', lock, first)
            if freed == 1 and listens then
                redis.pcall('publish', second, '0')
            end
            answer = type(freed) == 'number' and freed or -2
        end
    end
    answers[i] = answer
end
return answers
