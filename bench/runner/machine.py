"""What the runner reads from the machine: CPUs, CPU time, the load of other programs, versions."""
import os
import platform
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")


class Placement:
    """Which CPUs the servers and the clients may use."""

    def __init__(self, pinned):
        cpus = sorted(os.sched_getaffinity(0))
        self.pinned = pinned and len(cpus) > 1
        self.all = set(cpus)
        self.server = {cpus[0]} if self.pinned else self.all
        self.client = {cpus[1]} if self.pinned else self.all

    @property
    def text(self):
        if not self.pinned:
            return "unpinned"
        return "pinned: servers on CPU %d, clients on CPU %d" % (*self.server, *self.client)


def pin(pid, cpus):
    os.sched_setaffinity(pid, cpus)


def pin_all_threads(pid, cpus):
    for task in os.listdir("/proc/%d/task" % pid):
        try:
            pin(int(task), cpus)
        except ProcessLookupError:
            pass                            # it ended meanwhile


def cpu_s(pid):
    """CPU time of a process with its ended threads, in nanoseconds: clock_getcpuclockid(3) by hand."""
    return time.clock_gettime((~pid << 3) | 2)


def busy_s():
    """CPU time of all processes of the machine, in ticks of 10 ms."""
    with open("/proc/stat") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def rss(pid):
    with open("/proc/%d/statm" % pid) as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def output(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def describe(top):
    """The settings and versions for the output."""
    cpu = ""
    with open("/proc/cpuinfo") as cpuinfo:
        for line in cpuinfo:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": cpu,
        "cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "redis": output("redis-server", "--version"),
        "commit": output("git", "-C", top, "rev-parse", "--short", "HEAD"),
        "changed": bool(output("git", "-C", top, "status", "--porcelain", "--untracked-files=no")),
    }
