"""The driver of redis-py: the lines of bench/driver.h, locks by redis.lock.Lock with its defaults.

Each thread has a Lock of its own, all share the client's connection pool. It has no renewal and no re-entry: neither
`hold` nor `nested`. The variant redispy-1ms polls each millisecond instead of each tenth of a second.
"""
import argparse
import json
import mmap
import resource
import sys
import threading
import time

import redis

OWNER, COUNTER, VIOLATIONS, RELEASED_NS, LAST, RUN, LONGEST_RUN = range(7)     # bench/page.h


def add(hist, ns):
    """bench/hist.c; here a dictionary of buckets."""
    if ns >= 64:
        shift = ns.bit_length() - 6
        ns = shift * 32 + (ns >> shift)
    hist[ns] = hist.get(ns, 0) + 1


def merged(hists):
    total = {}
    for hist in hists:
        for bucket, count in hist.items():
            total[bucket] = total.get(bucket, 0) + count
    return sorted(total.items())


class Worker(threading.Thread):
    def __init__(self, lock, page, ident, go):
        super().__init__(daemon=True)
        self.lock, self.page, self.id, self.go = lock, page, ident, go
        self.ops, self.finished_ns, self.error = 0, 0, ""
        self.acquire, self.pair, self.handoff = {}, {}, {}
        self.start_ns = self.end_ns = 0

    def run(self):
        self.go.wait()
        time.sleep(max(0, self.start_ns - time.monotonic_ns()) / 1e9)
        try:
            self.shared() if self.page else self.own()
        except redis.exceptions.RedisError as why:
            self.error = repr(why).replace('"', "'").replace("\\", "/")
        self.finished_ns = time.monotonic_ns()

    def own(self):
        begin = time.monotonic_ns()
        while begin < self.end_ns:
            self.lock.acquire()
            held = time.monotonic_ns()
            self.lock.release()
            done = time.monotonic_ns()
            add(self.acquire, held - begin)
            add(self.pair, done - begin)
            self.ops += 1
            begin = done

    def shared(self):
        page = self.page
        begin = time.monotonic_ns()
        while begin < self.end_ns:
            self.lock.acquire()
            held = time.monotonic_ns()
            if page[OWNER] != 0:
                page[VIOLATIONS] += 1
            page[OWNER] = self.id
            page[COUNTER] += 1
            last = page[LAST]
            page[RUN] = page[RUN] + 1 if last == self.id else 1
            page[LONGEST_RUN] = max(page[LONGEST_RUN], page[RUN])
            if last not in (0, self.id):
                add(self.handoff, max(0, held - page[RELEASED_NS]))
            add(self.acquire, held - begin)
            if page[OWNER] != self.id:
                page[VIOLATIONS] += 1
            page[LAST] = self.id
            page[RELEASED_NS] = time.monotonic_ns()
            page[OWNER] = 0
            self.lock.release()
            self.ops += 1
            begin = time.monotonic_ns()


def round_of(client, options, page, scenario, seconds, count):
    if scenario not in ("own", "shared") or (scenario == "shared" and page is None):
        return {"error": "cannot run " + scenario}
    sleep = 0.001 if options.variant == "redispy-1ms" else 0.1
    go = threading.Event()
    workers = []
    for index in range(count):
        key = "bench:one" if scenario == "shared" else "bench:own:%d:%d" % (options.process, index)
        lock = client.lock(key, timeout=30, sleep=sleep)
        workers.append(Worker(lock, page if scenario == "shared" else None, options.process * 1024 + index + 1, go))
        workers[-1].start()
    print('{"ready":true}', flush=True)
    start_ns = int(sys.stdin.readline().split()[1])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    for worker in workers:
        worker.start_ns, worker.end_ns = start_ns, start_ns + int(seconds * 1e9)
    go.set()
    for worker in workers:
        worker.join()
    return {
        "per_thread": [worker.ops for worker in workers],
        "ops": sum(worker.ops for worker in workers),
        "finished_ns": max(worker.finished_ns for worker in workers),
        "switches": resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before,
        "error": next((worker.error for worker in workers if worker.error), ""),
        "acquire": merged(worker.acquire for worker in workers),
        "pair": merged(worker.pair for worker in workers),
        "handoff": merged(worker.handoff for worker in workers),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--variant", default="redispy")
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--page")
    parser.add_argument("--lease-ms")
    options = parser.parse_args()
    page = None
    if options.page:
        with open(options.page, "r+b") as file:
            page = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
    client = redis.Redis(host="127.0.0.1", port=options.port)
    client.ping()
    version = "redis-py %s, Python %s" % (redis.__version__, sys.version.split()[0])
    print(json.dumps({"ready": True, "version": version}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "quit":
            break
        if words[0] == "round":
            answer = round_of(client, options, page, words[1], float(words[2]), int(words[3]))
        else:
            answer = {"error": "unknown command"}
        print(json.dumps(answer, separators=(",", ":")), flush=True)


main()
