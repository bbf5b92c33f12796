--[[ string_break: held by any holder -> the next waiter's, or free

  KEYS[1] lock     string: the holder's token
  KEYS[2] queue    zset: see string_acquire

  Returns nil      not held; nothing changed
          holder   the token of whom it was taken from
          WRONGTYPE ... the key is no string; nothing changed
  Twice   the second run answers nil, or takes the lock from the next holder. It is for operators, and is not repeated
          in the background
  Wakes   the holder, if it is a hasplock client whose inbox has a subscriber; then as string_release
  Order   a key that is no string is refused before the first write; del is allowed on a full server ]]
local lock, queue = KEYS[1], KEYS[2]

--# part_string
--# part_queue
--# part_pass

local holder = redis.call('get', lock)
if not holder then
    return nil
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
