--[[ rw_break: one half of a read/write lock: held by anybody -> the next waiters', or free

  KEYS[1] lock   hash: part_rw
  KEYS[2] queue  zset: see rw_acquire
  ARGV[1] mode   "read": taken from all readers; "write": from the writer, with the reads that it has beside

  Returns nil    not held so; nothing changed
          field  of a holder from which it was taken: "<client id>:<hold id>"
          or HASPLOCK ...: a hash that is no lock of this kind, nothing changed
  Twice   the second run answers nil, or takes the lock from the next holder. It is for operators, and is not repeated
          in the background
  Wakes   the holders, if they are hasplock's; then as rw_release
  Order   a key that is no lock is refused before the first write; del is allowed on a full server
  Source  Redisson's RReadWriteLock.forceUnlock ]]
local lock, queue = KEYS[1], KEYS[2]
local wanted = ARGV[1]

--# part_rw

local held, mode, holder = redis.call('hgetall', lock), nil, nil
for i = 1, #held, 2 do
    if held[i] == 'mode' then
        mode = held[i + 1]
    end
end
if held[1] and not mode then
    return redis.error_reply('HASPLOCK the key is a hash, but no read/write lock: that has a field "mode". Nothing ' ..
        'was changed')
end
if mode ~= wanted then
    return nil
end
redis.call('del', lock)
for i = 1, #held, 2 do
    local hold, writes = string.gsub(held[i], ':write$', '')
    if held[i] ~= 'mode' then
        holder = (not holder or writes == 1) and hold or holder
        for k = tonumber(held[i + 1]) or 0, 1, -1 do
            redis.pcall('del', key_of(held[i], k))
        end
        local client, id = string.match(hold, '^(hlk%-.*):(%d+)$')
        if client then
            send(client, (writes == 1 and 'w' or 'r') .. 'broken ' .. id .. ' 0')
        end
    end
end
pass()
if listeners() > 0 then
    wake_redisson()
end
return holder
