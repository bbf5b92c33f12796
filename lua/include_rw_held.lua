-- include_rw_held: whether a hash is a read/write lock of Redisson's: it has a mode, and its other fields are holders,
-- whose values are counts. Included behind include_held.

-- `held`: all fields and values of the hash. nil: it is one, or empty; else the error reply. Nothing is changed.
local function no_rw_lock(held)
    local is, mode = true, nil
    for i = 1, #held, 2 do
        if held[i] == 'mode' then
            mode = held[i + 1]
        else
            is = is and is_lock(string.gsub(held[i], ':write$', ''), held[i + 1])
        end
    end
    if held[1] and not (is and (mode == 'read' or mode == 'write')) then
        return redis.error_reply('HASPLOCK the key is a hash, but no read/write lock: that has a field "mode", and ' ..
            'holders. Nothing was changed')
    end
    return nil
end
