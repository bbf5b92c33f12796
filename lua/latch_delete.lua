--[[ latch_delete: count of a latch -> none

  KEYS[1] latch    string: see latch_await
  KEYS[2] notes    zset: see latch_await
  ARGV[1] channel  of the latch

  Returns 1        deleted
          0        there was none
          HASPLOCK ...   the key is a string that is no number; nothing is changed. WRONGTYPE: it is no string
  Twice   a second run finds none, and answers 0: an attempt in doubt is never repeated (src/api/latch.c)
  Wakes   all waiters: without a count there is no wait
  Source  Redisson's delete() publishes "1" instead, which leaves its waiters blocked ]]
local latch, notes, channel = KEYS[1], KEYS[2], ARGV[1]

--# include_latch

local left, refusal = count_of(latch)
if not left then
    return refusal or 0
end
open(latch, notes, channel)
return 1
