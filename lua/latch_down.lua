--[[ latch_down: count of a latch -> less by n, not below 0; at 0 the key is deleted

  KEYS[1] latch    string: see latch_await
  KEYS[2] notes    zset: see latch_await
  ARGV[1] n        >= 1
  ARGV[2] channel  of the latch

  Returns the count that is left, >= 0
          HASPLOCK ...   the key is a string that is no number; nothing is changed. WRONGTYPE: it is no string
  Twice   counts down twice: an attempt in doubt is never repeated (src/api/latch.c)
  Wakes   all waiters, when the count becomes 0
  Order   reads before it writes. The last count down writes by DEL, which a full server allows; after it every call is
          a pcall; publish comes last
  Source  Redisson's RCountDownLatch: "0" is published when a count above 0 becomes 0, and nothing else ]]
local latch, notes, n, channel = KEYS[1], KEYS[2], tonumber(ARGV[1]), ARGV[2]

--# include_latch

local left, refusal = count_of(latch)
if not left then
    return refusal or 0
end
if left > n then
    return redis.call('incrby', latch, '-' .. ARGV[1])
end
if left > 0 then
    open(latch, notes, channel)
else
    redis.call('del', latch)
end
return 0
