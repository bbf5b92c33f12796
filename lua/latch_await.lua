--[[ latch_await: what a latch still waits for. Changes nothing

  KEYS[1] latch   string: how many times it is still to be counted down; none, or below 1: not at all
  KEYS[2] notes   zset: "opened", whose score is when the latch was last counted down to 0, or deleted: the server's
                  clock, in us. It lives for 10 minutes
  ARGV[1] opened  what the first answer of this wait said of it; "": there was none yet

  Returns "0"     no wait: the count is 0, or was since the first answer
          {count, opened}
                  a wait goes on. The count is "0" if it is gone since the first answer, and no client has noted an
                  opening: Redisson has opened it, or the data was lost. opened: "0": not known
          HASPLOCK ...   the key is a string that is no number. WRONGTYPE: it is no string
  Twice   the same
  Wakes   no waiter
  Source  Redisson's RCountDownLatch reads the key by GET ]]
local latch, notes, seen = KEYS[1], KEYS[2], ARGV[1]

--# include_latch

local left, refusal = count_of(latch)
if refusal then
    return refusal
end
local noted = redis.pcall('zscore', notes, 'opened')
local opened = type(noted) == 'string' and noted or '0'
local is_open = not left or left <= 0
if seen == '' and is_open or seen ~= '' and opened ~= '0' and opened ~= seen then
    return '0'
end
return { string.format('%.0f', math.max(left or 0, 0)), opened }
