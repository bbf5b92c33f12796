"""async: how close does one thread with completions come to the limit of one connection and one Redis thread?

Fixed: 64 pairs in flight, each on a lock of its own, one thread, one connection; lease 30 s.
One operation: acquire and release. ours-dispatch, ours-events and rslock wait for both replies. ours-forget continues
when the release is accepted, as the example in hasplock.h does. The ceiling waits only for the whole batch of 64.
"""
from ..scenario import Scenario, Target, ratio

SCENARIOS = (
    Scenario(
        name="async", title="64 pairs in flight, own keys, one thread; one operation = acquire + release",
        kind="async", base="ceiling", threads=64,
        peers=("ceiling", "ours-dispatch", "ours-forget", "ours-events", "rslock"),
        targets=(
            Target("ours-dispatch / ceiling", ratio("ours-dispatch", "ceiling"), must=0.85),
            Target("ours-forget / ceiling", ratio("ours-forget", "ceiling"), must=0.85),
            Target("ours-dispatch / rslock", ratio("ours-dispatch", "rslock"), must=1.0),
            Target("ours-forget / rslock", ratio("ours-forget", "rslock"), must=1.0),
        )),
)
