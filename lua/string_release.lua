--[[ string_release: the string `hold` -> the next waiter's, or no key; a ticket of `hold` -> removed. The only script
     that gives anything back, as lock_release

  KEYS[1] lock     string: the holder's token
  KEYS[2] queue    zset: see string_acquire
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] tombstone_ms  > 0: an attempt of this hold's acquire may still be on its way: leave a tombstone for so long;
                   0, or none: no tombstone
  ARGV[3] member   its ticket, if it may have one

  Returns 1        it was held by `hold`, and is passed on, or free
          2        it had a ticket, which is removed
          0        neither: expired, changed by others, broken, released before, or never acquired
  Twice   the second run answers 0 and changes nothing but the tombstone's age
  Wakes   the first waiter in the queue that is alive: the lock is its token, with the ttl of its ticket. Also when the
          first one leaves and no other release would wake it: it is granted a lock that is free; behind a foreign
          holder, for which the first waiter polls, it is sent `sopen`. There is no yield window, and nothing is
          published on the lock's channel. A grant always says how long its ticket was in the queue
  Order   the first write is one that a full server still allows. It is a call: if it is refused, the reply is that
          error. After it every call is a pcall; publish comes last
  Clock   the server's own, to say how long a ticket was in the queue, and to remove tombstones that are older than
          tombstone_ms ]]
local lock, queue = KEYS[1], KEYS[2]
local hold, tombstone_ms, member = ARGV[1], ARGV[2], ARGV[3]

local popped
local holder = redis.call('get', lock)
if holder == hold then
    redis.call('del', lock)
end
if not tombstone_ms then -- the usual case; fast if the queue is empty, or the first waiter is alive
    if holder ~= hold then
        return 0
    end
    popped = redis.pcall('zpopmin', queue)
    if popped.err or not popped[1] then
        return 1
    end
    -- Short form of include_pass: making the functions below costs more than the rest of a run. The clock is read
    -- before the ttl is set, as there
    local field, client, id, ttl = string.match(popped[1], '^(([^:]+):(%d+)) (%d+) %d+ %d+ %d+$')
    local inbox = client and 'hasplock_inbox:' .. client
    if inbox and (redis.pcall('pubsub', 'numsub', inbox)[2] or 0) > 0 then
        local time = redis.pcall('time')
        local waited = math.floor(time[1] * 1000 + time[2] / 1000 - popped[2] / 100)
        if not redis.pcall('set', lock, field, 'px', ttl).err then
            redis.pcall('publish', inbox, 'sgrant ' .. id .. ' ' .. ttl .. (waited > 0 and '+' .. waited or '') ..
                ' 0 ' .. lock)
            return 1
        end
    end
end

--# include_string
--# include_queue
--# include_pass

tombstone_ms = tonumber(tombstone_ms or 0)
local score = member and redis.pcall('zscore', queue, member)
local write = holder == hold and redis.pcall or redis.call -- as the first write it says so if the server refuses it
local left = member and write('zrem', queue, member) == 1

if tombstone_ms > 0 then
    leave_tombstone(write, queue, hold, tombstone_ms)
end

if holder == hold then
    local head = popped and popped_head(queue, popped) or first_alive(queue)
    if head then
        grant(lock, queue, head)
    end
elseif left and string.sub(holder or '', 1, 4) ~= 'hlk-' then -- its release will wake no waiter
    local head = first_alive(queue)
    if head and was_first(head, score) and holder then
        message(head, 'open', 0, 0)
    elseif head and was_first(head, score) then
        grant(lock, queue, head)
    end
end
return holder == hold and 1 or left and 2 or 0
