--[[ lock_break: held by any holder, or by the one that is named -> the next waiter's, or free

  KEYS[1] lock     hash: hold -> count
  KEYS[2] queue    zset: see lock_acquire
  KEYS[3] token    counter of fencing tokens
  ARGV[1] channel  of the lock
  ARGV[2] only     the holder from which it is to be taken; none: any

  Returns nil      not held; nothing changed
          field    of the holder from which it was taken
          {field}  of another holder than `only`, who holds it; nothing changed
          or HASPLOCK ...: a hash that is no lock (include_held), nothing changed
  Twice   the second run answers nil, or takes the lock from the next holder; with `only` it changes nothing. It is for
          operators, and is not repeated in the background
  Wakes   the holder, if it is a hasplock client whose inbox has a subscriber; then as lock_release
  Order   a key that is no lock is refused before the first write; del is allowed on a full server
  Source  Redisson's RLock.forceUnlock ]]
local lock, queue, token_key = KEYS[1], KEYS[2], KEYS[3]
local channel, only = ARGV[1], ARGV[2]

--# include_hash
--# include_queue
--# include_pass
--# include_held

local held = redis.call('hgetall', lock)
local holder = held[1]
local refusal = no_lock(held)
if refusal or not holder then
    return refusal
elseif only and holder ~= only then
    return { holder }
end
local ttl = redis.call('pttl', lock)
redis.call('del', lock)
local client, id = string.match(holder, '^(hlk%-.*):(%d+)$')
local inbox = client and 'hasplock_inbox:' .. client
if inbox and listeners(inbox) > 0 then
    message({ inbox = inbox, id = id }, 'broken', 0, 0)
end
pass(lock, queue, channel, token_key, ttl)
return holder
