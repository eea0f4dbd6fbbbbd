//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
)

// soakRate is how many claims are made a second, unless mostWaiting wait.
const soakRate = 2

// soakPatience is how long after the last fault everything may take to come right: pods that were refused wait up to five
// minutes until they are tried again, and there may be hundreds of claims to catch up with.
const soakPatience = 20 * time.Minute

// soak is a run of TestSoak. Claims are made all the time, in lives that are drawn beforehand, while faults follow each
// other. A judge looks all the while whether anybody's storage is missing.
type soak struct {
	*scope
	classes []*soakClass
	cinder  *cinder
	hollow  *hollow
	// dice draws lives, faultDice faults: each in a goroutine of its own, so that neither disturbs the other.
	dice, faultDice *rand.Rand

	mu     sync.Mutex
	lives  []*life
	wrong  []string
	struck map[string]int
}

// soakClass is a class with what is special about it in a soak.
type soakClass struct {
	*class
	// share of the claims, in percent.
	share int
	// pods is the max-concurrent that the class begins with.
	pods int
	// grows says that claims can be expanded.
	grows bool
	// storage lists the names of the backend's pieces of storage.
	storage func() ([]string, error)
}

// TestSoak runs for FLEX_E2E_SOAK, in make soak only. It makes two claims a second. One in five is served by real pods: two
// cores run hardly more. Of these, one in five has a volume of a real Cinder, and three in ten run on nodes that lose their
// power. The pods of the others are a hollow node's. Some claims are deleted at once, some used by a pod, some expanded, some
// stay. Meanwhile the dispatcher, pods, nodes, parts of Kubernetes, Cinder and its target are killed, the network is cut, and
// configuration is edited and deleted. The dispatcher is left alone in the second half, so that its process grows old.
// Afterwards nothing may be lost or left, and memory and goroutines of the dispatcher are as at the start.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("FLEX_E2E_SOAK"))
	if err != nil {
		t.Skipf("FLEX_E2E_SOAK is %q, no duration: make soak FOR=1h", os.Getenv("FLEX_E2E_SOAK"))
	}
	cinderStops(t)
	s := begin(t)
	s.needSpareNodes()
	k := newSoak(s)
	k.ok(profiledDispatcher(t.Context())) // an older one has threads for the classes of other tests
	k.warmUp()
	start := k.footprint("start")

	began := time.Now()
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { k.traffic(ctx) })
	running.Go(func() { k.faults(ctx, began.Add(length/2)) })
	running.Go(func() { k.judge(ctx) })
	running.Go(func() { k.report(ctx, began) })
	running.Wait()
	k.say(began, "faults have stopped")

	k.settle(began)
	k.keepersKept()
	k.finish(began)
	end := k.footprint("end")
	k.sameFootprint(start, end)
	k.tell(length)
}

func newSoak(s *scope) *soak {
	s.later(oneDispatcher)
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	k := &soak{scope: s, dice: rand.New(rand.NewPCG(seed, 1)), faultDice: rand.New(rand.NewPCG(seed, 2)), struck: map[string]int{}, cinder: s.cinder("noauth")}
	k.hollow = s.hollow()
	k.classes = []*soakClass{
		k.directories("dir", 10, 20, nil),
		// One process on two cores is all there is of Cinder: with hundreds of pods at it, it is a minute late with each answer.
		{class: s.cinderClass(k.cinder.standalone()), share: 4, pods: 6, storage: k.cinder.storage},
		k.directories("spare", 6, 10, map[string]string{"node-selector": spare + "=true", "tolerations": toleration}),
		k.directories("hollow", 80, 40, k.hollow.on()),
	}
	k.hollow.volumes = k.classes[3].dir() + "/volumes"
	k.hollow.twice = func(one, other string) { k.violated("pods %s and %s are at work for one claim", one, other) }
	k.hollow.start()
	for _, class := range k.classes {
		s.ok(class.widen(s.Context(), class.pods))
	}
	return k
}

// directories makes a class whose volumes are directories, on the real node or where the keys say.
func (k *soak) directories(suffix string, share, pods int, on map[string]string) *soakClass {
	k.Helper()
	yes := true
	data := map[string]string{"expand": prologue}
	maps.Copy(data, on)
	class := k.class(suffix, setting{terms: storagev1.StorageClass{AllowVolumeExpansion: &yes}, data: data})
	return &soakClass{class: class, share: share, pods: pods, grows: true, storage: class.storage}
}

// warmUp takes some claims through, so that the start is measured when everything has been in use once.
func (k *soak) warmUp() {
	k.Helper()
	for _, class := range k.classes {
		for i := range 4 {
			class.claim(fmt.Sprintf("warm-up-%d-%d", class.share, i), readWriteOnce)
		}
	}
	k.wait(2*patient, "first claims bound", func() string {
		if n := len(k.volumes()); n != 4*len(k.classes) {
			return fmt.Sprintf("there are %d volumes", n)
		}
		return ""
	})
	k.deleteClaims(k.Context())
	k.wait(2*patient, "first claims gone", k.scope.left)
}

// violated keeps what is wrong, for the end of the run; the evidence goes into the log at once.
func (k *soak) violated(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	text := fmt.Sprintf(format, args...)
	k.wrong = append(k.wrong, text)
	fmt.Printf("soak: %s VIOLATION %s\n", time.Now().Format(time.TimeOnly), text)
}

func (k *soak) say(began time.Time, format string, args ...any) {
	fmt.Printf("soak: %s %s\n", time.Since(began).Round(time.Second), fmt.Sprintf(format, args...))
}

// settle waits until every claim that is to live is bound, and all others are gone.
func (k *soak) settle(began time.Time) {
	k.Helper()
	took := k.wait(soakPatience, "all settled", func() string {
		return first(k.all(), (*life).lacks)
	})
	k.say(began, "settled after %s", took.Round(time.Second))
}

// finish deletes what is left and sees that nothing is.
func (k *soak) finish(began time.Time) {
	k.Helper()
	for _, l := range k.all() {
		if l.stays {
			l.remove(k.Context())
		}
	}
	took := k.wait(soakPatience, "nothing left", k.left)
	k.say(began, "nothing left after %s", took.Round(time.Second))
}

// left names what exists anywhere of any claim.
func (k *soak) left() string {
	names := []string{k.scope.left()}
	for _, class := range k.classes {
		storage, err := class.storage()
		if err != nil {
			names = append(names, err.Error())
		}
		for _, name := range storage {
			names = append(names, class.name+"'s "+name)
		}
	}
	text := strings.Trim(strings.Join(names, ", "), ", ")
	if text == "" { // what costs more is looked at last
		k.ok(k.cinder.dropExports())
		text = k.cinder.remains()
	}
	if len(text) > 2000 {
		text = text[:2000] + "..."
	}
	return text
}

// tell prints what happened and fails if anything was wrong.
func (k *soak) tell(length time.Duration) {
	k.Helper()
	lives := k.all()
	counts := map[string]int{}
	for _, l := range lives {
		for what, is := range map[string]bool{
			"bound": l.wasBound(), "deleted before they were bound": !l.wasBound(), "used by a pod": l.used(), "expanded": l.grew(), "of " + l.class.name: true,
		} {
			if is {
				counts[what]++
			}
		}
	}
	k.Logf("%d claims in %s, %.2f a second: %v", len(lives), length, float64(len(lives))/length.Seconds(), counts)
	k.Logf("claim to bound: %s", timesOf(lives))
	k.Logf("faults: %v", k.struck)
	k.Logf("violations: %d", len(k.wrong))
	for _, text := range k.wrong {
		k.Error(text)
	}
	if counts["bound"] == 0 || len(k.struck) == 0 {
		k.Error("nothing was bound, or nothing was done to disturb it: this shows nothing")
	}
}
