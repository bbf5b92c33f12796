"""O1: what does a client cost Redis that comes, uses one lock and goes, as a command in a shell does?

Fixed: 16 threads, each with a lock of its own; the server knows the scripts.
One operation: open a client, acquire, release, close.
"""
from ..scenario import Scenario, Target, ratio

SCENARIOS = (
    Scenario(
        name="O1", title="16 threads, own keys; one operation = open + acquire + release + close", kind="own",
        base="floor-open", threads=16, peers=("floor-open", "ours-open"), targets=(
            Target("server CPU, ours-open / floor-open", ratio("ours-open", "floor-open", "server_us"), at_most=True),
        )),
)
