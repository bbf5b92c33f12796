/* floor_scripts.h - the scripts of the floors: the minimum for a lock, in two formats. */
#ifndef BENCH_FLOOR_SCRIPTS_H
#define BENCH_FLOOR_SCRIPTS_H

#define FLOOR_LEASE_MS "30000"

/* A string with a token. Acquire is SET NX PX; KEYS lock, ARGV token. */
#define FLOOR_TOKEN_RELEASE                                                                                            \
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"

/* Redisson's hash format, without the latch of its 4.x releases. KEYS lock, ARGV lease holder. */
#define FLOOR_HASH_ACQUIRE                                                                                             \
    "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "                      \
    "  redis.call('hincrby', KEYS[1], ARGV[2], 1) "                                                                    \
    "  redis.call('pexpire', KEYS[1], ARGV[1]) "                                                                       \
    "  return nil "                                                                                                    \
    "end "                                                                                                             \
    "return redis.call('pttl', KEYS[1])"

/* KEYS lock channel, ARGV lease holder. */
#define FLOOR_HASH_RELEASE                                                                                             \
    "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end "                                             \
    "if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then "                                                         \
    "  redis.call('pexpire', KEYS[1], ARGV[1]) "                                                                       \
    "  return 0 "                                                                                                      \
    "end "                                                                                                             \
    "redis.call('del', KEYS[1]) "                                                                                      \
    "redis.call('publish', KEYS[2], '0') "                                                                             \
    "return 1"

/* KEYS locks of one holder, ARGV lease holder. */
#define FLOOR_HASH_RENEW                                                                                               \
    "local alive = 0 "                                                                                                 \
    "for i = 1, #KEYS do "                                                                                             \
    "  if redis.call('hexists', KEYS[i], ARGV[2]) == 1 then "                                                          \
    "    redis.call('pexpire', KEYS[i], ARGV[1]) "                                                                     \
    "    alive = alive + 1 "                                                                                           \
    "  end "                                                                                                           \
    "end "                                                                                                             \
    "return alive"

#endif
