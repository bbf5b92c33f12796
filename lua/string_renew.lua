--[[ string_renew: each lock that is held by its hold -> the same with ttl at least its lease. As lock_renew, of strings

  KEYS[i]       lock i     string: the holder's token; up to about 100 in a call
  ARGV[i]       hold i     "<client id>:<hold id>"
  ARGV[n + i]   lease i    ms; n locks. Those left out at the end equal the last one given: mostly there is one

  Returns a list with one number per lock, and then hold 1, which names the call that it answers:
          1        held by its hold; the ttl was at least the lease in this very run
          0        gone: not held
          -1       another one holds it, or the key is no string
          or an error: the server refuses to write now (READONLY, NOREPLICAS, MISCONF). Then no lock is reported as
                   renewed
  Creates no key, shortens no ttl, changes no value. A key of a wrong type affects its own reply only.
  Twice   the same
  Wakes   no waiter
  Order   pexpire is the only write, and a full server allows it ]]
local pcall, locks, args, answers = redis.pcall, KEYS, ARGV, {}
local n, lease = #locks, nil
for i = 1, n do
    local lock = locks[i]
    lease = args[n + i] or lease
    local holder = pcall('get', lock)
    if holder == args[i] then
        -- 1: raised. 0: longer already, or without ttl. An error: a 6.2 server, which does not know GT
        if pcall('pexpire', lock, lease, 'GT') ~= 1 and pcall('pttl', lock) < tonumber(lease) then
            redis.call('pexpire', lock, lease)
        end
        answers[i] = 1
    else
        answers[i] = holder and -1 or 0
    end
end
answers[n + 1] = args[1]
return answers
