--[[ condition_done: a waiter that was signalled holds its lock again. Its signal is used up

  KEYS[1] leases  zset: include_condition
  ARGV[1] waiter  see condition_enroll

  Returns 1; 0: there is no record of it any more
  Twice   the second run finds no record
  Wakes   nobody
  Order   its only write is one that a full server allows ]]
return redis.call('zrem', KEYS[1], ARGV[1])
