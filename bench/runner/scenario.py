"""What a scenario is; the scenarios themselves are in scenarios/, one question a file."""
from dataclasses import dataclass, field
from typing import Callable, Optional


@dataclass(frozen=True)
class Target:
    """One cell of the table of targets: a figure of this run against what it must and should reach."""
    what: str
    value: Callable             # summaries by peer -> number; KeyError: a peer of it was not measured
    must: Optional[float] = None
    aim: Optional[float] = None
    at_most: bool = False       # else at least
    unit: str = "x"

    def reached(self, value, bar):
        return None if bar is None else value <= bar if self.at_most else value >= bar


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str                  # what is held fixed and what one operation is, in a line
    kind: str                   # of the round: own, shared, permits, drain, ... (bench/driver.h), interrupted, or held
    base: str                   # the peer that ratios refer to
    peers: tuple
    targets: tuple = ()
    threads: int = 1            # of each process; async: pairs in flight
    processes: int = 1
    seconds: float = 2.0        # of a round
    lease_ms: int = 30000
    held: int = 0               # locks
    window_s: float = 0         # held: how long CPU is measured
    stress: bool = False        # runs only if named in full
    variants: dict = field(default_factory=dict)    # peer -> driver variant, where it is not the peer's name

    @property
    def metric(self):
        return "handoffs" if self.kind == "shared" else "rate"

    @property
    def contended(self):
        """One thread after the other holds it."""
        return self.kind in ("shared", "drain")

    @property
    def loop(self):
        """What the drivers run."""
        return "shared" if self.kind == "interrupted" else self.kind

    @property
    def has_holder(self):
        """A process of its own holds what the others wait for."""
        return self.released_once or self.kind == "interrupted"

    @property
    def released_once(self):
        """All wait for what a process of its own holds, and releases once."""
        return self.kind in ("drain", "wake")


def ratio(over, under, metric="rate"):
    return lambda summaries: summaries[over][metric] / summaries[under][metric]


def figure(peer, metric):
    return lambda summaries: summaries[peer][metric]
