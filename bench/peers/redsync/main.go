// The driver of redsync: the lines of bench/driver.h, a mutex for each goroutine, all on one pool of connections.
//
// Defaults, except the lease of 30 s that all peers have here, and no limit of tries. It has no renewal: no `hold`.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const lease = 30 * time.Second

type worker struct {
	mutex          *redsync.Mutex
	page           *page // nil: a lock of its own
	id             uint64
	startNs, endNs int64

	ops                    uint64
	finishedNs             int64
	err                    error
	acquire, pair, handoff hist
}

func (w *worker) run() {
	time.Sleep(time.Duration(w.startNs - nowNs()))
	for begin := nowNs(); begin < w.endNs && w.err == nil; begin = nowNs() {
		w.err = w.once(begin)
	}
	w.finishedNs = nowNs()
}

func (w *worker) once(begin int64) error {
	var ticket uint64
	if w.page != nil {
		ticket = w.page.draw()
	}
	if err := w.mutex.Lock(); err != nil {
		return err
	}
	held := nowNs()
	w.acquire.add(held - begin)
	if w.page != nil {
		if took := w.page.enter(w.id, ticket, held); took >= 0 {
			w.handoff.add(took)
		}
		w.page.leave(w.id, nowNs())
	}
	if ok, err := w.mutex.Unlock(); !ok {
		return fmt.Errorf("unlock: %v", err)
	}
	w.pair.add(nowNs() - begin)
	w.ops++
	return nil
}

type driver struct {
	mutexes *redsync.Redsync
	page    *page
	process int
	input   *bufio.Reader
}

func (d *driver) worker(scenario string, index int) *worker {
	w := &worker{id: uint64(d.process*pageThreads + index + 1)}
	key := fmt.Sprintf("bench:own:%d:%d", d.process, index)
	if scenario == "shared" {
		w.page, key = d.page, "bench:one"
	}
	w.mutex = d.mutexes.NewMutex(key, redsync.WithExpiry(lease), redsync.WithTries(math.MaxInt))
	return w
}

func (d *driver) round(scenario string, seconds float64, threads int) string {
	if scenario != "own" && (scenario != "shared" || d.page == nil) {
		return fmt.Sprintf(`{"error":"cannot run %s"}`, scenario)
	}
	workers := make([]*worker, threads)
	for i := range workers {
		workers[i] = d.worker(scenario, i)
	}
	fmt.Println(`{"ready":true}`)
	var startNs int64
	line, _ := d.input.ReadString('\n')
	if _, err := fmt.Sscanf(line, "go %d", &startNs); err != nil {
		return `{"error":"no go"}`
	}
	before := switches()
	var running sync.WaitGroup
	for _, w := range workers {
		w.startNs, w.endNs = startNs, startNs+int64(seconds*1e9)
		running.Go(w.run)
	}
	running.Wait()
	return result(workers, switches()-before)
}

func result(workers []*worker, switches int64) string {
	var sum worker
	var each []string
	text := ""
	for _, w := range workers {
		each = append(each, fmt.Sprint(w.ops))
		sum.ops += w.ops
		sum.finishedNs = max(sum.finishedNs, w.finishedNs)
		sum.acquire.merge(&w.acquire)
		sum.pair.merge(&w.pair)
		sum.handoff.merge(&w.handoff)
		if w.err != nil {
			text = strings.NewReplacer(`"`, "'", `\`, "/", "\n", " ").Replace(w.err.Error())
		}
	}
	return fmt.Sprintf(`{"per_thread":[%s],"ops":%d,"finished_ns":%d,"switches":%d,"error":"%s",`+
		`"acquire":%v,"pair":%v,"handoff":%v}`, strings.Join(each, ","), sum.ops, sum.finishedNs, switches, text,
		&sum.acquire, &sum.pair, &sum.handoff)
}

func (d *driver) serve() {
	for {
		line, err := d.input.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "quit") {
			return
		}
		var scenario string
		var seconds float64
		var threads int
		if _, err := fmt.Sscanf(line, "round %s %f %d", &scenario, &seconds, &threads); err != nil {
			fmt.Println(`{"error":"unknown command"}`)
			continue
		}
		fmt.Println(d.round(scenario, seconds, threads))
	}
}

func main() {
	port := flag.Int("port", 0, "")
	process := flag.Int("process", 0, "")
	path := flag.String("page", "", "")
	masters := flag.String("masters", "", "")
	_ = flag.String("variant", "redsync", "")
	_ = flag.Int("lease-ms", 0, "")
	flag.Parse()
	ports := []string{strconv.Itoa(*port)}
	if *masters != "" {
		ports = append(ports, strings.Split(*masters, ",")...)
	}
	var pools []redsyncredis.Pool
	for _, port := range ports {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		if err := client.Ping(context.Background()).Err(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		pools = append(pools, goredis.NewPool(client))
	}
	d := driver{redsync.New(pools...), openPage(*path), *process, bufio.NewReader(os.Stdin)}
	fmt.Printf("{\"ready\":true,\"version\":\"%s\"}\n", version())
	d.serve()
}
