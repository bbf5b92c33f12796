"""Rounds: each peer has its own server and its own drivers, all stay up, and the peers take turns: A B C A B C ..."""
import mmap
import os
import threading
import time

from . import drain, hist, machine
from .driver import Driver, DriverError
from .server import Server, difference

NOISY = 0.12            # of a core, used by others: the round is repeated
PLATEAU = 1.15          # a warmed peer that is still so much faster than two rounds before has not reached it


class Stand:
    """One peer in one scenario: server, drivers, the page they share."""

    def __init__(self, peer, command, scenario, placement):
        self.peer, self.scenario, self.placement = peer, scenario, placement
        self.drivers, self.rounds, self.discarded, self.warm_rates = [], [], [], []
        self.first_holder = None        # drain: the process that holds the lock while the others queue
        self.failed = ""                # why it was taken out
        self.sends = {**peer.sends, **(peer.sends_nested if scenario.kind == "nested" else {})}
        self.server = Server(placement.server)
        self.page_path = os.path.join(self.server.dir, "page")
        with open(self.page_path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.page = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("Q")
        try:
            for process in range(scenario.processes):
                self.drivers.append(self.driver(peer.name, command, process))
            if scenario.kind == "drain":
                self.first_holder = self.driver(peer.name, command, scenario.processes)
        except Exception:
            self.stop()
            raise

    def driver(self, name, command, process):
        options = ["--port", str(self.server.port), "--process", str(process), "--page", self.page_path,
                   "--lease-ms", str(self.scenario.lease_ms)]
        return Driver(name, command + options, self.placement.client)

    @property
    def version(self):
        return self.drivers[0].version

    def stop(self):
        for driver in [*self.drivers, self.first_holder]:
            if driver:
                driver.stop()
        self.server.stop()

    def place_clients(self, cpus):
        for driver in self.drivers:
            machine.pin_all_threads(driver.pid, cpus)

    def round(self, seconds):
        """Runs one round and returns what it measured."""
        self.clear_page()
        result = drain.measure(self) if self.scenario.kind == "drain" else self._measure(seconds)
        if self.scenario.contended:
            check_exclusion(self, result)
        return result

    def clear_page(self):
        self.page[:] = memoryview(bytes(len(self.page) * 8)).cast("Q")

    def prepare(self, seconds):
        """All threads are there, with their connections, and wait for `go`."""
        for driver in self.drivers:
            driver.send("round %s %f %d" % (self.scenario.kind, seconds, self.scenario.threads))
        for driver in self.drivers:
            driver.answer()

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
        """Asks the server in the middle of the round."""
        seen = []
        timer = threading.Timer(seconds, lambda: seen.append(self.server.connections()))
        timer.start()

        def answer():
            timer.join()
            return seen[0] if seen else None
        return answer


class Meter:
    """What a stand has used since this was made."""

    def __init__(self, stand):
        self.stand = stand
        self.server, self.cpu = stand.server.reading(), self._cpu()
        self.busy, self.at, self.own = machine.busy_s(), time.monotonic(), time.process_time()

    def _cpu(self):
        return sum(driver.cpu_s() for driver in self.stand.drivers)

    def read(self):
        """The server's counts, the drivers' CPU time, and the share of a core that others used."""
        cpu = self._cpu() - self.cpu
        busy, took = machine.busy_s() - self.busy, time.monotonic() - self.at
        own = time.process_time() - self.own
        server = difference(self.server, self.stand.server.reading(), self.stand.sends)
        return server, cpu, max(0.0, busy - cpu - server["cpu_s"] - own) / took


def evaluate(answers, start_ns, server, client_cpu_s):
    """The figures of a round; times in us, counts per operation."""
    ops = sum(answer["ops"] for answer in answers)
    elapsed = (max(answer["finished_ns"] for answer in answers) - start_ns) / 1e9
    result = {"ops": ops, "seconds": elapsed, "rate": ops / elapsed, "calls": server["calls"]}
    for name in ("acquire", "pair", "handoff"):
        merged = {}
        for answer in answers:
            hist.add(merged, answer.get(name, ()))
        if merged:
            result[name] = {"count": sum(merged.values()), "p50": hist.percentile_us(merged, 0.5),
                            "p99": hist.percentile_us(merged, 0.99), "p999": hist.percentile_us(merged, 0.999)}
    each = max(ops, 1)
    result["commands"] = server["commands"] / each
    result["inner"] = server["inner"] / each
    result["bytes_in"] = server["bytes_in"] / each
    result["bytes_out"] = server["bytes_out"] / each
    result["reads"] = server["reads"] / each
    result["server_us"] = server["cpu_s"] * 1e6 / each
    result["client_us"] = client_cpu_s * 1e6 / each
    result["switches"] = sum(answer["switches"] for answer in answers) / each
    result["per_thread"] = [count for answer in answers for count in answer["per_thread"]]
    result["per_process"] = [answer["ops"] for answer in answers]
    return result


def turns(page, processes):
    """Of each process: consecutive acquisitions are one."""
    return list(page[16:16 + processes])


def check_exclusion(stand, result):
    """And what else stands in the shared page: bench/page.h."""
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
    """A JVM gets all CPUs until it is warm, then its place; says whether it still climbed at the end."""
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
    """Fills stand.rounds; a peer that fails is taken out, with the reason in stand.failed."""
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
    for _ in range(settings["repeats"]):        # once more whatever was disturbed, then the quietest are kept
        noisy = [s for s in stands if sum(r["others"] <= NOISY for r in s.rounds) < rounds and s.rounds]
        for stand in noisy:
            turn(stand, lambda s: s.rounds.append(s.round(seconds)))
    for stand in stands:
        stand.discarded = sorted(stand.rounds, key=lambda r: r["others"])[rounds:]
        stand.rounds = sorted(stand.rounds, key=lambda r: r["others"])[:rounds]


def open_stands(scenario, peers, builder, placement, say):
    """The peers that can be built and started here; the reason of the others in the second result."""
    from .peers import Unavailable
    stands, missing = [], {}
    for peer in peers:
        try:
            command = builder.command(peer, scenario.variants.get(peer.name))
            stands.append(Stand(peer, command, scenario, placement))
        except (Unavailable, DriverError, OSError) as why:
            missing[peer.name] = str(why)
            say("    %s: NOT MEASURED: %s" % (peer.name, why))
    return stands, missing
