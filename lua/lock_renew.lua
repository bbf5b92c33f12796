--[[ lock_renew: each lock that is held by its hold -> the same with ttl at least its lease

  KEYS[i]       lock i     hash: hold -> count; up to about 100 in a call
  ARGV[i]       hold i     "<client id>:<hold id>"
  ARGV[n + i]   lease i    ms; n locks. Those left out at the end equal the last one given: mostly there is one

  Returns a list with one number per lock, and then hold 1, which names the call that it answers:
          1        held by its hold; the ttl was at least the lease in this very run
          0        gone: not held
          -1       another one holds it, or the key is not a lock
          or an error: the server refuses to write now (READONLY, NOREPLICAS, MISCONF). Then no lock is reported as
                   renewed
  Creates no key, shortens no ttl, changes no field. A key of a wrong type affects its own reply only.
  Twice   the same
  Cost    PEXPIRE ... GT raises in one step: 1.38 us of server time a lock instead of 1.76, of 100 locks. The ttl is
          read only where that did not raise, or on 6.2, which has no GT. Each argument costs, so
          there is one lease for all. Holds are sent whole: joining them here costs more than it saves
          (docs/decisions/wire.md)
  Wakes   no waiter
  Order   pexpire is the only write, and a full server allows it ]]
local pcall, locks, args, answers = redis.pcall, KEYS, ARGV, {}
local n, lease = #locks, nil
for i = 1, n do
    local lock = locks[i]
    lease = args[n + i] or lease
    local mine = pcall('hexists', lock, args[i])
    if mine == 1 then
        -- 1: raised. 0: longer already, or without ttl. An error: a 6.2 server, which does not know GT
        if pcall('pexpire', lock, lease, 'GT') ~= 1 and pcall('pttl', lock) < tonumber(lease) then
            redis.call('pexpire', lock, lease)
        end
        answers[i] = 1
    elseif mine == 0 then
        answers[i] = -pcall('exists', lock)
    else
        answers[i] = -1
    end
end
answers[n + 1] = args[1]
return answers
