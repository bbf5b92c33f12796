"""Real Redisson clients and processes of ours contend for one plain lock: the share of each."""
import time
from statistics import median

from . import hist, meter, report, rounds
from .peers import PEERS
from .scenario import Scenario


class Beside(rounds.Stand):
    """Processes 0 .. m-1 are ours, those after them are Redisson's clients."""

    def __init__(self, builder, placement, options):
        title = "%d Redisson clients, %d processes of ours" % (options.java, options.ours)
        scenario = Scenario(name="beside", title=title, kind="shared", base="ours", peers=("ours", "redisson"),
                            processes=options.ours)
        java = builder.command(PEERS["redisson"])
        super().__init__(PEERS["ours"], builder.command(PEERS["ours"]), scenario, placement)
        self.ours, self.java, self.threads = options.ours, options.java, options.threads
        self.clients_each = options.java if options.one_jvm else 1
        try:
            for process in range(options.ours, options.ours + options.java, self.clients_each):
                clients = ["--clients", str(self.clients_each)]
                self.drivers.append(self.driver("redisson", java + clients, process))
        except Exception:
            self.stop()
            raise

    @property
    def jvms(self):
        return self.drivers[self.ours:]

    @property
    def names(self):
        return ["ours %d" % i for i in range(self.ours)] + ["redisson %d" % i for i in range(self.java)]

    def start(self, drivers, seconds):
        for driver in drivers:
            clients = self.clients_each if driver in self.jvms else 1
            driver.send("round shared %f %d" % (seconds, self.threads * clients))
        for driver in drivers:
            driver.answer()
        start_ns = time.monotonic_ns() + 20_000_000
        for driver in drivers:
            driver.send("go %d" % start_ns)
        return start_ns

    def warm(self, seconds):
        """Redisson's clients alone, on all CPUs. Returns their acquisitions a second, round by round."""
        self.place_clients(self.placement.all)
        rates, deadline = [], time.monotonic() + seconds
        while time.monotonic() < deadline:
            length = min(3.0, seconds / 4)
            self.start(self.jvms, length)
            rates.append(sum(driver.answer()["ops"] for driver in self.jvms) / length)
        self.place_clients(self.placement.client)
        return rates

    def measure(self, seconds):
        self.clear_page()
        used = meter.Meter(self)
        start_ns = self.start(self.drivers, seconds)
        answers = [driver.answer() for driver in self.drivers]
        server, cpu, others = used.read()
        result = meter.evaluate(answers, start_ns, server, cpu)
        rounds.check_exclusion(self, result)
        result.update(others=others, wait_ours=waits(answers[:self.ours]), wait_redisson=waits(answers[self.ours:]),
                      acquisitions=self.by_client(answers), turns=rounds.turns(self.page, self.ours + self.java))
        # Each release of Redisson's also sends the DEL of its latch; the other DELs are called by scripts.
        result["commands"] += sum(result["acquisitions"][self.ours:]) / max(result["ops"], 1)
        for what in ("acquisitions", "turns"):
            result[what + "_worst"] = worst(result[what], self.ours)
        return result

    def by_client(self, answers):
        counts = [answer["ops"] for answer in answers[:self.ours]]
        for answer in answers[self.ours:]:
            each = answer["per_thread"]         # threads are assigned to the clients in turn
            counts += [sum(each[client::self.clients_each]) for client in range(self.clients_each)]
        return counts


def worst(counts, ours):
    """The smallest share of a Redisson client, relative to an equal share for all clients."""
    return min(counts[ours:]) / max(sum(counts), 1) * len(counts)


def waits(answers):
    merged = {}
    for answer in answers:
        hist.add(merged, answer.get("acquire", ()))
    return {name: hist.percentile_us(merged, share) for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))}


def share(counts, which):
    return report.number(counts[which] / max(sum(counts), 1) * 100)


def text(stand, results):
    """Sums over the rounds by client, and the worst Redisson client of each round."""
    acquisitions, turns = ([sum(column) for column in zip(*(r[what] for r in results))]
                           for what in ("acquisitions", "turns"))
    rows = [["client", "acquisitions", "share %", "turns", "share %"]]
    for i, name in enumerate(stand.names):
        rows.append([name, report.number(acquisitions[i]), share(acquisitions, i), report.number(turns[i]),
                     share(turns, i)])
    lines = [report.table(rows), "fair share %s %%" % report.number(100 / len(rows[1:]))]
    for what in ("acquisitions", "turns"):
        each = [r[what + "_worst"] for r in results]
        lines.append("worst Redisson client, %s: %s of its fair share (rounds: %s)"
                     % (what, report.number(median(each)), " ".join(map(report.number, each))))
    for who in ("ours", "redisson"):
        waited = [report.number(median(r["wait_" + who][key] for r in results if r["wait_" + who][key] is not None))
                  for key in ("p50", "p99", "max")]
        lines.append("waits of %s, us: p50 %s, p99 %s, max %s" % (who, *waited))
    lines.append("acquisitions/s %s, hand-overs/s %s, commands per acquisition %s, others %s %%" % tuple(
        report.number(median(r[key] for r in results) * scale)
        for key, scale in (("rate", 1), ("handoffs", 1), ("commands", 1), ("others", 100))))
    return "\n".join(lines)
