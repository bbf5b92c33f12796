"""W5: one peer after the other acquires its locks, is measured while it renews them, and releases them."""
import time
from array import array

from . import machine
from .driver import DriverError
from .server import difference

SWEEPS = 6              # of all held keys in each lease: closer together than two renewals of a key
DELAYS = (-0.003, 0.003, 0.01, 0.03, 0.1, 1 / 6)        # bounds of the classes, as shares of the lease


def measure(stand):
    """The figures of one peer; shares are of one core."""
    scenario, driver, server = stand.scenario, stand.drivers[0], stand.server
    rss_before, memory_before = machine.rss(driver.pid), server.memory()
    took = driver.ask("hold %d" % scenario.held)["took_s"]
    memory = server.memory() - memory_before
    time.sleep(scenario.lease_ms / 3000)                # every lock was renewed once before the window begins
    before, stats_before = server.reading(), driver.ask("stats")
    cpu, busy, own = driver.cpu_s(), machine.busy_s(), time.process_time()
    at = time.monotonic()
    time.sleep(scenario.window_s)
    window = time.monotonic() - at
    cpu, busy, own = driver.cpu_s() - cpu, machine.busy_s() - busy, time.process_time() - own
    counted, stats = difference(before, server.reading(), stand.sends), driver.ask("stats")
    result = {
        "take_s": took,
        "client_pct": cpu / window * 100,
        "server_pct": counted["cpu_s"] / window * 100,
        "commands_s": counted["commands"] / window,
        "kib_s": counted["bytes_in"] / window / 1024,
        "others": max(0.0, busy - cpu - counted["cpu_s"] - own) / window,
        "rss_mb": machine.rss(driver.pid) / 1e6,
        "rss_each": (stats.get("rss_after", stats["rss"]) - stats.get("rss_before", rss_before)) / scenario.held,
        "server_each": memory / scenario.held,
        "stats": stats,
    }
    if "renewals" in stats:
        result["renewals_s"] = (stats["renewals"] - stats_before["renewals"]) / window
    if "heap_after" in stats:
        result["heap_each"] = (stats["heap_after"] - stats["heap_before"]) / scenario.held
    if "renewals_late" in stats:
        result["renewals_late"] = stats["renewals_late"]
    result.update(sweep(stand))
    driver.ask("drop")
    return result


def sweep(stand):
    """Computes from PTTL when each held key was last renewed: the age of renewals, and the delay of the next ones."""
    scenario = stand.scenario
    names = ["bench:held:%d" % i for i in range(scenario.held)]
    renewed, ages, delays = array("d", bytes(8 * len(names))), [], []
    begin, gap, last_at = time.monotonic(), 0.0, 0.0
    for turn in range(SWEEPS):
        time.sleep(max(0.0, begin + turn * scenario.lease_ms / 1000 / SWEEPS - time.monotonic()))
        gap, last_at = max(gap, time.monotonic() - (last_at or time.monotonic())), time.monotonic()
        alive = note(stand.server.conn.ttls(names), scenario.lease_ms, renewed, ages, delays)
        if alive < scenario.held:
            raise DriverError("%s lost %d of %d locks" % (stand.peer.name, scenario.held - alive, scenario.held))
    ages.sort()
    result = {"alive": alive, **quantiles("age", ages)}
    if gap < scenario.lease_ms / 3000:      # else a renewal may have been missed, and the next one would look late
        delays.sort()
        result.update(quantiles("delay", [delay * scenario.lease_ms for delay in delays]))
        result["delay_classes"] = classes(delays)
    return result


def note(parts, lease_ms, renewed, ages, delays):
    """Fills in `renewed` for each key, in seconds. Ages and delays are shares of the lease. Returns the live keys."""
    at, alive, lease = 0, 0, lease_ms / 1000
    for moment, ttls in parts:
        for ttl in ttls:
            if ttl >= 0:
                age = 1 - ttl / lease_ms
                since = moment - age * lease
                ages.append(age)
                alive += 1
                if renewed[at] and since - renewed[at] > lease / 20:
                    delays.append((since - renewed[at]) / lease - 1 / 3)
                renewed[at] = since
            at += 1
    return alive


def quantiles(name, values):
    """Of sorted values."""
    if not values:
        return {}
    return {name + "_p50": values[len(values) // 2], name + "_p99": values[int(len(values) * 0.99)],
            name + "_max": values[-1]}


def classes(delays):
    """Counts by class: below each bound of DELAYS and not below the one before; the last class is above all."""
    counts = [0] * (len(DELAYS) + 1)
    for delay in delays:
        counts[sum(delay >= bound for bound in DELAYS)] += 1
    return counts
