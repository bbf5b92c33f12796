"""W5: one peer after the other takes its locks, is watched while it renews them, and gives them back."""
import time

from . import machine
from .driver import DriverError
from .server import difference

SWEEPS = 6


def measure(stand):
    """The figures of one peer; shares are of one core."""
    scenario, driver, server = stand.scenario, stand.drivers[0], stand.server
    rss_before = machine.rss(driver.pid)
    took = driver.ask("hold %d" % scenario.held)["took_s"]
    time.sleep(scenario.lease_ms / 3000)                # every lock has been renewed once when the window opens
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
        "stats": stats,
    }
    if "renewals" in stats:
        result["renewals_s"] = (stats["renewals"] - stats_before["renewals"]) / window
    if "heap_after" in stats:
        result["heap_each"] = (stats["heap_after"] - stats["heap_before"]) / scenario.held
    if "renewals_late" in stats:
        result["renewals_late"] = stats["renewals_late"]
    result.update(ages(stand))
    driver.ask("drop")
    return result


def ages(stand):
    """How long ago the held keys were last renewed, as shares of the lease; and how many are alive."""
    scenario = stand.scenario
    names = ["bench:held:%d" % i for i in range(scenario.held)]
    found, alive = [], scenario.held
    for _ in range(SWEEPS):
        ttls = stand.server.conn.ttls(names)
        found += [1 - ttl / scenario.lease_ms for ttl in ttls if ttl >= 0]
        alive = min(alive, sum(ttl >= 0 for ttl in ttls))
        time.sleep(scenario.lease_ms / 9000)
    if alive < scenario.held:
        raise DriverError("%s lost %d of %d locks" % (stand.peer.name, scenario.held - alive, scenario.held))
    found.sort()
    tenths = [0] * 10
    for age in found:
        tenths[min(9, max(0, int(age * 10)))] += 1
    return {"alive": alive, "age_p50": found[len(found) // 2], "age_p99": found[int(len(found) * 0.99)],
            "age_max": found[-1], "age_tenths": tenths}
