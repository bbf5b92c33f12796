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

--# part_held
--# part_rw_held
--# part_queue
--# part_rw

local held, holder = redis.call('hgetall', lock), nil
local refusal = no_rw_lock(held)
if refusal or mode_of() ~= wanted then
    return refusal
end
redis.call('del', lock)
for i = 1, #held, 2 do
    local hold, writes = string.gsub(held[i], ':write$', '')
    if held[i] ~= 'mode' then
        holder = (not holder or writes == 1) and hold or holder
        for _, key in ipairs(keys_of(held[i], held[i + 1])) do
            redis.pcall('del', key)
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
