--[[ fair_break: held by any holder, or by the one that is named -> the next waiter's, or free

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    list: the waiters (Redisson's)
  KEYS[3] scores   zset: waiter -> epoch ms (Redisson's)
  KEYS[4] notes    zset, hasplock's own: include_fair
  ARGV[1] channel  of the lock; a waiter of Redisson's subscribes to "<channel>:<waiter>"
  ARGV[2] only     as in lock_break

  Returns nil      not held; nothing changed
          field    of the holder from which it was taken
          {field}  of another holder than `only`; nothing changed
          or HASPLOCK ...: a hash that is no lock (include_held), nothing changed
  Twice   the second run answers nil, or takes the lock from the next holder; with `only` it changes nothing. It is for
          operators, and is not repeated in the background
  Wakes   the holder, if it is a hasplock client's, by `fbroken`; then as fair_release
  Order   a key that is no lock, and a queue of another type, are refused before the first write
  Source  Redisson's RFairLock.forceUnlock ]]
local lock, queue, scores, notes = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local channel, only = ARGV[1], ARGV[2]

--# include_fair
--# include_held

local held = redis.call('hgetall', lock)
local holder = held[1]
redis.call('llen', queue)
local refusal = no_lock(held)
if refusal or not holder then
    return refusal
elseif only and holder ~= only then
    return { holder }
end
redis.call('del', lock)
if client_of(holder) then
    send(holder, 'fbroken', 0)
end
pass()
return holder
