--[[ lock_list: one step through the keys of the server: the locks that are held. Changes nothing

  ARGV[1] cursor   of SCAN; 0: the first step
  ARGV[2] pattern  of SCAN, for the names; of "every" and "numbers": how the names begin
  ARGV[3] count    about how many keys to look at
  ARGV[4] type     none: plain, fenced and fair locks; "string": string locks: SCAN with that TYPE. "every": locks and
                   permits of every kind, barriers and conditions; "numbers": semaphores, latches and other numbers, too

  Returns {cursor, refused, name, ttl, holder, count, waiting, name...}
          of "every" and "numbers" each has four values more: kind, number (include_kind), note, left
          cursor   for the next step; 0: this was the last one
          refused  number of keys that this user may not read
          ttl      in ms; -1: held without ttl
          waiting  processes in the queue, or subscribed to the channel if these are more; of a fair lock: threads
          note     what its holder has written for people (lock_note); "": nothing. left: of its ttl
          or NOPERM ...: the user lacks the rights that only this script needs
  Wakes   no waiter
  Keys    are not declared: they are not known before. A key that this user may not read is counted, and left out. Notes
          are no locks, and are left out uncounted
  Locks   are hashes that are locks (include_held). Those with more fields are not read: they may be large. And strings
          that are named as hasplock names a holder: a token of others may be anything. "every": include_kind; a
          read/write lock with more than 1,000 fields is left out
  Clock   of "every": the server's own, for leases ]]
local cursor, pattern, count, kind = ARGV[1], ARGV[2], ARGV[3], ARGV[4] or 'hash'
local numbers = kind == 'numbers'
local every = numbers or kind == 'every'
local MOST_FIELDS = 1000

--# include_held
--# include_rw_held
--# include_kind

local function lacks_command(answer)
    return type(answer) == 'table' and answer.err and (string.find(answer.err, 'run this command', 1, true) or
        string.find(answer.err, 'permissions to run', 1, true))
end

local function needed()
    return redis.error_reply('NOPERM to list locks a user needs ' .. (every and 'four' or 'two') ..
        ' rights more: ACL SETUSER <user> +scan ' ..
        (every and '+type +hlen +getrange' or kind == 'string' and '+getrange' or '+hlen'))
end

local function waiting(name)
    local fair = number(redis.pcall('llen', key_of('redisson_lock_queue:', name)))
    return math.max(queued(name), fair, listeners(key_of('redisson_lock__channel:', name)))
end

local scanned = every and redis.pcall('scan', cursor, 'count', count) or
    redis.pcall('scan', cursor, 'match', pattern, 'count', count, 'type', kind)
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

local function is_note(key)
    return string.sub(key, 1, 14) == 'hasplock_note:'
end

-- A number that belongs to a lock: the last token, a reader's lease, or the latch of a release.
local function is_of_lock(key)
    return string.sub(key, 1, 20) == 'redisson_lock_token:' or string.sub(key, 1, 22) == 'redisson_unlock_latch:' or
        string.find(key, ':rwlock_timeout:%d+$')
end

for _, name in ipairs(kind == 'string' and scanned[2] or {}) do
    local holder = is_note(name) and '' or redis.pcall('getrange', name, 0, 191)
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

local function waiting_for(name, found)
    if found.kind == READ or found.kind == WRITE then
        return number(redis.pcall('zcount', key_of('hasplock_rwlock:', name, 'hasplock_rwlock::'), 1, 1e15))
    end
    return found.kind == PERMIT and queued(name) or waiting(name)
end

-- After a refusal no other note is looked for: the server notes each look in ACL LOG.
local notes = true
local function note_of(name, holder)
    local key = key_of('hasplock_note:', name, 'hasplock_note::') .. ':' .. holder
    local note = notes and string.find(holder, '^hlk%-') and redis.pcall('get', key)
    notes = notes and type(note) ~= 'table'
    if type(note) ~= 'string' then
        return '', 0
    end
    return note, redis.call('pttl', key)
end

local function add_kind(name, found)
    local ttl = found.ttl or found.kind < BARRIER and redis.call('pttl', name) or 0
    local note, left = note_of(name, found.holder or '')
    for _, value in ipairs({ name, ttl, found.holder or '', found.count, found.waiting or waiting_for(name, found),
        found.kind, found.number or 0, note, left }) do
        answer[#answer + 1] = value
    end
end

-- For a string that this list does not name nothing is looked up beside it: there may be millions.
local function string_to_list(key, text)
    local free = number_in(text)
    if is_hold(text) or numbers and free and not is_of_lock(key) then
        return kind_of_string(key, text)
    end
    return free and leased(key, free)
end

-- What `key` is; nil: none of these. Second: an answer of the server that refuses it.
local function look_at(key)
    local of = redis.pcall('type', key)
    if of.ok == 'string' then
        local text = redis.pcall('getrange', key, 0, 191)
        return type(text) == 'string' and string_to_list(key, text), text
    elseif of.ok ~= 'hash' then
        return nil, of
    end
    local fields = redis.pcall('hlen', key)
    local some = type(fields) == 'number' and (fields == 1 or fields <= MOST_FIELDS and
        redis.pcall('hexists', key, 'mode') == 1)
    local held = some and redis.pcall('hgetall', key) or {}
    return held[1] and kind_of_hash(key, held), held.err and held or fields
end

-- What waits in a key of hasplock's own, and of which name.
local function waiting_in(key)
    if string.sub(key, 1, 9) ~= 'hasplock_' then
        return nil
    end
    local what, name = string.match(key, '^hasplock_(%a+):{(.*)}$')
    if not what then
        what, name = string.match(key, '^hasplock_(%a+)::(.+)$')
    end
    return what == 'arrived' and BARRIER or what == 'condition' and CONDITION or what == 'queue' and STRING or nil, name
end

-- A string lock that another library holds, and for which hasplock waits.
local function add_foreign(name)
    local text = redis.pcall('type', name).ok == 'string' and redis.pcall('getrange', name, 0, 191)
    local found = type(text) == 'string' and not is_hold(text) and kind_of_string(name, text)
    if found and found.kind == STRING then
        add_kind(name, found)
    end
end

local function add_waiting(what, name)
    local waits = what == BARRIER and at_barrier(name) or what == CONDITION and at_condition(name) or 0
    if what == STRING then
        add_foreign(name)
    elseif waits > 0 then
        add_kind(name, { kind = what, count = 0, waiting = waits })
    end
end

local function is_held(found)
    return found.count > 0 and found.kind ~= SOME_STRING or
        numbers and (found.kind == SEMAPHORE or found.kind == LATCH or found.kind == NUMBER)
end

for _, key in ipairs(every and scanned[2] or {}) do
    local what, name = waiting_in(key)
    local found, refusal
    if string.sub(what and name or key, 1, #pattern) ~= pattern or is_note(key) then
        found = nil
    elseif what then
        add_waiting(what, name)
    else
        found, refusal = look_at(key)
    end
    if lacks_command(refusal) then
        return needed()
    elseif type(refusal) == 'table' and refusal.err then
        refused = refused + 1
    elseif found and is_held(found) then
        add_kind(key, found)
    end
end
answer[2] = refused
return answer
