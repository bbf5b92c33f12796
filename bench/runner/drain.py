"""W6: many clients wait while one holds. From its release, how long until each of them has held the lock once?
L1: many wait for a latch. From its count down, how long until each of them has returned?
C2: many wait at a condition. From the acquire of the one that broadcasts, how long until each has held the lock once?

The waiters' processes are driven as in any round. The holder is a separate process, so no waiter shares its process.
"""
import time

from . import meter

SETTLE_S = 0.2          # without a command for so long, all wait
POLLING_S = 3.0         # a peer that still sends commands then polls, and the round begins
QUEUE = ("hasplock_queue:{bench:one}", 1, 1e15)     # entries outside these scores are no waiters: docs/protocol.md
FAIR_QUEUE = "redisson_lock_queue:{bench:one}"


def measure(stand):
    """The figures of one round; counts are per waiter."""
    stand.prepare(0)
    stand.first_holder.ask("take")
    queueing = meter.Meter(stand)
    stand.go()
    for driver in stand.drivers:
        driver.answer()
    settle(stand.server)
    conn = stand.server.conn
    waiting = {"queued": conn.call("ZCOUNT", *QUEUE) + conn.call("LLEN", FAIR_QUEUE), "blocked": stand.server.blocked(),
               "connections": stand.server.connections()}
    draining = meter.Meter(stand)
    released_ns = stand.first_holder.ask("give")["released_ns"]
    answers = [driver.answer() for driver in stand.drivers]
    server, cpu, others = draining.read()
    queued_too = queueing.read()[0]
    result = meter.evaluate(answers, released_ns, server, cpu)
    waiters = max(result["ops"], 1)
    result.update(waiting)
    result["drain_s"] = result["seconds"]
    result["commands_all"] = queued_too["commands"] / waiters
    result["messages"] = server["messages"] / waiters
    result["others"] = others
    return result


def settle(server):
    """Waits until no client sends commands any more."""
    deadline = time.monotonic() + POLLING_S
    sent, seen = -1, server.sent()
    while seen != sent and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
        sent, seen = seen, server.sent()
