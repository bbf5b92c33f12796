--[[ lock_note: the note of a holder, for people. Changes nothing

  KEYS[1] note    string: "hasplock_note:{name}:<holder>", or "hasplock_note::name:<holder>"

  Returns {text, ttl}   ttl in ms
          nil           there is none
  Wakes   no waiter
  Writes  such a note: SET with PX, and DEL, by no script (src/script/shared_commands.c) ]]
local text = redis.call('get', KEYS[1])
return text and { text, redis.call('pttl', KEYS[1]) }
