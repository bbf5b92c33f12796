-- include_held: whether the key's hash is a lock. A lock has exactly one field, which is named as hasplock or Redisson
-- names a holder, and whose value is a whole number above 0, the count. Any other hash is other data, or a read/write
-- lock. Included by the scripts that read the holder of a lock, or take the lock by force.
-- luacheck: push ignore 211 431

local UUID = '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+$'

local function is_lock(name, count)
    return (string.find(name, '^hlk%-.*:%d+$') or string.find(name, UUID)) and string.find(count, '^[1-9]%d*$') and
        #count <= 15
end

-- `held`: all fields and values of the hash. nil: it is a lock, or empty; else the error reply. Nothing is changed.
local function no_lock(held)
    if held[3] or held[1] and not is_lock(held[1], held[2]) then
        return redis.error_reply('HASPLOCK the key is a hash, but no lock of this kind: a lock has one field, its ' ..
            'holder ("hlk-...:<number>" or "<UUID>:<number>"), with a count. Nothing was changed')
    end
    return nil
end
-- luacheck: pop
