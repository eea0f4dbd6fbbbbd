package main

import (
	"slices"
	"time"
)

// series is one figure, measured again and again.
type series []time.Duration

// at is a quantile in milliseconds.
func (s series) at(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return float64(sorted[int(q*float64(len(sorted)-1)+0.5)].Microseconds()) / 1000
}
