--[[ barrier_reset: the generation of a barrier -> broken, if a party waits in it

  KEYS[1] barrier  hash: include_barrier
  KEYS[2] arrived  zset: include_barrier
  ARGV[1] channel  of the barrier

  Returns how many waited
  Twice   the second run breaks the next generation, if a party has arrived: an attempt in doubt is never repeated
          (src/api/barrier.c)
  Wakes   all that wait
  Order   it reads before it writes; the first write is one that a full server refuses ]]
local barrier, arrived, channel = KEYS[1], KEYS[2], ARGV[1]

--# include_barrier

local gen, here = state()
if not gen or here == 0 then
    return 0
elseif redis.call('zcard', arrived) ~= here then
    lose(gen)
else
    break_generation(gen, 'reset', '-')
end
return here
