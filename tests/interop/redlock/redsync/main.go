// A peer of test_redlock.c: redsync on the masters whose addresses are the arguments (host:port).
//
//	acquire NAME TTL_MS    one try: ok | busy
//	extend, release        ok | no
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func say(ok bool, otherwise string) {
	if ok {
		fmt.Println("ok")
	} else {
		fmt.Println(otherwise)
	}
}

func main() {
	var pools []redis.Pool
	for _, address := range os.Args[1:] {
		pools = append(pools, goredis.NewPool(goredislib.NewClient(&goredislib.Options{Addr: address})))
	}
	rs := redsync.New(pools...)
	var mutex *redsync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var command, name string
		var ttl int
		_, _ = fmt.Sscan(lines.Text(), &command, &name, &ttl)
		switch command {
		case "acquire":
			mutex = rs.NewMutex(name, redsync.WithExpiry(time.Duration(ttl)*time.Millisecond), redsync.WithTries(1))
			say(mutex.Lock() == nil, "busy")
		case "extend":
			ok, err := mutex.Extend()
			say(ok && err == nil, "no")
		case "release":
			ok, err := mutex.Unlock()
			say(ok && err == nil, "no")
		}
	}
}
