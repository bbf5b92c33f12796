--[[ semaphore_confirm: the note that `hold` has taken is written again, so that replicas which have it have the rest

  KEYS[1] key      string: free permits
  KEYS[2] queue    zset: tickets and notes (part_permits)
  ARGV[1] hold     "<client id>:<hold id>"

  Returns 1        it has taken
          0        it has not, or it is too long ago
  Twice   as once
  Source  hasplock's own ]]
local queue, hold = KEYS[2], ARGV[1]

--# part_number
--# part_permits

if tonumber(redis.call('zscore', queue, hold) or 0) < 3e15 then
    return 0
end
note(queue, 3e15, hold)
return 1
