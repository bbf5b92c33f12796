"""W5: what do held locks cost while they are only renewed?

Fixed: one process holds the locks under its watchdog; both forms renew 10,000 keys a second. W5-1M is a separate stress
run with 100,000 keys a second, which runs only if named.
One operation: none; CPU shares of a core over the window, memory per held lock on both sides, how old the renewals are
(lease minus PTTL of every key, read six times within a lease after the window), and how late: the time between two
renewals of a key, minus the third of the lease after which one is due.
"""
from ..scenario import Scenario, Target, figure

PEERS = ("floor-batch", "ours", "redisson")

TARGETS = (
    Target("client CPU of ours, % of a core", figure("ours", "client_pct"), 1.5, at_most=True, unit="%"),
    Target("server CPU of ours, % of a core", figure("ours", "server_pct"), 1.5, at_most=True, unit="%"),
    Target("memory of ours per held lock", figure("ours", "rss_each"), 400, at_most=True, unit="B"),
    Target("oldest renewal of ours / lease", figure("ours", "age_max"), 0.5, at_most=True, unit=""),
    Target("renewals later than half a lease, ours", figure("ours", "renewals_late"), 0, at_most=True, unit=""),
)



def scenario(name, held, lease_s, window_s, peers=PEERS, stress=False):
    return Scenario(name=name, title="{:,} locks held, lease {} s".format(held, lease_s), kind="held",
                    base="floor-batch", held=held, lease_ms=lease_s * 1000, window_s=window_s, peers=peers,
                    targets=() if stress else TARGETS, stress=stress)


LARGE = ("floor-batch", "ours")

FULL = (scenario("W5", 100_000, 30, 40), scenario("W5-1M", 1_000_000, 30, 40, LARGE, stress=True))
QUICK = (scenario("W5", 10_000, 3, 9), scenario("W5-1M", 100_000, 3, 9, LARGE, stress=True))
