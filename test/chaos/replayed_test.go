//go:build replay

package chaos

import (
	"runtime"
	"runtime/debug"
)

// replays says that the program was built with the overlay of ./replay, so that a seed comes out the same every time.
const replays = true

func init() {
	runtime.MemProfileRate = 0 // sampling draws
	debug.SetGCPercent(-1)     // a collection makes goroutines yield: see collect
}

// collect is called between runs.
func collect() {
	var stats runtime.MemStats
	if runtime.ReadMemStats(&stats); stats.HeapAlloc > 300<<20 {
		runtime.GC()
	}
}
