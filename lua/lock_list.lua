--[[ lock_list: one step through the keys of the server: the locks that are held. Changes nothing

  ARGV[1] cursor   of SCAN; 0: the first step
  ARGV[2] pattern  of SCAN, for the names
  ARGV[3] count    about how many keys to look at
  ARGV[4] type     "string": string locks; none: the others. A list is of one of the two: SCAN with that TYPE

  Returns {cursor, refused, name, ttl, holder, count, waiting, name...}
          cursor   for the next step; 0: this was the last one
          refused  number of keys that this user may not read
          ttl      in ms; -1: held without ttl
          waiting  processes in the queue, or subscribed to the channel if these are more; of a fair lock: threads
          or NOPERM ...: the user lacks the rights that only this script needs
  Wakes   no waiter
  Keys    are not declared: they are not known before. A key that this user may not read is counted, and left out
  Locks   are hashes that are locks (include_held). Those with more fields are not read: they may be large. And strings
          that are named as hasplock names a holder: a token of others may be anything ]]
local cursor, pattern, count, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or 'hash'

--# include_held

local function lacks_command(answer)
    return type(answer) == 'table' and answer.err and (string.find(answer.err, 'run this command', 1, true) or
        string.find(answer.err, 'permissions to run', 1, true))
end

local function needed()
    return redis.error_reply('NOPERM to list locks a user needs two rights more: ACL SETUSER <user> +scan ' ..
        (kind == 'string' and '+getrange' or '+hlen'))
end

local function number(answer)
    return type(answer) == 'number' and answer or 0
end

-- As src/script/keys.c names them.
local function key_of(prefix, name, bare_prefix)
    if string.find(name, '{', 1, true) then
        return (bare_prefix or prefix) .. name
    end
    return prefix .. '{' .. name .. '}'
end

local function waiting(name)
    local queued = number(redis.pcall('zcount', key_of('hasplock_queue:', name, 'hasplock_queue::'), 1, 1e15))
    local fair = number(redis.pcall('llen', key_of('redisson_lock_queue:', name)))
    local listeners = redis.pcall('pubsub', 'numsub', key_of('redisson_lock__channel:', name))
    return math.max(queued, fair, listeners.err and 0 or listeners[2])
end

local scanned = redis.pcall('scan', cursor, 'match', pattern, 'count', count, 'type', kind)
if lacks_command(scanned) then
    return needed()
elseif scanned.err then
    return scanned
end
local answer, refused = { scanned[1], 0 }, 0
local function add(name, holder, holds)
    for _, value in ipairs({ name, redis.call('pttl', name), holder, holds, waiting(name) }) do
        answer[#answer + 1] = value
    end
end

for _, name in ipairs(kind == 'string' and scanned[2] or {}) do
    local holder = redis.pcall('getrange', name, 0, 191)
    if lacks_command(holder) then
        return needed()
    elseif type(holder) == 'table' then
        refused = refused + 1
    elseif string.find(holder, '^hlk%-.*:%d+$') then
        add(name, holder, 1)
    end
end
for _, name in ipairs(kind == 'hash' and scanned[2] or {}) do
    local fields = redis.pcall('hlen', name)
    if lacks_command(fields) then
        return needed()
    end
    local held = fields == 1 and redis.pcall('hgetall', name) or {}
    if type(fields) == 'table' or held.err then
        refused = refused + 1
    elseif held[1] and not no_lock(held) then
        add(name, held[1], tonumber(held[2]))
    end
end
answer[2] = refused
return answer
