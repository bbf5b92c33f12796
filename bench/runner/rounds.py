"""Rounds: each peer has its own server and drivers, which keep running. The peers take turns: A B C A B C ..."""
import mmap
import os
import threading
import time

from . import drain, interrupted, machine
from .driver import Driver, DriverError
from .meter import Meter, evaluate
from .places import PLACES

NOISY = 0.12            # of a core, used by others: the round is repeated
PLATEAU = 1.15          # a peer that is still faster than two rounds before by more than this is not warm


class Stand:
    """One peer in one scenario: its place with the servers, drivers, the page they share."""

    def __init__(self, peer, command, scenario, placement, far):
        self.peer, self.scenario, self.placement = peer, scenario, placement
        self.drivers, self.rounds, self.discarded, self.warm_rates = [], [], [], []
        self.first_holder = None        # drain, wake, interrupted: the process that holds what the others wait for
        self.failed = ""                # why it was removed
        self.sends = {**peer.sends, **(peer.sends_nested if scenario.kind == "nested" else {})}
        self.place = PLACES[peer.place](placement.server, peer.masters)
        self.server = self.place.servers[0]
        self.page_path = os.path.join(self.server.dir, "page")
        with open(self.page_path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.page = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("Q")
        try:
            if far:
                self.place.go_far(*far)
            for process in range(scenario.processes):
                self.drivers.append(self.driver(peer.name, command, process))
            if scenario.has_holder:
                self.first_holder = self.driver(peer.name, command, scenario.processes)
            self.place.ready()
        except Exception:
            self.stop()
            raise

    def driver(self, name, command, process):
        port, *masters = map(str, self.place.ports)
        options = ["--port", port, "--process", str(process), "--page", self.page_path,
                   "--lease-ms", str(self.scenario.lease_ms)]
        if self.place.url:
            options += ["--url", self.place.url]
        elif masters:
            options += ["--masters", ",".join(masters)]
        return Driver(name, command + options, self.placement.client, self.place.environment)

    @property
    def version(self):
        return self.drivers[0].version

    def stop(self):
        for driver in [*self.drivers, self.first_holder]:
            if driver:
                driver.stop()
        self.place.stop()

    def place_clients(self, cpus):
        for driver in self.drivers:
            machine.pin_all_threads(driver.pid, cpus)

    def round(self, seconds):
        """Runs one round and returns what it measured."""
        self.clear_page()
        result = (drain.measure(self) if self.scenario.released_once
                  else interrupted.measure(self, seconds) if self.scenario.kind == "interrupted"
                  else self._measure(seconds))
        if self.scenario.contended:
            check_exclusion(self, result)
        if self.scenario.kind in ("permits", "halves") and self.page[2]:
            raise DriverError("%s: %d times there were too many" % (self.peer.name, self.page[2]))
        return result

    def clear_page(self):
        self.page[:] = memoryview(bytes(len(self.page) * 8)).cast("Q")

    def prepare(self, seconds):
        """All threads have started, with their connections, and wait for `go`."""
        for driver in self.drivers:
            driver.send("round %s %f %d" % (self.scenario.loop, seconds, self.scenario.threads))
        for driver in self.drivers:
            driver.answer()

    def holds(self):
        """So far, as the shared page counts them."""
        return self.page[1]

    def go(self):
        start_ns = time.monotonic_ns() + 20_000_000
        for driver in self.drivers:
            driver.send("go %d" % start_ns)
        return start_ns

    def _measure(self, seconds):
        self.prepare(seconds)
        meter = Meter(self)
        start_ns = self.go()
        connections = self._connections_in(seconds / 2)
        answers = [driver.answer() for driver in self.drivers]
        server, cpu, others = meter.read()
        result = evaluate(answers, start_ns, server, cpu)
        result["connections"] = connections()
        result["others"] = others
        return result

    def _connections_in(self, seconds):
        """Queries the server in the middle of the round."""
        seen = []
        timer = threading.Timer(seconds, lambda: seen.append(self.server.connections()))
        timer.start()

        def answer():
            timer.join()
            return seen[0] if seen else None
        return answer


def turns(page, processes):
    """Turns of each process: consecutive acquisitions are one."""
    return list(page[16:16 + processes])


def check_exclusion(stand, result):
    """Also the other figures of the shared page: bench/page.h."""
    page, ops = stand.page, result["ops"]
    holds = ops + (stand.first_holder is not None)
    counter, violations, tickets = page[1], page[2], page[7]
    handoffs = result.get("handoff", {"count": 0})["count"]
    result["violations"] = violations
    result["lost_updates"] = holds - counter
    result["longest_run"] = page[6]
    result["overtaken"] = page[9] / max(ops, 1) if tickets else None
    result["turns"] = turns(stand.page, stand.scenario.processes)
    result["handoffs"] = handoffs / result["seconds"]
    result["commands_handoff"] = result["commands"] * ops / max(handoffs, 1)
    if violations or counter != holds:
        raise DriverError("%s does NOT exclude: %d violations, counter %d after %d holds"
                          % (stand.peer.name, violations, counter, holds))


def warm(stand, seconds, say):
    """A JVM gets all CPUs until it is warm, then its own. Prints the rates of the warm-up."""
    stand.place_clients(stand.placement.all)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline or len(stand.warm_rates) < 4:
        stand.warm_rates.append(stand.round(min(3.0, seconds / 4))["rate"])
    stand.place_clients(stand.placement.client)
    say("    %s warmed %.0f s, rounds: %s" % (stand.peer.name, seconds,
                                              " ".join("%.0f" % rate for rate in stand.warm_rates)))


def still_climbs(stand):
    rates = stand.warm_rates
    return len(rates) >= 3 and rates[-1] > PLATEAU * rates[-3]


def interleave(stands, settings, seconds, warm_s, say):
    """Fills stand.rounds; a peer that fails is removed, with the reason in stand.failed."""
    rounds = settings["rounds"]

    def turn(stand, act):
        if stand.failed:
            return
        try:
            act(stand)
        except DriverError as why:
            stand.failed = str(why)
            say("    FAILED " + stand.failed)

    for stand in stands:
        if stand.peer.jvm:
            turn(stand, lambda s: warm(s, warm_s, say))
        turn(stand, lambda s: s.round(settings["burn_in_s"]))
    for _ in range(rounds):
        for stand in stands:
            turn(stand, lambda s: s.rounds.append(s.round(seconds)))
    for _ in range(settings["repeats"]):        # repeat disturbed rounds, then keep the quietest
        noisy = [s for s in stands if sum(r["others"] <= NOISY for r in s.rounds) < rounds and s.rounds]
        for stand in noisy:
            turn(stand, lambda s: s.rounds.append(s.round(seconds)))
    for stand in stands:
        stand.discarded = sorted(stand.rounds, key=lambda r: r["others"])[rounds:]
        stand.rounds = sorted(stand.rounds, key=lambda r: r["others"])[:rounds]


def open_stands(scenario, peers, builder, placement, say, delay_us=0):
    """The peers that can be built and started here; the reason of the others in the second result."""
    from .peers import Unavailable
    stands, missing = [], {}
    far = (builder.forwarder(), delay_us) if delay_us else None
    for peer in peers:
        try:
            command = builder.command(peer, scenario.variants.get(peer.name))
            stands.append(Stand(peer, command, scenario, placement, far))
        except (Unavailable, DriverError, OSError) as why:
            missing[peer.name] = str(why)
            say("    %s: NOT MEASURED: %s" % (peer.name, why))
    return stands, missing
