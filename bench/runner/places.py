"""Where a peer's servers are. Most peers have one server on 127.0.0.1; others are reached over TLS, a Unix socket, a
sentinel or a cluster, or have several masters. All can be put behind forwarders that delay each way (--rtt)."""
import os
import signal
import subprocess
import time

from .server import Server, child_setup, free_port

PATIENCE_S = 30
SLOTS = 16384
SERVICE = "bench"


class Place:
    """One server on TCP, or `masters` of them that know nothing of each other."""

    def __init__(self, cpus, masters=1):
        self.cpus, self.url, self.environment, self.helpers = cpus, None, {}, []
        self.servers = []
        try:
            for _ in range(masters):
                self.servers.append(Server(cpus, self.options_of))
            self.ports = [server.port for server in self.servers]
            self.connect()
        except BaseException:
            self.stop()
            raise

    def options_of(self, _dir):
        return {}

    def connect(self):
        """Makes the servers one place, and sets the URL."""

    def ready(self):
        """The drivers have their connections."""

    def help(self, *command):
        process = subprocess.Popen(command, preexec_fn=lambda: child_setup(self.cpus), text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.helpers.append(process)
        return process

    def go_far(self, forwarder, delay_us):
        """From now on clients reach each server through a forwarder that delays each way."""
        if self.url:
            raise OSError("--rtt is for peers that reach their server by a port")
        self.ports = [int(self.help(forwarder, str(port), str(delay_us)).stdout.readline()) for port in self.ports]

    def stop(self):
        for helper in self.helpers:
            helper.kill()
            helper.wait()
        for server in self.servers:
            server.stop()


class Unix(Place):
    def options_of(self, dir):
        return {"unixsocket": os.path.join(dir, "socket")}

    def connect(self):
        self.url = "unix:" + os.path.join(self.servers[0].dir, "socket")


class Tls(Place):
    """The certificate is its own CA. The plain port is there for the runner."""

    def options_of(self, dir):
        def file(name):
            return os.path.join(dir, name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", file("key"), "-out", file("cert")], check=True, capture_output=True)
        self.port = free_port()
        return {"tls-port": self.port, "tls-cert-file": file("cert"), "tls-key-file": file("key"),
                "tls-ca-cert-file": file("cert"), "tls-auth-clients": "no"}

    def connect(self):
        self.url = "rediss://127.0.0.1:%d" % self.port
        self.environment = {"SSL_CERT_FILE": os.path.join(self.servers[0].dir, "cert")}


class Sentinel(Place):
    def connect(self):
        port, conf = free_port(), os.path.join(self.servers[0].dir, "sentinel.conf")
        with open(conf, "w") as file:
            file.write("port %d\nbind 127.0.0.1\ndir %s\nlogfile %s.log\nsentinel monitor %s 127.0.0.1 %d 1\n"
                       % (port, self.servers[0].dir, conf, SERVICE, self.ports[0]))
        self.help("redis-server", conf, "--sentinel")
        self.url = "redis+sentinel://127.0.0.1:%d/%s" % (port, SERVICE)


class Cluster(Place):
    """The slots in equal parts, without replicas."""

    def options_of(self, _dir):
        return {"cluster-enabled": "yes", "cluster-port": free_port()}

    def connect(self):
        first, count = self.servers[0].conn, len(self.servers)
        for i, server in enumerate(self.servers):
            server.conn.call("CLUSTER", "ADDSLOTSRANGE", SLOTS * i // count, SLOTS * (i + 1) // count - 1)
            server.conn.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for server in self.servers[1:]:
            bus = server.conn.call("CONFIG", "GET", "cluster-port")[1]
            first.call("CLUSTER", "MEET", "127.0.0.1", server.port, bus)
        deadline = time.monotonic() + PATIENCE_S
        while not all(self._is_one(server) for server in self.servers):
            if time.monotonic() > deadline:
                raise OSError("the cluster of %d does not come up" % count)
            time.sleep(0.02)
        self.url = "redis+cluster://" + ",".join("127.0.0.1:%d" % port for port in self.ports)

    def _is_one(self, server):
        text = server.conn.call("CLUSTER", "INFO")
        return "cluster_state:ok" in text and "cluster_known_nodes:%d\r" % len(self.servers) in text


class Stopped(Place):
    """Several masters, the last of which stands still. Nobody asks it for its counters."""

    def ready(self):
        self.stopped = self.servers.pop()
        self.stopped.process.send_signal(signal.SIGSTOP)

    def stop(self):
        if hasattr(self, "stopped"):
            self.stopped.process.send_signal(signal.SIGCONT)
            self.servers.append(self.stopped)
        super().stop()


PLACES = {"": Place, "stopped": Stopped, "unix": Unix, "tls": Tls, "sentinel": Sentinel, "cluster": Cluster}
