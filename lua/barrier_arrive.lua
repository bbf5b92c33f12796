--[[ barrier_arrive: a party of a barrier arrives, once; or asks what has become of its arrival

  KEYS[1] barrier  hash: include_barrier
  KEYS[2] arrived  zset: include_barrier
  ARGV[1] party    "<client id>:<slot>". One wait at a time is a party's
  ARGV[2] hold     number of the wait, larger than those of the party's earlier ones; the same in all its attempts
  ARGV[3] parties  how many it waits for, itself included
  ARGV[4] lease    ms
  ARGV[5] seen     the generation that an answer to this wait has named; "0": none has
  ARGV[6] data     the barrier's data that the caller knows: an answer 3 has named it. "0": none has
  ARGV[7] channel  of the barrier

  Returns {0, gen, index, waiting}
                   it waits in `gen`, with a lease of at least `lease` from this very run. index: from parties - 1, the
                   first to arrive, down. waiting: how many have arrived, for people
          {1, gen, index}
                   all have arrived, and pass. index 0: this one was the last
          {2, gen, why}
                   its generation is broken. why: "<word> <party>" (include_barrier), or "lost -": Redis has no record
                   of it any more
          {3, data}
                   it has not arrived: this is other data than the caller knows. A wait that may have arrived in the
                   data before has lost it; any other one sends that number. The barrier is made if there is none
          -1       this wait has ended (barrier_leave), or the party has a later one: a late attempt
          HASPLOCK ...
                   others have arrived and wait for another number of parties; nothing is changed
  Checks  the first that fits:
          the party has a later wait, or this one has left        -1
          this wait was broken                                    2
          it is of a generation that was lost                     2, lost
          it is of an earlier generation                          1: it has passed
          it is of this one, and some lease is over               2: the generation is broken
          it is of this one                                       0: its lease is raised
          seen is a generation, and there is no record            2, lost
          there is no barrier, or `data` is another one           3
          some lease is over, or an earlier wait of the party     that generation is broken; it arrives in the next
          has arrived
          others wait for another number of parties               HASPLOCK
          it is the last                                          1: the next generation begins, the channel gets `gen`
          else                                                    0
  Twice   the second run finds the party's record, and raises its lease
  Wakes   all that wait, when all have arrived or one has died
  Dead    a party whose lease is over breaks the generation, in any run of a party that waits in it, and before another
          one arrives. So does an earlier wait of this party that has arrived, and did not get to leave
  Order   it reads both keys before the first write, which is one that a full server refuses
  Clock   the server's own, for the leases ]]
local barrier, arrived = KEYS[1], KEYS[2]
local party, hold, parties, lease = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local seen, channel = tonumber(ARGV[5]), ARGV[7]

--# include_barrier

local last, mine, rest = last_wait(party)
if last and (last > hold or last == hold and mine == 'left') then
    return -1
end
local gen, here, lost, data = state()
if gen and redis.call('zcard', arrived) ~= here then
    gen, here, lost = lose(gen)
end
local dead = redis.call('zrangebyscore', arrived, '-inf', '(' .. text(now), 'limit', '0', '1')[1]

-- What has become of its arrival?
if last == hold and gen then
    local how = outcome(mine, rest, gen, lost)
    if how or dead then
        return how or { 2, mine, break_generation(gen, 'died', dead) }
    end
    redis.call('zadd', arrived, 'gt', text(now + lease), party)
    keep(lease)
    return { 0, mine, tonumber(string.match(rest, '^%d+')), here .. ' of ' .. ARGV[3] .. ' parties' }
elseif seen > 0 then
    return { 2, ARGV[5], 'lost -' }
end

if not gen then
    gen = time[1] * 1000000 + time[2]
    data = text(gen)
    redis.call('hset', barrier, 'gen', data, 'data', data, 'here', '0')
    redis.pcall('del', arrived)
    keep(lease)
end
if ARGV[6] ~= data then
    return { 3, data }
end

-- It arrives now. An earlier wait of its own that still stands in this generation was given up unheard.
local word = 'died'
if not dead and here > 0 and redis.call('zscore', arrived, party) then
    word, dead = 'left', party
end
if not dead and here > 0 and redis.call('hget', barrier, 'parties') ~= ARGV[3] then
    return redis.error_reply('HASPLOCK others wait there for another number of parties. Nothing was changed')
end
if dead then
    break_generation(gen, word, dead)
    gen, here = gen + 1, 0
end
local index = parties - 1 - here
redis.call('hset', barrier, 'parties', ARGV[3], 'here', here + 1, party,
    ARGV[2] .. ' ' .. text(gen) .. ' ' .. index .. ' ' .. text(now))
if not last then
    forget_old(gen, parties)
end
if index == 0 then
    next_generation(gen, '')
    keep(lease)
    return { 1, text(gen), 0 }
end
redis.call('zadd', arrived, text(now + lease), party)
keep(lease)
return { 0, text(gen), index, here + 1 .. ' of ' .. ARGV[3] .. ' parties' }
