--[[ latch_await: what a latch still waits for. Changes nothing

  KEYS[1] latch   string: how many times it is still to be counted down; none: not at all

  Returns the count as a string; "0": nobody has to wait
          HASPLOCK ...   the key is a string that is no number. WRONGTYPE: it is no string
  Twice   the same
  Wakes   nobody
  Source  Redisson's RCountDownLatch reads the key by GET ]]

--# part_latch

local left, refusal = count_of(KEYS[1])
return refusal or string.format('%.0f', math.max(left or 0, 0))
