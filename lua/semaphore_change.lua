--[[ semaphore_change: what needs no waiting

  KEYS[1] key      string: free permits, may be negative; none: 0
  KEYS[2] queue    zset: tickets and notes (include_permits)
  ARGV[1] what     release      n more. It creates the semaphore
                   release_if   the same, if the semaphore exists
                   settle       only drops notes
                   try_set      n, if there is no semaphore; with a ttl if that is not 0
                   add          n more; n may be negative. It removes a ttl, as Redisson's does
                   drain        takes all that are free
                   get          only reads
                   delete       no semaphore any more
  ARGV[2] n        permits
  ARGV[3] hold     "<client id>:<hold id>", new for every call, the same in all attempts of a release
  ARGV[4] channel  of the semaphore; Redisson's waiters subscribe to it
  ARGV[5] drop_notes  hold ids of this client whose notes are needed no more, with spaces between; ""
  ARGV[6] ttl      ms, of try_set
  ARGV[7] yield_ms > 0, of a release: if one of Redisson's clients listens to the channel, the free permits are left to
                   such clients for so long (yield window). 0, or none: this release opens none

  Returns          release, release_if, try_set, delete: 1; 0 if nothing was done. add, get: the free permits. drain:
                   how many it took
          HASPLOCK ..., WRONGTYPE ...    the key is no semaphore, or would have more than Redisson reads (2^31 - 1);
                   nothing is changed
  Twice   a second release finds the note of the first one, and does nothing. The others do it again
  Wakes   the next in the queue, and Redisson's clients: the channel gets the number of free permits, if it has
          subscribers and that is above 0
  Order   the first write of a release is one that a full server still allows
  Source  key, channel and message are Redisson's RSemaphore ]]
local key, queue, what = KEYS[1], KEYS[2], ARGV[1]
local n, hold, channel, drop_notes, ttl = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local yield_ms = tonumber(ARGV[7] or '0')

--# include_number
--# include_permits

local free, refusal = permits(key)
if refusal then
    return refusal
end
if what == 'get' then
    return free
elseif what == 'delete' then
    return redis.call('del', key)
elseif what == 'settle' then
    remove(queue, nil, drop_notes, hold)
    drop_if_idle(queue)
    return 1
elseif what == 'drain' then
    if free > 0 then
        redis.call('set', key, '0', 'keepttl') -- Redisson's drainPermits removes the ttl
    end
    return math.max(free, 0)
end

local release = what == 'release' or what == 'release_if'
local notes = redis.call('zmscore', queue, hold, 'open')
if release and notes[1] then
    return 1
end
if (what == 'try_set' or what == 'release_if') and redis.call('exists', key) == (what == 'try_set' and 1 or 0) then
    remove(queue, nil, drop_notes, hold)
    return 0
end
local sum = what == 'try_set' and tonumber(n) or free + tonumber(n)
if sum > 2147483647 or sum < -2147483648 then
    return redis.error_reply('HASPLOCK the semaphore would have ' .. string.format('%.0f', sum) ..
        ' permits, which is no number that Redisson reads. Nothing was changed')
end
if release then
    redis.call('zrem', queue, hold) -- nothing: a full server allows this write, and then the rest
    redis.call('incrby', key, n)
    note(queue, 3e15, hold)
    remove(queue, nil, drop_notes, hold)
elseif ttl ~= '0' then
    redis.call('set', key, n, 'px', ttl)
else
    redis.call('set', key, string.format('%.0f', sum))
end
local yields = release and sum > 0 and yield_ms > 0 and has_foreign(queue, channel)
if yields then
    redis.pcall('zadd', queue, string.format('%.0f', 4e15 + now + yield_ms), 'open')
end
pass(key, queue, channel, sum, yields or window_ms(notes[2]) > 0)
return what == 'add' and sum or 1
