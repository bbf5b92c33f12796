//! The driver of rslock: the lines of bench/driver.h, locks by LockManager.
//!
//! "Threads" are tasks of one tokio runtime on one thread, all on the one multiplexed connection that a LockManager
//! has: its best case. So `async` is the same as `own`. It has no renewal: no `hold`.

use std::io::{BufRead, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rslock::LockManager;

const LEASE: Duration = Duration::from_secs(30);
const BUCKETS: usize = 1184;

fn now_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as i64 * 1_000_000_000 + now.tv_nsec as i64
}

fn sleep_until(at_ns: i64) {
    let left = at_ns - now_ns();
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left as u64));
    }
}

fn switches() -> i64 {
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage.ru_nvcsw as i64
}

/// bench/hist.c
struct Hist(Vec<u64>);

impl Hist {
    fn new() -> Hist {
        Hist(vec![0; BUCKETS])
    }

    fn add(&mut self, ns: i64) {
        let ns = ns.max(0) as u64;
        let bucket = if ns < 64 {
            ns as usize
        } else {
            let shift = 63 - ns.leading_zeros() as usize - 5;
            shift * 32 + (ns >> shift) as usize
        };
        self.0[bucket.min(BUCKETS - 1)] += 1;
    }

    fn merge(&mut self, other: &Hist) {
        for (into, from) in self.0.iter_mut().zip(&other.0) {
            *into += from;
        }
    }

    fn json(&self) -> String {
        let used = self.0.iter().enumerate().filter(|(_, n)| **n > 0);
        let pairs: Vec<String> = used.map(|(i, n)| format!("[{i},{n}]")).collect();
        format!("[{}]", pairs.join(","))
    }
}

/// bench/page.h: words of 64 bits in a shared file.
#[derive(Clone, Copy)]
struct Page(*mut u64);

const OWNER: usize = 0;
const COUNTER: usize = 1;
const VIOLATIONS: usize = 2;
const RELEASED_NS: usize = 3;
const LAST: usize = 4;
const RUN: usize = 5;
const LONGEST_RUN: usize = 6;

impl Page {
    fn map(path: &str) -> std::io::Result<Page> {
        use std::os::fd::AsRawFd;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
        let flags = libc::PROT_READ | libc::PROT_WRITE;
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, flags, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Page(at.cast()))
    }

    fn get(&self, word: usize) -> u64 {
        unsafe { self.0.add(word).read_volatile() }
    }

    fn set(&self, word: usize, value: u64) {
        unsafe { self.0.add(word).write_volatile(value) }
    }

    fn violated(&self) {
        unsafe { AtomicU64::from_ptr(self.0.add(VIOLATIONS)) }.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, id: u64, now: i64) -> Option<i64> {
        if self.get(OWNER) != 0 {
            self.violated();
        }
        self.set(OWNER, id);
        self.set(COUNTER, self.get(COUNTER) + 1);
        let last = self.get(LAST);
        let run = if last == id { self.get(RUN) + 1 } else { 1 };
        self.set(RUN, run);
        self.set(LONGEST_RUN, self.get(LONGEST_RUN).max(run));
        (last != id && last != 0).then(|| now - self.get(RELEASED_NS) as i64)
    }

    fn leave(&self, id: u64, now: i64) {
        if self.get(OWNER) != id {
            self.violated();
        }
        self.set(LAST, id);
        self.set(RELEASED_NS, now as u64);
        self.set(OWNER, 0);
    }
}

struct Counts {
    ops: u64,
    finished_ns: i64,
    acquire: Hist,
    pair: Hist,
    handoff: Hist,
}

/// One task of a round; `page` when all contend for one lock.
async fn work(
    manager: Rc<LockManager>,
    key: String,
    id: u64,
    page: Option<Page>,
    end_ns: i64,
) -> Result<Counts, String> {
    let mut counts =
        Counts { ops: 0, finished_ns: 0, acquire: Hist::new(), pair: Hist::new(), handoff: Hist::new() };
    let mut begin = now_ns();
    while begin < end_ns {
        let guard = manager.acquire(key.as_bytes(), LEASE).await.map_err(|e| e.to_string())?;
        let held = now_ns();
        counts.acquire.add(held - begin);
        if let Some(page) = page {
            if let Some(handoff) = page.enter(id, held) {
                counts.handoff.add(handoff);
            }
            page.leave(id, now_ns());
        }
        guard.release().await;
        let done = now_ns();
        counts.pair.add(done - begin);
        counts.ops += 1;
        begin = done;
    }
    counts.finished_ns = now_ns();
    Ok(counts)
}

struct Driver {
    manager: Rc<LockManager>,
    page: Option<Page>,
    process: u64,
    runtime: tokio::runtime::Runtime,
}

impl Driver {
    fn round(&self, scenario: &str, seconds: f64, tasks: u64, input: &mut impl BufRead) -> Result<String, String> {
        let page = match (scenario, self.page) {
            ("shared", Some(page)) => Some(page),
            ("own" | "async", _) => None,
            _ => return Err(format!("cannot run {scenario}")),
        };
        println!("{{\"ready\":true}}");
        let mut line = String::new();
        input.read_line(&mut line).map_err(|e| e.to_string())?;
        let start_ns: i64 = line.trim().strip_prefix("go ").and_then(|n| n.parse().ok()).ok_or("no go")?;
        let end_ns = start_ns + (seconds * 1e9) as i64;
        let before = switches();
        sleep_until(start_ns);
        let local = tokio::task::LocalSet::new();
        let results = local.block_on(&self.runtime, async {
            let mut running = Vec::new();
            for index in 0..tasks {
                let key = match page {
                    Some(_) => "bench:one".to_string(),
                    None => format!("bench:own:{}:{}", self.process, index),
                };
                let id = self.process * 1024 + index + 1;
                running.push(tokio::task::spawn_local(work(self.manager.clone(), key, id, page, end_ns)));
            }
            let mut results = Vec::new();
            for task in running {
                results.push(task.await.map_err(|e| e.to_string())?);
            }
            Ok::<_, String>(results)
        })?;
        result(results, switches() - before)
    }
}

fn result(results: Vec<Result<Counts, String>>, switches: i64) -> Result<String, String> {
    let mut per_thread = Vec::new();
    let (mut acquire, mut pair, mut handoff) = (Hist::new(), Hist::new(), Hist::new());
    let (mut ops, mut finished_ns) = (0, 0);
    for counts in results {
        let counts = counts?;
        per_thread.push(counts.ops.to_string());
        ops += counts.ops;
        finished_ns = finished_ns.max(counts.finished_ns);
        acquire.merge(&counts.acquire);
        pair.merge(&counts.pair);
        handoff.merge(&counts.handoff);
    }
    Ok(format!(
        "{{\"per_thread\":[{}],\"ops\":{ops},\"finished_ns\":{finished_ns},\"switches\":{switches},\"error\":\"\",\
         \"acquire\":{},\"pair\":{},\"handoff\":{}}}",
        per_thread.join(","),
        acquire.json(),
        pair.json(),
        handoff.json()
    ))
}

fn option(name: &str) -> Option<String> {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.next()?;
    args.next()
}

fn main() {
    let port = option("--port").expect("--port");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let manager = LockManager::new(vec![format!("redis://127.0.0.1:{port}")]);
    let page = option("--page").map(|path| Page::map(&path).expect("page"));
    let process = option("--process").and_then(|n| n.parse().ok()).unwrap_or(0);
    let driver = Driver { manager: Rc::new(manager), page, process, runtime };
    let mut input = std::io::stdin().lock();
    println!("{{\"ready\":true,\"version\":\"rslock 0.10.0\"}}");
    let mut line = String::new();
    while input.read_line(&mut line).unwrap_or(0) > 0 {
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["round", scenario, seconds, tasks] => {
                let (seconds, tasks) = (seconds.parse().unwrap_or(0.0), tasks.parse().unwrap_or(1));
                driver.round(scenario, seconds, tasks, &mut input)
            }
            ["quit"] => break,
            _ => Err("unknown command".to_string()),
        };
        println!("{}", answer.unwrap_or_else(|why| format!("{{\"error\":\"{}\"}}", why.replace(['"', '\\'], "'"))));
        let _ = std::io::stdout().flush();
        line.clear();
    }
}
