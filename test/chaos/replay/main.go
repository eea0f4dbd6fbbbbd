// Command replay writes an overlay for go build -overlay with which a program's goroutines in a bubble of testing/synctest
// take turns in the same order in every run. testing/synctest makes time virtual, and leaves to chance what Go leaves to
// chance: the order of maps, of ready select cases, of timers of one instant, and the moment at which a goroutine is made
// to yield. The overlay takes all of them from a generator that starts anew with each bubble.
//
// It holds with GOMAXPROCS=1, GODEBUG=asyncpreemptoff=1 and the garbage collector switched off while a bubble runs.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// edits of the runtime's source. Each text has to be found exactly once: a Go in which one is not is refused, rather than
// that seeds quietly replay no more.
var edits = []struct{ file, text, by string }{
	// Hash keys of the process.
	{"rand.go", "	seed := &globalRand.seed\n", "	seed := &globalRand.seed\n	startupRand = nil\n"},
	{"rand.go", "readRandom(seed[:]) != len(seed) || allZero(seed[:])", "copy(seed[:], \"the same in every run of the program\") < 0"},
	// Maps, selects and timers draw one number in each instant, again and again. How often they draw depends on what a process
	// does only the first time, such as to fill a cache of types, and must not shift the draws of others. Other packages
	// could draw for ever until they get another number, so they get others.
	{"rand.go", "func maps_rand() uint64 {\n", `func maps_rand() uint64 {
	if replaying != 0 {
		return replayed
	}
`},
	{"rand.go", "func rand32() uint32 {\n", `func rand32() uint32 {
	if replaying != 0 {
		return uint32(replayed)
	}
`},
	{"rand.go", "func cheaprand() uint32 {\n", `func cheaprand() uint32 {
	if replaying != 0 {
		return uint32(replayed)
	}
`},
	{"rand.go", "func rand() uint64 {\n", `func rand() uint64 {
	if replaying != 0 {
		return replayNext()
	}
`},
	{"rand.go", "// mrandinit initializes", `// replaying is the state of the bubble's generator, 0 outside of bubbles; replayed is the number of its instant.
var replaying, replayed uint64

//go:nosplit
func replayNext() uint64 {
	replaying += 0xa0761d6478bd642f
	hi, lo := math.Mul64(replaying, replaying^0xe7037ed1a0b428db)
	return hi ^ lo
}

// mrandinit initializes`},
	{"synctest.go", "	gp.bubble = bubble\n	defer func() {\n", `	gp.bubble = bubble
	gp.m.p.ptr().schedtick = 0 // every 61st tick looks at the other queue first
	replaying = synctestBaseTime
	replayed = replayNext()
	defer func() {
		replaying = 0
`},
	{"synctest.go", "		bubble.now = next\n", "		bubble.now = next\n		replaying = uint64(next)\n		replayed = replayNext()\n"},
	// A thread that looks for work draws, and how often it looks is chance.
	{"proc.go", "stealOrder.start(cheaprand())", "stealOrder.start(0)"},
	// A goroutine that runs long, or is in the kernel, loses its turn by real time: not in a bubble, unless it hangs.
	{"proc.go", "pd.schedwhen+forcePreemptNS <= now", "pd.schedwhen+forcePreemptNS <= now && (replaying == 0 || pd.schedwhen+30_000_000_000 <= now)"},
	{"proc.go", "		// Drop allpLock so we can take sched.lock.\n		unlock(&allpLock)\n\n		// Need", `		if replaying != 0 && !sysretake {
			continue
		}
		// Drop allpLock so we can take sched.lock.
		unlock(&allpLock)

		// Need`},
	// A mutex is handed over in another way once somebody has waited long for it in real time.
	{"sema.go", "func internal_sync_nanotime() int64 {\n", `func internal_sync_nanotime() int64 {
	if bubble := getg().bubble; bubble != nil {
		return bubble.now
	}
`},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: replay DIRECTORY")
		os.Exit(2)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err == nil {
		err = write(os.Args[1], filepath.Join(strings.TrimSpace(string(goroot)), "src", "runtime"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// write puts the changed files and overlay.json into a directory.
func write(to, from string) error {
	texts := map[string]string{}
	for _, e := range edits {
		if _, ok := texts[e.file]; !ok {
			data, err := os.ReadFile(filepath.Join(from, e.file))
			if err != nil {
				return err
			}
			texts[e.file] = string(data)
		}
		if n := strings.Count(texts[e.file], e.text); n != 1 {
			return fmt.Errorf("%s of %s has %q %d times, not once: the edit has to be made anew for this version of Go", e.file, runtime.Version(), e.text, n)
		}
		texts[e.file] = strings.Replace(texts[e.file], e.text, e.by, 1)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range texts {
		changed := filepath.Join(to, name)
		if err := os.WriteFile(changed, []byte(text), 0o644); err != nil {
			return err
		}
		overlay.Replace[filepath.Join(from, name)] = changed
	}
	data, err := json.MarshalIndent(overlay, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(to, "overlay.json"), data, 0o644)
}
