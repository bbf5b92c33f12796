--[[ rw_break: one half of a read/write lock: held by any client, or by the holder that is named -> the next
     waiters', or free; or, taken from one of several readers, held by the others

  KEYS[1] lock   hash: include_rw
  KEYS[2] queue  zset: see rw_acquire
  ARGV[1] mode   "read": taken from all readers, or from the one that is named; "write": from the writer, with the reads
                 that it has beside
  ARGV[2] only   the reader, or the writer, from which it is to be taken: "<client id>:<hold id>"; none: any

  Returns nil    not held so; nothing changed
          field  of a holder from which it was taken: "<client id>:<hold id>"
          {field} of a holder, and `only` is none; nothing changed
          or HASPLOCK ...: a hash that is no lock of this kind, nothing changed
  Twice   the second run answers nil, or takes the lock from the next holder; with `only` it changes nothing. It is for
          operators, and is not repeated in the background
  Wakes   the holders that lost it, if they are hasplock's; then as rw_release
  Order   a key that is no lock is refused before the first write; del and hdel are allowed on a full server
  Source  Redisson's RReadWriteLock.forceUnlock ]]
local lock, queue = KEYS[1], KEYS[2]
local wanted, only = ARGV[1], ARGV[2]

--# include_held
--# include_rw_held
--# include_queue
--# include_rw

local held, holder = redis.call('hgetall', lock), nil
local refusal = no_rw_lock(held)
if refusal or mode_of() ~= wanted then
    return refusal
end
for i = 1, #held, 2 do
    local hold, writes = string.gsub(held[i], ':write$', '')
    if held[i] ~= 'mode' and (not holder or writes == 1 or wanted == 'read' and hold == only) then
        holder = hold
    end
end
if only and holder ~= only then
    return holder and { holder }
end

local one = only and wanted == 'read' -- its hold alone
local left = one and #held > 4 and redis.call('pttl', lock) -- other readers keep it
if left then
    redis.call('hdel', lock, only)
else
    redis.call('del', lock)
end
for i = 1, #held, 2 do
    local hold, writes = string.gsub(held[i], ':write$', '')
    if held[i] ~= 'mode' and (not one or hold == only) then
        for _, key in ipairs(keys_of(held[i], held[i + 1])) do
            redis.pcall('del', key)
        end
        local client, id = string.match(hold, '^(hlk%-.*):(%d+)$')
        if client then
            send(client, (writes == 1 and 'w' or 'r') .. 'broken ' .. id .. ' 0')
        end
    end
end
if left then
    shorten(left < 0 and math.huge or left)
end
local mode, head = pass()
if left and mode and head then -- if only Redisson's readers are left, no other client calls it
    send(head.client, head.kind .. 'open ' .. head.id .. ' 0')
end
if listeners() > 0 then
    wake_redisson()
end
return holder
