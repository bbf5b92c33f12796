--[[ semaphore_confirm: the note that `hold` has taken is written again, so that replicas which have it have the rest

  KEYS[1] key      string: free permits
  KEYS[2] queue    zset: tickets and notes (include_permits)
  ARGV[1] hold     "<client id>:<hold id>"

  Returns hold     it has taken
          0        it has not, or it is too long ago
  Twice   as once
  Order   the first write is one that a full server still allows. The note is removed first: with its old score a ZADD
          changes nothing, and replicas would be sent nothing
  Source  hasplock's own ]]
local queue, hold = KEYS[2], ARGV[1]

--# include_number
--# include_permits

if tonumber(redis.call('zscore', queue, hold) or 0) < 3e15 then
    return 0
end
redis.call('zrem', queue, hold)
note(queue, 3e15, hold)
return hold
