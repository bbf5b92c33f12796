--[[ permit_change: how many permits there are. Those whose lease is over are given back first

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: see permit_acquire
  KEYS[3] leases   zset: the permits that are held (include_leases)
  ARGV[1] what     try_set  n free ones, if there is no number yet
                   set      n in all, those that are held included. Too many of them: less than 0 are free
                   add      n more free ones; n may be negative. It removes a ttl, as Redisson's does
                   get      only counts
                   delete   no number any more, if no permit is held
  ARGV[2] n        permits
  ARGV[3] channel  of the permits; Redisson's waiters subscribe to it

  Returns 1; 0: try_set found a number, delete found none; delete: -n: so many permits are held
          get: {free, held, waiting}. free may be negative
          HASPLOCK ..., WRONGTYPE ...    these are no permits, or there would be more than Redisson reads (2^31 - 1);
                   nothing is changed
  Twice   try_set and delete answer 0; set and get do nothing; add does it again
  Wakes   the next in the queue, and Redisson's clients
  Clock   the server's own
  Source  keys, channel and message are Redisson's RPermitExpirableSemaphore. Redisson publishes n; the number of free
          permits is published here, which is how many it wakes ]]
local key, queue, leases = KEYS[1], KEYS[2], KEYS[3]
local what, n, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3]

--# include_number
--# include_leases
--# include_listens
--# include_permit
--# include_queue
--# include_pass
--# include_grants

if what == 'try_set' and redis.call('exists', key) == 1 then
    return 0
end
local waiting = what == 'get' and redis.pcall('zcount', queue, 1, 1e15)
if type(waiting) == 'table' then
    return redis.error_reply(waiting.err .. ': ' .. queue)
end
local free, back = reclaim(key, leases, now_ms())
if not free then
    return back
end
if what == 'get' or what == 'delete' then
    if back > 0 then
        free = grant_free(key, queue, free)
        tell_foreign(channel, free)
    end
    local held = redis.call('zcount', leases, '-inf', '+inf')
    return what == 'get' and { free, held, waiting } or held > 0 and -held or redis.call('del', key)
end
local sum = what == 'try_set' and n or what == 'add' and free + n or n - redis.call('zcount', leases, '-inf', '+inf')
if sum > 2147483647 or sum < -2147483648 then
    return redis.error_reply('HASPLOCK there would be ' .. string.format('%.0f', sum) ..
        ' free permits, which is no number that Redisson reads. Nothing was changed')
end
if what == 'set' then
    redis.call('incrby', key, string.format('%.0f', sum - free))
else
    redis.call('set', key, string.format('%.0f', sum))
end
tell_foreign(channel, grant_free(key, queue, sum))
return 1
