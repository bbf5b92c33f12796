"""A peer of test_string_peers.c: redis-py's Lock on the server whose address is the argument (host:port). The commands
are those of redislock/main.go."""
import sys

import redis
from redis.exceptions import LockError

host, port = sys.argv[1].split(":")
server = redis.Redis(host, int(port))


def lock_of(name, ttl_ms):
    return server.lock(name, timeout=int(ttl_ms) / 1000, sleep=0.001, blocking_timeout=20)


def does(call, *args, **kwargs):
    try:
        return call(*args, **kwargs)
    except LockError:
        return False


def rounds(name, n):
    for _ in range(int(n)):
        held = lock_of(name, 20000)
        if not held.acquire():
            return False
        inside = server.incr(name + ":inside")
        server.decr(name + ":inside")
        if does(held.release) is False or inside != 1:
            return False
    return True


lock = None
for line in sys.stdin:
    command, *words = line.split()
    if command in ("acquire", "wait"):
        lock = lock_of(*words)
        answer = "ok" if lock.acquire(blocking=command == "wait") else "busy"
    elif command == "extend":
        answer = "no" if does(lock.extend, int(words[0]) / 1000, replace_ttl=True) is False else "ok"
    elif command == "release":
        answer = "no" if does(lock.release) is False else "ok"
    else:
        answer = "ok" if rounds(*words) else "no"
    print(answer, flush=True)
