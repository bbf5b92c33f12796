"""A private redis-server for one peer, and the few commands the runner sends it."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from . import machine


class Connection:
    """The needed part of the protocol: commands in, replies out, also pipelined."""

    def __init__(self, port):
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb")

    def send(self, *args):
        parts = [b"*%d\r\n" % len(args)]
        for arg in args:
            data = arg if isinstance(arg, bytes) else str(arg).encode()
            parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
        self.sock.sendall(b"".join(parts))

    def read(self):
        line = self.file.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:]
        if kind == b"-":
            raise RuntimeError("redis-server: " + rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2].decode(errors="replace")
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        return rest.decode()

    def call(self, *args):
        self.send(*args)
        return self.read()

    def ttls(self, names):
        """The PTTL of every name, a thousand in a write: (time, list), ..."""
        for first in range(0, len(names), 1000):
            part = names[first:first + 1000]
            sent = time.monotonic()
            self.sock.sendall(b"".join(b"*2\r\n$4\r\nPTTL\r\n$%d\r\n%s\r\n" % (len(n), n.encode()) for n in part))
            ttls = [int(self.file.readline()[1:]) for _ in part]
            yield (sent + time.monotonic()) / 2, ttls


# Commands that clients send themselves, with a peer's `sends` (peers.py). All others in commandstats were called by
# scripts.
SENT = {"evalsha", "eval", "script", "subscribe", "unsubscribe", "psubscribe", "ssubscribe", "sunsubscribe", "ping",
        "client", "hello", "auth", "select", "blpop", "lpush", "wait", "role", "command"}
RUNNERS = {"info", "zcount"}        # sent by the runner
MESSAGES = {"publish", "spublish"}


class Server:
    """Started on a free port of 127.0.0.1, without persistence; dies with the runner."""

    def __init__(self, cpus, options=lambda dir: {}):
        self.dir, self.options = tempfile.mkdtemp(prefix="hasplock-bench-"), options
        for _ in range(5):
            self.port = free_port()
            self.process = self._start(cpus)
            self.conn = self._wait_until_up()
            if self.conn:
                return
        raise RuntimeError("redis-server does not start: see " + self.dir)

    def _start(self, cpus):
        options = {"port": self.port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": self.dir,
                   "logfile": os.path.join(self.dir, "log"), "maxclients": 4096, **self.options(self.dir)}
        args = [word for name, value in options.items() for word in ("--" + name, str(value))]
        return subprocess.Popen(["redis-server", *args], preexec_fn=lambda: child_setup(cpus),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def _wait_until_up(self):
        while self.process.poll() is None:
            try:
                conn = Connection(self.port)
                # Checks that it is ours, and not another process that took the port meanwhile.
                if int(info(conn, "server")["process_id"]) == self.process.pid:
                    return conn
                return None
            except (OSError, RuntimeError):
                time.sleep(0.01)
        return None

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def reading(self):
        """All counters now, for the difference to a later reading."""
        stats = info(self.conn, "stats")
        cpu = info(self.conn, "cpu")
        return {
            "commands": command_counts(self.conn),
            "bytes_in": int(stats["total_net_input_bytes"]),
            "bytes_out": int(stats["total_net_output_bytes"]),
            "reads": int(stats.get("total_reads_processed", 0)),
            "cpu_s": float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"]),
        }

    def connections(self):
        return int(info(self.conn, "clients")["connected_clients"]) - 1

    def memory(self):
        return int(info(self.conn, "memory")["used_memory"])

    def blocked(self):
        return int(info(self.conn, "clients")["blocked_clients"])

    def sent(self):
        """Commands of all clients and scripts so far, without the runner's."""
        return sum(n for name, n in command_counts(self.conn).items() if name not in RUNNERS)


def total(readings):
    """The counters of several servers as those of one."""
    first, *others = readings
    for other in others:
        for name, calls in other.pop("commands").items():
            first["commands"][name] = first["commands"].get(name, 0) + calls
        for name, value in other.items():
            first[name] += value
    return first


def difference(before, after, sends):
    """`sends`: command -> share of its calls that clients sent themselves."""
    calls = {name: after["commands"][name] - before["commands"].get(name, 0) for name in after["commands"]
             if name not in RUNNERS}
    sent = sum(n * sends.get(name.split("|")[0], 1 if name.split("|")[0] in SENT else 0) for name, n in calls.items())
    result = {key: after[key] - before[key] for key in ("bytes_in", "bytes_out", "reads", "cpu_s")}
    result["commands"] = sent
    result["messages"] = sum(n for name, n in calls.items() if name in MESSAGES)
    result["inner"] = sum(calls.values()) - sent
    result["calls"] = {name: n for name, n in calls.items() if n}
    return result


def info(conn, section):
    text = conn.call("INFO", section)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def command_counts(conn):
    stats = info(conn, "commandstats")
    return {name[len("cmdstat_"):]: int(value.split("calls=")[1].split(",")[0]) for name, value in stats.items()}


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def child_setup(cpus):
    """In the child, before exec: it dies with the runner and is bound to its CPUs."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    machine.pin(0, cpus)
