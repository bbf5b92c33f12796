"""The peers: how each driver is built and started, and which commands its client sends itself."""
import os
import shutil
import subprocess
from dataclasses import dataclass, field

REDISSON = "4.7.0"
REDIS_PY, HIREDIS_PY = "8.1.0", "3.5.0"
RSLOCK = "0.10.0"       # as in peers/rslock/Cargo.toml
REDSYNC = "4.18.1"      # as in peers/redsync/go.mod
NODE_REDLOCK = "5.0.0-beta.2"   # as in peers/node-redlock/package.json


@dataclass(frozen=True)
class Peer:
    name: str
    kind: str                       # which driver program
    note: str
    sends: dict = field(default_factory=dict)   # commands beside server.SENT that the client sends itself
    sends_nested: dict = field(default_factory=dict)    # where the scenario `nested` differs from that
    jvm: bool = False               # warmed before it is measured
    masters: int = 1                # servers of its own
    place: str = ""                 # how they are reached: places.py


PEERS = {peer.name: peer for peer in [
    Peer("floor", "floor", "raw hiredis, SET NX PX + compare-and-delete; contended: polls without pause", {"set": 1}),
    Peer("floor-spin", "floor", "the same, polls the socket before it blocks", {"set": 1}),
    Peer("floor-hash", "floor", "raw hiredis, Redisson's hash format by scripts"),
    Peer("floor-hash-spin", "floor", "floor-hash that polls the socket before it blocks: what ours could reach"),
    Peer("floor-blpop", "floor", "hand-over of a bare token by LPUSH/BLPOP: no lease, no owner, no lock"),
    Peer("floor-message", "floor", "one message to 1,000 subscribed connections, a thread each"),
    Peer("floor-broadcast", "floor", "one message to a connection for each process, which wakes its threads"),
    Peer("floor-open", "floor", "floor, a connection for each pair", {"set": 1}),
    Peer("ceiling", "floor", "64 pairs of hash scripts per write, nobody waits for his acquire"),
    Peer("floor-batch", "floor", "held hash locks, 100 renewed by a script"),
    Peer("ours", "ours", "hasplock, the defaults"),
    Peer("ours-nospin", "ours", "hasplock, HLK_OPEN_NO_SPIN"),
    Peer("ours-fair", "ours", "hasplock, HLK_LOCK_FAIR: in one queue with Redisson's fair lock"),
    Peer("ours-nopass", "ours", "hasplock, local_passes off: each hand-over goes through Redis"),
    Peer("ours-relasync", "ours", "hasplock, release that nobody waits for"),
    Peer("ours-dispatch", "ours", "hasplock, async, both completions waited for"),
    Peer("ours-forget", "ours", "hasplock, async, releases without completion"),
    Peer("ours-events", "ours", "hasplock, async, completions on the client's events thread"),
    Peer("ours-quorum-3", "ours", "hasplock, hlk_quorum over 3 masters", {"set": 0}, masters=3),
    Peer("ours-quorum-5", "ours", "the same over 5 masters", {"set": 0}, masters=5),
    Peer("ours-quorum-5-stopped", "ours", "the same, one of the 5 stands still (SIGSTOP)", {"set": 0}, masters=5,
         place="stopped"),
    Peer("ours-permit", "ours", "hasplock, HLK_LOCK_PERMIT, one permit"),
    Peer("ours-semaphore", "ours", "hasplock, hlk_semaphore, one permit"),
    Peer("ours-permit-8", "ours", "the same, 8 permits"),
    Peer("ours-semaphore-8", "ours", "hlk_semaphore, 8 permits"),
    Peer("ours-read", "ours", "hasplock, the read half of hlk_rwlock"),
    Peer("ours-write", "ours", "its write half"),
    Peer("ours-rw", "ours", "both halves; one turn in a hundred is to write"),
    Peer("ours-read-nopass", "ours", "the read half, local_passes off: readers share no hold"),
    Peer("ours-rw-nopass", "ours", "the same of both halves"),
    Peer("ours-latch", "ours", "hasplock, hlk_latch"),
    Peer("ours-barrier-1001", "ours", "hasplock, hlk_barrier of 1,001 parties"),
    Peer("ours-barrier-17", "ours", "the same of 17 parties"),
    Peer("ours-condition", "ours", "hasplock, hlk_condition and a lock: two that take turns, by signals"),
    Peer("ours-condition-all", "ours", "the same: many that wait for one broadcast"),
    Peer("ours-open", "ours", "hasplock, a client opened and closed around each pair"),
    Peer("ours-multilock", "ours", "hasplock, a multilock of 5 locks"),
    Peer("ours-multilock-3", "ours", "the same of 3 locks"),
    Peer("ours-multilock-3-async", "ours", "the same by async calls"),
    Peer("ours-unix", "ours", "hasplock, a Unix socket", place="unix"),
    Peer("ours-tls", "ours", "hasplock, TLS", place="tls"),
    Peer("ours-sentinel", "ours", "hasplock, a master that a sentinel names", place="sentinel"),
    Peer("ours-cluster", "ours", "hasplock, a cluster of 3 masters", masters=3, place="cluster"),
    # An outermost release has two DELs: the client sends the one of the latch, the script calls the one of the lock.
    Peer("redisson", "redisson", "Redisson %s RLock, the defaults" % REDISSON, {"del": 0.5}, {"del": 1}, jvm=True),
    Peer("redisson-fair", "redisson", "Redisson's fair lock, the defaults", {"del": 0.5}, jvm=True),
    Peer("redisson-semaphore", "redisson", "Redisson's RSemaphore, one permit", jvm=True),
    Peer("redisson-permit", "redisson", "Redisson's RPermitExpirableSemaphore, one permit", jvm=True),
    Peer("redisson-semaphore-8", "redisson", "its RSemaphore, 8 permits", jvm=True),
    Peer("redisson-permit-8", "redisson", "its RPermitExpirableSemaphore, 8 permits", jvm=True),
    Peer("redisson-read", "redisson", "Redisson's RReadWriteLock, its read half", {"del": 0.5}, jvm=True),
    Peer("redisson-write", "redisson", "its write half", {"del": 0.5}, jvm=True),
    Peer("redisson-rw", "redisson", "both; one turn in a hundred is to write", {"del": 0.5}, jvm=True),
    Peer("redisson-latch", "redisson", "Redisson's RCountDownLatch", {"get": 1}, jvm=True),
    Peer("redisson-multilock", "redisson", "Redisson's RedissonMultiLock of 5 locks", {"del": 2.5}, jvm=True),
    Peer("redispy", "redispy", "redis-py %s Lock with hiredis-py, the defaults: polls each 100 ms" % REDIS_PY,
         {"set": 1}),
    Peer("redispy-1ms", "redispy", "the same, polls each ms", {"set": 1}),
    Peer("rslock", "rslock", "rslock %s, tokio on one thread, the defaults" % RSLOCK, {"set": 1}),
    Peer("redsync", "redsync", "redsync %s on go-redis, the defaults: polls each 50 to 250 ms" % REDSYNC,
         {"set": 1, "setnx": 1}),
    Peer("redsync-3", "redsync", "redsync over 3 masters", {"set": 1, "setnx": 1}, masters=3),
    Peer("redsync-5", "redsync", "redsync over 5 masters", {"set": 1, "setnx": 1}, masters=5),
    Peer("node-redlock-3", "node-redlock", "node-redlock %s on ioredis, the defaults, over 3 masters" % NODE_REDLOCK,
         masters=3),
    Peer("node-redlock-5", "node-redlock", "node-redlock over 5 masters", masters=5),
]}


class Unavailable(Exception):
    """A peer cannot be built here; the text says what is missing."""


class Builder:
    """Builds each driver that a scenario needs, once, below `build`. The source tree stays as it is."""

    def __init__(self, top, build, rebuild=True):
        self.top, self.build, self.rebuild = top, os.path.abspath(build), rebuild
        self.bench = os.path.join(top, "bench")
        self.done = {}
        os.makedirs(self.build, exist_ok=True)

    def command(self, peer, variant=None):
        """argv of the peer's driver, without the options of one process. Raises Unavailable."""
        if peer.kind not in self.done:
            try:
                self.done[peer.kind] = getattr(self, "_" + peer.kind.replace("-", "_"))()
            except Unavailable as why:
                self.done[peer.kind] = why
        if isinstance(self.done[peer.kind], Unavailable):
            raise self.done[peer.kind]
        return [*self.done[peer.kind], "--variant", variant or peer.name]

    def _run(self, *command, **options):
        if not shutil.which(command[0]):
            raise Unavailable("%s is not installed" % os.path.basename(command[0]))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
        if done.returncode != 0:
            raise Unavailable("%s failed:\n%s" % (" ".join(command[:4]), done.stdout[-2000:]))

    def _c(self, target):
        path = os.path.join(self.build, "c", "bench", target)
        if self.rebuild or not os.path.exists(path):
            options = ["-DCMAKE_BUILD_TYPE=Release", "-DHLK_BENCH=ON", "-DHLK_CLI=OFF", "-DHLK_MAN=OFF",
                       "-DHLK_TESTS=OFF", "-DHLK_EXAMPLES=OFF"]
            self._run("cmake", "-S", self.top, "-B", os.path.join(self.build, "c"), *options)
            self._run("cmake", "--build", os.path.join(self.build, "c"), "--target", target, "--parallel")
        return [path]

    def _floor(self):
        return self._c("hlk_bench_floor")

    def forwarder(self):
        return self._c("hlk_bench_forwarder")[0]

    def _ours(self):
        return self._c("hlk_bench_ours")

    def _copy(self, name):
        """Copies the peer's sources out of the tree, because its tools write lock files and targets beside them."""
        place = os.path.join(self.build, name)
        shutil.copytree(os.path.join(self.bench, "peers", name), place, dirs_exist_ok=True)
        return place

    def _redisson(self):
        place = self._copy("redisson")
        jars, classes = os.path.join(place, "jars"), os.path.join(place, "classes")
        if not os.path.exists(os.path.join(place, "complete")):
            self._run("mvn", "-q", "-B", "-f", place, "-Dredisson.version=" + REDISSON, "dependency:copy-dependencies",
                      "-DincludeScope=runtime", "-DoutputDirectory=" + jars)
            open(os.path.join(place, "complete"), "w").close()
        if self.rebuild or not os.path.exists(classes):
            sources = [os.path.join(place, name) for name in sorted(os.listdir(place)) if name.endswith(".java")]
            self._run("javac", "-Xlint:all,-classfile", "-Werror", "-proc:none", "--release", "17", "-d", classes,
                      "-cp", jars + "/*", *sources)
        return ["java", "-XX:+UseSerialGC", "-Xmx1g", "-cp", "%s:%s/*" % (classes, jars), "RedissonDriver"]

    def _redispy(self):
        venv = os.path.join(self.build, "redispy")
        python = os.path.join(venv, "bin", "python3")
        if not os.path.exists(os.path.join(venv, "complete")):
            self._run("python3", "-m", "venv", "--clear", venv)
            self._run(python, "-m", "pip", "install", "-q", "redis==" + REDIS_PY, "hiredis==" + HIREDIS_PY)
            open(os.path.join(venv, "complete"), "w").close()
        return [python, os.path.join(self.bench, "peers", "redispy", "driver.py")]

    def _rslock(self):
        place = self._copy("rslock")
        path = os.path.join(place, "target", "release", "rslock-driver")
        if self.rebuild or not os.path.exists(path):
            self._run("cargo", "build", "-q", "--release", "--manifest-path", os.path.join(place, "Cargo.toml"))
        return [path]

    def _redsync(self):
        path = os.path.join(self.build, "redsync-driver")
        if self.rebuild or not os.path.exists(path):
            self._run("go", "build", "-o", path, ".", cwd=os.path.join(self.bench, "peers", "redsync"))
        return [path]

    def _node_redlock(self):
        place = self._copy("node-redlock")
        if not os.path.exists(os.path.join(place, "complete")):
            self._run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", place)
            open(os.path.join(place, "complete"), "w").close()
        return ["node", os.path.join(place, "driver.js")]


def choose(words):
    """Peers by name or by kind: "floor" and "ours" are all of theirs."""
    chosen = [peer.name for peer in PEERS.values() if peer.name in words or peer.kind in words]
    unknown = [word for word in words if not any(word in (p.name, p.kind) for p in PEERS.values())]
    if unknown:
        raise SystemExit("bench: unknown peer %s; known: %s" % (", ".join(unknown), " ".join(PEERS)))
    return chosen
