"""Rounds: each peer has its own server and its own drivers, all stay up, and the peers take turns: A B C A B C ..."""
import mmap
import os
import threading
import time

from . import hist, machine
from .driver import Driver, DriverError
from .server import Server, difference

NOISY = 0.12            # of a core, used by others: the round is repeated
PLATEAU = 1.15          # a warmed peer that is still so much faster than two rounds before has not reached it


class Stand:
    """One peer in one scenario: server, drivers, the page they share."""

    def __init__(self, peer, command, scenario, placement):
        self.peer, self.scenario, self.placement = peer, scenario, placement
        self.drivers, self.rounds, self.discarded, self.warm_rates = [], [], [], []
        self.failed = ""                # why it was taken out
        self.sends = {**peer.sends, **(peer.sends_nested if scenario.kind == "nested" else {})}
        self.server = Server(placement.server)
        path = os.path.join(self.server.dir, "page")
        with open(path, "w+b") as file:
            file.truncate(mmap.PAGESIZE)
            self.page = memoryview(mmap.mmap(file.fileno(), mmap.PAGESIZE)).cast("Q")
        try:
            for process in range(scenario.processes):
                options = ["--port", str(self.server.port), "--process", str(process), "--page", path,
                           "--lease-ms", str(scenario.lease_ms)]
                self.drivers.append(Driver(peer.name, command + options, placement.client))
        except Exception:
            self.stop()
            raise

    @property
    def version(self):
        return self.drivers[0].version

    def stop(self):
        for driver in self.drivers:
            driver.stop()
        self.server.stop()

    def place_clients(self, cpus):
        for driver in self.drivers:
            machine.pin_all_threads(driver.pid, cpus)

    def round(self, seconds):
        """Runs one round and returns what it measured."""
        scenario = self.scenario
        for word in range(8):
            self.page[word] = 0
        for driver in self.drivers:
            driver.send("round %s %f %d" % (scenario.kind, seconds, scenario.threads))
        for driver in self.drivers:
            driver.answer()
        before, cpu_before = self.server.reading(), sum(driver.cpu_s() for driver in self.drivers)
        busy_before, at_before = machine.busy_s(), time.monotonic()
        own_before = time.process_time()
        start_ns = time.monotonic_ns() + 20_000_000
        for driver in self.drivers:
            driver.send("go %d" % start_ns)
        connections = self._connections_in(seconds / 2)
        answers = [driver.answer() for driver in self.drivers]
        cpu = sum(driver.cpu_s() for driver in self.drivers) - cpu_before
        busy, took = machine.busy_s() - busy_before, time.monotonic() - at_before
        own = time.process_time() - own_before
        server = difference(before, self.server.reading(), self.sends)
        result = evaluate(answers, start_ns, server, cpu)
        result["connections"] = connections()
        result["others"] = max(0.0, busy - cpu - server["cpu_s"] - own) / took
        if scenario.kind == "shared":
            check_exclusion(self, result)
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


def check_exclusion(stand, result):
    counter, violations, longest = stand.page[1], stand.page[2], stand.page[6]
    result["violations"] = violations
    result["lost_updates"] = result["ops"] - counter
    result["longest_run"] = longest
    result["handoffs"] = result.get("handoff", {"count": 0})["count"] / result["seconds"]
    if violations or counter != result["ops"]:
        raise DriverError("%s does NOT exclude: %d violations, counter %d after %d operations"
                          % (stand.peer.name, violations, counter, result["ops"]))


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
