package sim

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// dice draw from the seed by name: the n-th draw of a name is the same in every run, whatever was drawn in between.
type dice struct {
	seed   uint64
	mu     sync.Mutex
	counts map[string]uint64
}

func newDice(seed uint64) *dice { return &dice{seed: seed, counts: map[string]uint64{}} }

func (d *dice) roll(name ...string) *rand.Rand {
	key := strings.Join(name, "/")
	d.mu.Lock()
	n := d.counts[key]
	d.counts[key] = n + 1
	d.mu.Unlock()
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key))
	return rand.New(rand.NewPCG(d.seed, hash.Sum64()+n*0x9e3779b97f4a7c15))
}

func (d *dice) chance(p float64, name ...string) bool { return p > 0 && d.roll(name...).Float64() < p }

func (d *dice) between(from, to time.Duration, name ...string) time.Duration {
	return from + time.Duration(d.roll(name...).Int64N(int64(to-from)))
}
