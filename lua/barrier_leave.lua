--[[ barrier_leave: a party gives up its wait. Its generation is broken, if it is under way

  KEYS[1] barrier  hash: include_barrier
  KEYS[2] arrived  zset: include_barrier
  ARGV[1] party    see barrier_arrive
  ARGV[2] hold     number of the wait
  ARGV[3] word     why it leaves, for the others: include_barrier
  ARGV[4] data     see barrier_arrive
  ARGV[5] channel  of the barrier

  Returns {0}      it has left, now or before; or it had not arrived, and never will: a late attempt finds that. An
                   earlier wait of the party that has arrived breaks its generation
          {1, gen, index}
                   it has not left: all had arrived, and have passed
          {2, gen, why}
                   its generation was broken before. {2, data, "lost -"}: there is no record of it, and this is other
                   data than the caller knows
  Twice   the second run finds that it has left
  Wakes   all that wait
  Order   it reads before it writes; the first write is one that a full server refuses: the lease breaks the generation
          then
  Clock   the server's own, for the age of a record ]]
local barrier, arrived = KEYS[1], KEYS[2]
local party, hold, word, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[5]

--# include_barrier

local last, mine, rest = last_wait(party)
if last and (last > hold or last == hold and mine == 'left') then
    return { 0 }
end
local gen, here, lost, data = state()
if gen and redis.call('zcard', arrived) ~= here then
    gen, here, lost = lose(gen)
end
local arrives = last == hold and gen
local how = arrives and outcome(mine, rest, gen, lost)
if how then
    return how
elseif not arrives and ARGV[4] ~= data then -- none of its attempts can arrive in this data
    return ARGV[4] == '0' and { 0 } or { 2, ARGV[4], 'lost -' }
end
-- Without it: an earlier wait of its own that still stands was given up unheard.
local stands = arrives or here > 0 and redis.call('zscore', arrived, party)
redis.call('hset', barrier, party, ARGV[2] .. ' left 0 ' .. text(now))
if stands then
    redis.call('zrem', arrived, party)
    break_generation(gen, word, party)
end
keep(0)
return { 0 }
