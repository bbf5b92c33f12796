package main

import (
	"fmt"
	"math/bits"
	"strings"
)

// The buckets of bench/hist.c.
type hist [1184]uint64

func (h *hist) add(ns int64) {
	bucket := max(ns, 0)
	if ns >= 64 {
		shift := bits.Len64(uint64(ns)) - 6
		bucket = int64(shift)*32 + ns>>shift
	}
	h[min(bucket, int64(len(h)-1))]++
}

func (h *hist) merge(other *hist) {
	for i, count := range other {
		h[i] += count
	}
}

func (h *hist) String() string {
	var used []string
	for i, count := range h {
		if count > 0 {
			used = append(used, fmt.Sprintf("[%d,%d]", i, count))
		}
	}
	return "[" + strings.Join(used, ",") + "]"
}
