"""A peer of test_redlock.c: redlock-py on the masters whose addresses are the arguments (host:port). The commands are
those of redsync/main.go; it cannot extend."""
import sys

from redlock import Redlock

redlock = Redlock(["redis://" + address for address in sys.argv[1:]], retry_count=1, retry_delay=0.001)
lock = None
for line in sys.stdin:
    words = line.split()
    if words[0] == "acquire":
        lock = redlock.lock(words[1], int(words[2]))
        print("ok" if lock else "busy", flush=True)
    elif words[0] == "release":
        redlock.unlock(lock)
        print("ok", flush=True)
    else:
        print("no", flush=True)
