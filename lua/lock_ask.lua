--[[ lock_ask: a holder is asked to release the lock. Changes nothing

  KEYS[1] lock     any kind
  ARGV[1] holder   "<client id>:<hold id>", as it is in Redis

  Returns how many clients have got the message: 0: the holder's client does not listen, or is dead; -1: the holder is
          not hasplock's
  Wakes   the holder, if it is a hasplock client, by `quit`
  Twice   the message comes twice ]]
local lock, holder = KEYS[1], ARGV[1]
local client, id = string.match(holder, '^(hlk%-.*):(%d+)$')
if not client then
    return -1
end
return redis.call('publish', 'hasplock_inbox:' .. client, 'quit ' .. id .. ' 0 0 ' .. lock)
