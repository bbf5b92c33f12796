"""M1-held: contenders of one lock, and in the middle another process holds what all of them need. How soon after its
release is the rate what it was before?
"""
import time

from . import meter
from .driver import DriverError

HOLD_S = 2.5
WINDOW_S, WINDOWS = 0.25, 6     # of the rates after the release
BACK = 0.5                      # of the rate before: it is back


def measure(stand, seconds):
    """The figures of one round: `seconds`, the hold, the windows."""
    stand.prepare(seconds + HOLD_S + WINDOW_S * WINDOWS)
    used = meter.Meter(stand)
    start_ns = stand.go()
    time.sleep(seconds)
    before = stand.holds() / (time.monotonic() - start_ns / 1e9)
    stand.first_holder.ask("take")
    time.sleep(HOLD_S)
    released_ns = stand.first_holder.ask("give")["released_ns"]
    rates = list(windows(stand))
    answers = [driver.answer() for driver in stand.drivers]
    server, cpu, others = used.read()
    result = meter.evaluate(answers, start_ns, server, cpu)
    if stand.page[2]:
        raise DriverError("%s does NOT exclude: %d violations" % (stand.peer.name, stand.page[2]))
    ended_s = (max(answer["finished_ns"] for answer in answers) - released_ns) / 1e9
    result.update(rate_before=before, others=others, back_s=back_after(rates, before, ended_s),
                  **{"window_%d" % (i + 1): rate for i, rate in enumerate(rates)})
    return result


def windows(stand):
    at, seen = time.monotonic(), stand.holds()
    for i in range(WINDOWS):
        time.sleep(max(0.0, at + (i + 1) * WINDOW_S - time.monotonic()))
        now = stand.holds()
        yield (now - seen) / WINDOW_S
        seen = now


def back_after(rates, before, ended_s):
    """The end of the first window in which the rate is back; if it is in none, when the last contender ended."""
    for i, rate in enumerate(rates):
        if rate >= BACK * before:
            return (i + 1) * WINDOW_S
    return ended_s
