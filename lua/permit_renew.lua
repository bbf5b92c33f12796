--[[ permit_renew: each permit that is held by its hold -> the same with its lease at least. As lock_renew, of permits

  KEYS[i]       leases i   zset: the permits that are held (include_leases); up to about 100 in a call
  ARGV[i]       hold i     "<client id>:<hold id>"
  ARGV[n + i]   lease i    ms; n permits. Those left out at the end equal the last one given: mostly there is one

  Returns a list with one number per permit, and then hold 1, which names the call that it answers:
          1        held by its hold; the lease was at least this in this very run
          0        gone: not held, or its lease was over
          -1       the key is not of permits
          or an error: the server refuses to write now. Then no permit is reported as renewed
  Creates no key, shortens no lease
  Twice   the same
  Wakes   no waiter
  Order   a full server allows the first write, and so the others
  Clock   the server's own ]]

--# include_number
--# include_leases

local time, answers, lease = redis.call('time'), {}, nil
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, #KEYS do
    lease = tonumber(ARGV[#KEYS + i]) or lease
    local held = redis.pcall('zscore', KEYS[i], ARGV[i])
    answers[i] = type(held) == 'table' and -1 or held and raise(KEYS[i], ARGV[i], lease, now) or 0
end
answers[#KEYS + 1] = ARGV[1]
return answers
