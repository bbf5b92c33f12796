--[[ latch_set: no count, or 0 -> count

  KEYS[1] latch    string: see latch_await
  ARGV[1] count    >= 1
  ARGV[2] channel  of the latch

  Returns 1        set
          0        it has a count that is not 0 yet; nothing is changed
          HASPLOCK ...   the key is a string that is no number; nothing is changed. WRONGTYPE: it is no string
  Twice   a second run finds the count, and answers 0: an attempt in doubt is never repeated (src/api/latch.c)
  Wakes   no waiter: "1" means a new count
  Order   reads before it writes
  Source  Redisson's RCountDownLatch. It refuses also where a key has "0", which only its own trySetCount(0) writes ]]
local latch, channel = KEYS[1], ARGV[2]

--# include_latch

local left, refusal = count_of(latch)
if refusal or left and left > 0 then
    return refusal or 0
end
redis.call('set', latch, ARGV[1])
redis.pcall('publish', channel, '1')
return 1
