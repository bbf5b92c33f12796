-- part_held: what the lock's key holds. A lock is a hash with exactly one field, the holder, and how often as a whole
-- number above 0. Any other hash is somebody's data, or a read/write lock of Redisson's. Included by the scripts that
-- say who holds a lock, or take it by force.

-- `held`: all that is in the hash. nil: it is a lock, or nothing; else the answer to give, with nothing changed.
local function no_lock(held)
    if held[3] or held[1] and not string.find(held[2], '^[1-9]%d*$') then
        return redis.error_reply('HASPLOCK the key is a hash, but no lock of this kind: that has one field, whose ' ..
            'value counts holds. Nothing was changed')
    end
    return nil
end
