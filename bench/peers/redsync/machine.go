package main

import (
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// CLOCK_MONOTONIC, which all drivers share; the runtime's own monotonic clock is the same one, from another zero.
var zero, zeroNs = time.Now(), clockNs()

func nowNs() int64 { return zeroNs + int64(time.Since(zero)) }

func clockNs() int64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if errno != 0 {
		panic(errno)
	}
	return now.Nano()
}

func switches() int64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Nvcsw
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if strings.HasSuffix(module.Path, "/redsync/v4") {
			return "redsync " + module.Version + ", " + runtime.Version()
		}
	}
	return runtime.Version()
}
