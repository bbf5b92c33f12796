"""What a round has used of the server, the drivers and the machine, and its figures."""
import time

from . import hist, machine
from .server import difference, total


class Meter:
    """What a stand has used since this was made."""

    def __init__(self, stand):
        self.stand = stand
        self.server, self.cpu, self.helpers = self._servers(), self._cpu(), self._helpers()
        self.busy, self.at, self.own = machine.busy_s(), time.monotonic(), time.process_time()

    def _servers(self):
        return total([server.reading() for server in self.stand.place.servers])

    def _helpers(self):
        return sum(machine.cpu_s(helper.pid) for helper in self.stand.place.helpers)

    def _cpu(self):
        return sum(driver.cpu_s() for driver in self.stand.drivers)

    def read(self):
        """The servers' counts, the drivers' CPU time, and the share of a core that others used."""
        cpu = self._cpu() - self.cpu
        busy, took = machine.busy_s() - self.busy, time.monotonic() - self.at
        own = time.process_time() - self.own
        server = difference(self.server, self._servers(), self.stand.sends)
        own += self._helpers() - self.helpers
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
