-- include_string: what a held lock is, for include_pass: a string, the holder's token. Its messages begin with "s".
-- luacheck: push ignore 211 431

local LETTER = 's'

-- False: refused.
local function give(lock, holder, ttl)
    return not redis.pcall('set', lock, holder, 'px', ttl).err
end

-- A token of others may be of any bytes and of any length. "": not held.
local function shown(holder)
    return holder == '' and '(empty)' or string.sub(holder or '', 1, 191)
end
-- luacheck: pop

