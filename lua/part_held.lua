-- part_held: whether the key's hash is a lock. A lock has exactly one field, the holder, whose value is a whole number
-- above 0, the count. Any other hash is other data, or a read/write lock of Redisson's. Included by the scripts that
-- read the holder of a lock, or take the lock by force.

-- `held`: all fields and values of the hash. nil: it is a lock, or empty; else the error reply. Nothing is changed.
local function no_lock(held)
    if held[3] or held[1] and not string.find(held[2], '^[1-9]%d*$') then
        return redis.error_reply('HASPLOCK the key is a hash, but no lock of this kind: that has one field, whose ' ..
            'value counts holds. Nothing was changed')
    end
    return nil
end
