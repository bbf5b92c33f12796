--[[ lock_find: which kind of lock a name is (include_kind). Changes nothing

  KEYS[1] name     any key; none

  Returns {kind, number, parties, waiters}
          kind     of enum hlk_lock_kind, or of enum hlk_found_kind
          number   of a number: that; else 0
          parties  how many wait at the barrier of that name, and
          waiters  how many at the condition
  Wakes   no waiter
  Keys    beside the name's own are not declared: this user need not have rights to them. In a cluster they are in the
          same slot
  Clock   the server's own, for leases ]]
local name = KEYS[1]

--# include_held
--# include_rw_held
--# include_kind

local held = redis.pcall('hgetall', name)
local found
if held.err then
    local text = redis.pcall('get', name)
    found = type(text) == 'string' and kind_of_string(name, text)
elseif held[1] then
    found = kind_of_hash(name, held)
elseif redis.pcall('exists', key_of('redisson_lock_queue:', name)) == 1 then
    found = { kind = FAIR }
else
    found = leased(name, 0) or { kind = NOTHING }
end
return { found and found.kind or OTHER, found and found.number or 0, at_barrier(name), at_condition(name) }
