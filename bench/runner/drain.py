"""W6: many wait while one holds; from its release on, how long until each of them has had the lock once?

The waiters' processes are driven as in any round; the holder is one process more, so that a waiter is never its
neighbour.
"""
import time

from . import rounds

SETTLE_S = 0.2          # nothing was sent for so long: all wait
POLLING_S = 3.0         # who goes on sending polls; it is let go then
QUEUE = ("hasplock_queue:{bench:one}", 1, 1e15)     # below 1 and above are no waiters: docs/protocol.md


def measure(stand):
    """The figures of one round; counts are per waiter."""
    stand.prepare(0)
    stand.first_holder.ask("take")
    queueing = rounds.Meter(stand)
    stand.go()
    for driver in stand.drivers:
        driver.answer()
    settle(stand.server)
    conn = stand.server.conn
    waiting = {"queued": conn.call("ZCOUNT", *QUEUE), "blocked": stand.server.blocked(),
               "connections": stand.server.connections()}
    draining = rounds.Meter(stand)
    released_ns = stand.first_holder.ask("give")["released_ns"]
    answers = [driver.answer() for driver in stand.drivers]
    server, cpu, others = draining.read()
    queued_too = queueing.read()[0]
    result = rounds.evaluate(answers, released_ns, server, cpu)
    waiters = max(result["ops"], 1)
    result.update(waiting)
    result["drain_s"] = result["seconds"]
    result["commands_all"] = queued_too["commands"] / waiters
    result["messages"] = server["messages"] / waiters
    result["others"] = others
    return result


def settle(server):
    """Until nobody sends any more."""
    deadline = time.monotonic() + POLLING_S
    sent, seen = -1, server.sent()
    while seen != sent and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
        sent, seen = seen, server.sent()
