package main

import (
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"
)

const (
	pageSize      = 4096
	pageThreads   = 1024
	pageProcesses = 64
)

// The words of bench/page.h in a shared file: only the holder writes, but for violations and tickets.
type page struct {
	owner, counter, violations, releasedNs, last, run, longestRun uint64
	tickets, newest, overtaken                                    uint64
	_                                                             [6]uint64
	turns                                                         [pageProcesses]uint64
}

func openPage(path string) *page {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	words, err := syscall.Mmap(int(file.Fd()), 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	return (*page)(unsafe.Pointer(&words[0]))
}

// Loads and stores that the compiler does not move; the increment itself is not atomic, on purpose.
func get(word *uint64) uint64        { return atomic.LoadUint64(word) }
func set(word *uint64, value uint64) { atomic.StoreUint64(word, value) }
func increment(word *uint64)         { set(word, get(word)+1) }

func (p *page) draw() uint64 { return atomic.AddUint64(&p.tickets, 1) }

// How long the hand-over took; -1: there was none.
func (p *page) enter(id, ticket uint64, now int64) int64 {
	if get(&p.owner) != 0 {
		atomic.AddUint64(&p.violations, 1)
	}
	set(&p.owner, id)
	increment(&p.counter)
	last := get(&p.last)
	if last == id {
		increment(&p.run)
	} else {
		set(&p.run, 1)
	}
	set(&p.longestRun, max(get(&p.longestRun), get(&p.run)))
	if ticket < get(&p.newest) {
		increment(&p.overtaken)
	} else {
		set(&p.newest, ticket)
	}
	if process := (id - 1) / pageThreads; last == 0 || (last-1)/pageThreads != process {
		increment(&p.turns[process%pageProcesses])
	}
	if last == id || last == 0 {
		return -1
	}
	return now - int64(get(&p.releasedNs))
}

func (p *page) leave(id uint64, now int64) {
	if get(&p.owner) != id {
		atomic.AddUint64(&p.violations, 1)
	}
	set(&p.last, id)
	set(&p.releasedNs, uint64(now))
	set(&p.owner, 0)
}
