--[[ string_break: held by any holder, or by the one that is named -> the next waiter's, or free

  KEYS[1] lock     string: the holder's token
  KEYS[2] queue    zset: see string_acquire
  ARGV[1] only     as in lock_break; of a longer token the part that string_query answers is compared

  Returns nil      not held; nothing changed
          holder   the token of the holder it was taken from
          {holder} the token of another holder than `only`; nothing changed
          WRONGTYPE ... the key is no string; nothing changed
  Twice   the second run answers nil, or takes the lock from the next holder; with `only` it changes nothing. It is for
          operators, and is not repeated in the background
  Wakes   the holder, if it is a hasplock client whose inbox has a subscriber, by `sbroken`; then as string_release.
          This script alone deletes whatever string is there
  Order   a key that is no string is refused before the first write; del is allowed on a full server ]]
local lock, queue, only = KEYS[1], KEYS[2], ARGV[1]

--# include_string
--# include_queue
--# include_pass

local holder = redis.call('get', lock)
if not holder then
    return nil
elseif only and shown(holder) ~= only then
    return { shown(holder) }
end
redis.call('del', lock)
local client, id = string.match(holder, '^(hlk%-.*):(%d+)$')
local inbox = client and 'hasplock_inbox:' .. client
if inbox and listeners(inbox) > 0 then
    message({ inbox = inbox, id = id }, 'broken', 0, 0)
end
local head = first_alive(queue)
if head then
    grant(lock, queue, head)
end
return shown(holder)
