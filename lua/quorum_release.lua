--[[ quorum_release: the string `hold` -> no key

  KEYS[1] lock     string: the holder's token
  ARGV[1] hold     "<client id>:<hold id>"
  ARGV[2] channel  of the lock; our own waiters subscribe to it

  Returns 1        it was this holder's, and is free
          0        it was not
  Twice   the second run answers 0 and changes nothing
  Wakes   "0" on the channel, if this user may publish
  Order   del is the only write, and a full server allows it; publish comes last ]]
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('del', KEYS[1])
redis.pcall('publish', ARGV[2], '0')
return 1
