--[[ probe: which command of our scripts this user may not run, and which server this is. Changes nothing. Each new
  connection runs it

  ARGV[1] key     of no lock. It need not be allowed, and is no declared one, which would keep the probe from running
                  at all: a key or channel that is refused says nothing, because the user's locks may have other names
  ARGV[2] pubsub  "1": with the commands for messages

  Returns {'probe', missing, run_id, uptime}: no message is like that
          missing  the first command that this user may not run; "": none
          run_id   of INFO: 40 hex digits, new for each process; "": this user may not run INFO
          uptime   of INFO: whole seconds; "": as before
  Twice   the same
  Wakes   no waiter ]]
local key = ARGV[1]
local tries = { { 'exists', key }, { 'hexists', key, 'x' }, { 'hkeys', key }, { 'hgetall', key }, { 'pttl', key },
    { 'pexpire', key, 1 }, { 'zscore', key, 'x' }, { 'hdel', key, 'x' }, { 'del', key },
    { 'zremrangebyscore', key, 0, 0 }, { 'zadd', key, 'xx', 0, 'x' }, { 'zrem', key, 'x' },
    { 'zrangebyscore', key, 1, 2 }, { 'zcount', key, 1, 2 }, { 'zrevrangebyscore', key, 2, 1 }, { 'zrank', key, 'x' },
    { 'zrange', key, 0, 0 }, { 'zrevrank', key, 'x' }, { 'zmscore', key, 'x' }, { 'zpopmin', key }, { 'time' },
    { 'hset', key, 'x', 1 }, { 'del', key } }
if ARGV[2] == '1' then
    tries[#tries + 1] = { 'pubsub', 'numsub' }
    tries[#tries + 1] = { 'publish', key, '' }
end

local missing = ''
for _, try in ipairs(tries) do
    local answer = redis.pcall(unpack(try))
    if type(answer) == 'table' and answer.err and (string.find(answer.err, 'run this command', 1, true)
        or string.find(answer.err, 'permissions to run the', 1, true)) then
        missing = try[1] == 'pubsub' and 'pubsub|' .. try[2] or try[1]
        break
    end
end
local info = redis.pcall('info', 'server')
info = type(info) == 'string' and info or ''
return { 'probe', missing, string.match(info, '\nrun_id:(%x+)') or '',
    string.match(info, '\nuptime_in_seconds:(%d+)') or '' }
