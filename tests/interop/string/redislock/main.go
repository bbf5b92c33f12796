// A peer of test_string_peers.c: bsm/redislock on the server whose address is the argument (host:port).
//
//	acquire NAME TTL_MS    one try: ok | busy
//	wait NAME TTL_MS       tries again each ms for up to 20 s: ok | busy
//	extend TTL_MS          ok | no
//	release                ok | no
//	rounds NAME N          N times: waits, holds alone, releases. NAME:inside counts the holders: ok | no
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

const ttl = 20 * time.Second

func say(ok bool, otherwise string) {
	if ok {
		fmt.Println("ok")
	} else {
		fmt.Println(otherwise)
	}
}

func wait(locker *redislock.Client, name string, ttl time.Duration) (*redislock.Lock, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return locker.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
}

func rounds(server *redis.Client, locker *redislock.Client, name string, n int) bool {
	ctx := context.Background()
	for i := 0; i < n; i++ {
		lock, err := wait(locker, name, ttl)
		if err != nil {
			return false
		}
		inside := server.Incr(ctx, name+":inside").Val()
		server.Decr(ctx, name+":inside")
		if lock.Release(ctx) != nil || inside != 1 {
			return false
		}
	}
	return true
}

func main() {
	ctx := context.Background()
	server := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	locker := redislock.New(server)
	var lock *redislock.Lock
	var err error
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var command, name string
		var number int
		_, _ = fmt.Sscan(lines.Text(), &command, &name, &number)
		switch command {
		case "acquire":
			lock, err = locker.Obtain(ctx, name, time.Duration(number)*time.Millisecond, nil)
			say(err == nil, "busy")
		case "wait":
			lock, err = wait(locker, name, time.Duration(number)*time.Millisecond)
			say(err == nil, "busy")
		case "extend":
			_, _ = fmt.Sscan(name, &number)
			say(lock.Refresh(ctx, time.Duration(number)*time.Millisecond, nil) == nil, "no")
		case "release":
			say(lock.Release(ctx) == nil, "no")
		case "rounds":
			say(rounds(server, locker, name, number), "no")
		}
	}
}
