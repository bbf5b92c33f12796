--[[ rw_renew: each lock that is held to read by its hold -> the same with ttl at least its lease. As lock_renew, which
     serves writers

  KEYS[i]       lock i     hash: include_rw; up to about 100 in a call
  KEYS[n + i]   own i      the reader's lease
  ARGV[i]       hold i     "<client id>:<hold id>"
  ARGV[n + i]   lease i    ms; n locks. Those left out at the end equal the last one given

  Returns a list with one number per lock, and then hold 1, which names the call that it answers:
          1        held by its hold; its ttl, and that of the lock, was at least the lease in this very run
          0        gone: not held, or its lease was over
          -1       the key is not a lock
          or an error: the server refuses to write now. Then no lock is reported as renewed
  Creates no key, shortens no ttl: neither its own nor that of other readers
  Beside  Redisson's renewal of a reader sets the ttl of the lock to that reader's lease, also to a shorter one. So a
          client of ours verifies a reader with a longer fixed lease each 10 s (a third of Redisson's default) by this
          script, with what is left of it, which raises the lock again
  Twice   the same
  Wakes   no waiter
  Order   pexpire is the only write, and a full server allows it ]]
local pcall, answers, n, lease = redis.pcall, {}, #KEYS / 2, nil
for i = 1, n do
    lease = ARGV[n + i] or lease
    local mine = pcall('hexists', KEYS[i], ARGV[i])
    if mine == 1 and pcall('exists', KEYS[n + i]) == 0 then
        mine = 0
    end
    answers[i] = type(mine) == 'number' and mine or -1
    for _, key in ipairs(mine == 1 and { KEYS[n + i], KEYS[i] } or {}) do
        if pcall('pttl', key) < tonumber(lease) then
            redis.call('pexpire', key, lease)
        end
    end
end
answers[n + 1] = ARGV[1]
return answers
