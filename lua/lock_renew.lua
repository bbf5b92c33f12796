--[[ lock_renew: each lock that is held by its hold -> the same with ttl at least its lease

  KEYS[i]       lock i     hash: hold -> count; up to about 100 in a call
  ARGV[2i - 1]  lease i    ms
  ARGV[2i]      hold i     "<client id>:<hold id>"

  Returns a list with one number per lock:
          1        held by its hold; the ttl was at least the lease in this very run
          0        gone: nobody holds it
          -1       somebody else does, or the key is not a lock
  Creates no key, shortens no ttl, touches no field. A key of a wrong type spoils its own answer only.
  Twice   the same
  Cost    PEXPIRE ... GT raises in one step; the ttl is asked for only where that did not
  Wakes   nobody
  Order   pexpire is the only write, and a full server allows it ]]
local answers = {}
for i, lock in ipairs(KEYS) do
    local lease, hold = ARGV[2 * i - 1], ARGV[2 * i]
    local mine = redis.pcall('hexists', lock, hold)
    if mine == 1 then
        -- 1: raised. 0: longer already, or without end; an error: a 6.2 server that does not know GT
        if redis.pcall('pexpire', lock, lease, 'GT') ~= 1 and redis.pcall('pttl', lock) < tonumber(lease) then
            redis.pcall('pexpire', lock, lease)
        end
        answers[i] = 1
    elseif mine == 0 then
        answers[i] = -redis.pcall('exists', lock)
    else
        answers[i] = -1
    end
end
return answers
