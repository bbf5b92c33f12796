// The driver of node-redlock: the lines of bench/driver.h, by ioredis.
//
// Defaults, except the lease of 30 s that all peers have here. It has no page to share with other processes, and nothing
// to nest: only `own`.
const fs = require("node:fs");
const readline = require("node:readline");
const { parseArgs } = require("node:util");
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const LEASE_MS = 30000;

const text = { type: "string" };
const { values: options } = parseArgs({
    options: { port: text, masters: text, process: text, page: text, "lease-ms": text, variant: text },
});

// CLOCK_MONOTONIC, which all drivers share.
const now = () => Number(process.hrtime.bigint());

// The buckets of bench/hist.c, in a map.
function add(hist, ns) {
    let bucket = ns;
    if (ns >= 64) {
        const shift = Math.floor(Math.log2(ns)) - 5;
        bucket = shift * 32 + Math.floor(ns / 2 ** shift);
    }
    hist.set(bucket, (hist.get(bucket) ?? 0) + 1);
}

async function run(redlock, key, startNs, endNs) {
    const worker = { ops: 0, acquire: new Map(), pair: new Map() };
    while (now() < startNs)
        await new Promise((resume) => setTimeout(resume, (startNs - now()) / 1e6));
    for (let begin = now(); begin < endNs; begin = now()) {
        const lock = await redlock.acquire([key], LEASE_MS);
        add(worker.acquire, now() - begin);
        await lock.release();
        add(worker.pair, now() - begin);
        worker.ops++;
    }
    worker.finishedNs = now();
    return worker;
}

function merged(maps) {
    const sum = new Map();
    for (const [bucket, count] of maps.flatMap((map) => [...map]))
        sum.set(bucket, (sum.get(bucket) ?? 0) + count);
    return [...sum].sort((a, b) => a[0] - b[0]);
}

async function round(redlock, lines, scenario, seconds, threads) {
    if (scenario !== "own")
        return { error: `cannot run ${scenario}` };
    say({ ready: true });
    const startNs = Number((await lines.next()).value.split(" ")[1]);
    const before = process.resourceUsage().voluntaryContextSwitches;
    const workers = await Promise.all(Array.from({ length: threads }, (_, i) =>
        run(redlock, `bench:own:${options.process}:${i}`, startNs, startNs + seconds * 1e9)));
    return {
        per_thread: workers.map((worker) => worker.ops),
        ops: workers.reduce((sum, worker) => sum + worker.ops, 0),
        finished_ns: Math.max(...workers.map((worker) => worker.finishedNs)),
        switches: process.resourceUsage().voluntaryContextSwitches - before,
        error: "",
        acquire: merged(workers.map((worker) => worker.acquire)),
        pair: merged(workers.map((worker) => worker.pair)),
    };
}

const say = (answer) => fs.writeSync(1, JSON.stringify(answer) + "\n");

async function main() {
    const ports = [options.port, ...(options.masters ? options.masters.split(",") : [])];
    const clients = ports.map((port) => new Redis(Number(port), "127.0.0.1"));
    const redlock = new Redlock(clients);
    let why = "";
    redlock.on("error", (error) => { why = String(error); });
    await Promise.all(clients.map((client) => client.ping()));
    const of = (name) => JSON.parse(fs.readFileSync(`${__dirname}/node_modules/${name}/package.json`)).version;
    say({ ready: true, version: `node-redlock ${of("redlock")}, ioredis ${of("ioredis")}, node ${process.version}` });
    const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
    for (let line = await lines.next(); !line.done && line.value !== "quit"; line = await lines.next()) {
        const [command, scenario, seconds, threads] = line.value.split(" ");
        try {
            say(command === "round" ? await round(redlock, lines, scenario, Number(seconds), Number(threads))
                                    : { error: "unknown command" });
        } catch (error) {
            say({ error: `${error} ${why}` });
        }
    }
    process.exit(0);
}

main();
