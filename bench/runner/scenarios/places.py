"""places-*: what does a lock cost over TLS, a Unix socket, behind Sentinel and in a cluster, beside one server on TCP?

Fixed: the workloads of W1, W2-64 and W4-4x1; all servers are on this machine, on the CPUs of the servers. The cluster
has three masters; its keys are spread over them, and one key is on one of them. Figures at the server are the sums of
all servers of a peer.
"""
from ..scenario import Scenario, Target, figure, ratio

PEERS = ("ours", "ours-unix", "ours-tls", "ours-sentinel", "ours-cluster")


def beside_one(metric, tls, cluster):
    return (
        Target("ours-tls / ours", ratio("ours-tls", "ours", metric), must=tls),
        Target("ours-unix / ours", ratio("ours-unix", "ours", metric)),
        Target("ours-sentinel / ours", ratio("ours-sentinel", "ours", metric), must=1.0),
        Target("ours-cluster / ours", ratio("ours-cluster", "ours", metric), must=cluster),
    )


SCENARIOS = (
    Scenario(
        name="places-W1", title="1 thread, own key; one operation = acquire + release", kind="own", base="ours",
        threads=1, seconds=1.5, peers=PEERS, targets=beside_one("rate", 0.8, 1.0)),
    Scenario(
        name="places-W2-64", title="64 threads, own keys; one operation = acquire + release", kind="own", base="ours",
        threads=64, peers=PEERS,
        targets=(*beside_one("rate", 0.8, 1.0),
                 Target("connections to a master, ours-cluster", figure("ours-cluster", "connections"), unit=""))),
    Scenario(
        name="places-W4-4x1", title="4 processes x 1 thread, one key; one operation = one acquisition", kind="shared",
        base="ours", threads=1, processes=4, peers=PEERS, targets=beside_one("handoffs", 0.9, 1.0)),
)
