// A peer of test_redlock.c: node-redlock on the masters whose addresses are the arguments (host:port). The commands are
// those of redsync/main.go.
import { createRequire } from "node:module";
import readline from "node:readline";

const require = createRequire(process.cwd() + "/");     // the modules are where it is run, not beside this file
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const clients = process.argv.slice(2).map((address) => {
    const [host, port] = address.split(":");
    return new Redis({ host, port: Number(port) });
});
const redlock = new Redlock(clients, { retryCount: 0 });
redlock.on("error", () => {});
let lock = null;
let ttl = 0;

async function run(words) {
    switch (words[0]) {
    case "acquire":
        ttl = Number(words[2]);
        lock = await redlock.acquire([words[1]], ttl);
        break;
    case "extend":
        lock = await lock.extend(ttl);
        break;
    case "release":
        await lock.release();
        break;
    }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
    const words = line.split(" ");
    try {
        await run(words);
        console.log("ok");
    } catch {
        console.log(words[0] === "acquire" ? "busy" : "no");
    }
}
process.exit(0);
