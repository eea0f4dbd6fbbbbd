package dispatcher

import (
	"errors"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// mortal is the API server of a dispatcher that is killed at its first write of a kind. After that it writes nothing, and reads nothing.
type mortal struct {
	http.RoundTripper
	// arrives reports whether the write is done all the same.
	arrives bool

	mu     sync.Mutex
	at     string // the write, empty for none
	dead   bool
	writes []string
}

var errKilled = errors.New("the dispatcher was killed")

// writeOf names a write by what it changes, empty for a read, and for what is no decision: events and leases.
func writeOf(r *http.Request) string {
	parts := regexp.MustCompile(`/(pods|volumesnapshotcontents)(/[^/]+)?(/status)?$`).FindStringSubmatch(r.URL.Path)
	if r.Method == http.MethodGet || parts == nil {
		return ""
	}

	return r.Method + " " + parts[1] + parts[3]
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	write := writeOf(r)

	m.mu.Lock()
	dead := m.dead
	if write != "" && !dead {
		m.writes = append(m.writes, write)
		m.dead = write == m.at
	}

	dies := m.dead && !dead
	m.mu.Unlock()

	if dead || dies && !m.arrives {
		return nil, errKilled
	}

	response, err := m.RoundTripper.RoundTrip(r)
	if dies {
		return nil, errKilled
	}

	return response, err
}

// next ends a part of the test, and begins one in which the dispatcher is killed at a write.
func (m *mortal) next(at string) (writes []string) {
	m.mu.Lock()
	defer m.mu.Unlock()

	writes, m.writes, m.at = m.writes, nil, at

	return writes
}

func (m *mortal) killed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	return m.dead
}

// snapshotWrites are all writes of a dispatcher that takes a snapshot, and then removes it.
var snapshotWrites = []struct {
	name     string
	removing bool
	write    string
}{
	{"content created", false, "POST volumesnapshotcontents"},
	{"pod that takes it created", false, "POST pods"},
	{"status written", false, "PATCH volumesnapshotcontents/status"},
	{"mark taken off", false, "PATCH volumesnapshotcontents"},
	{"pod that took it released", false, "PATCH pods"},
	{"pod that took it deleted", false, "DELETE pods"},
	{"pod that removes it created", true, "POST pods"},
	{"finalizer taken off", true, "PATCH volumesnapshotcontents"},
	{"pod that removed it released", true, "PATCH pods"},
	{"pod that removed it deleted", true, "DELETE pods"},
}

// TestSnapshotKilled kills the dispatcher before and after each of its writes. Pods end while no dispatcher runs. The next one goes on:
// one pod takes the snapshot, one removes it, and nothing is left.
func TestSnapshotKilled(t *testing.T) {
	for _, c := range snapshotWrites {
		for when, arrives := range map[string]bool{"before": false, "after": true} {
			t.Run(c.name+"/"+when, func(t *testing.T) {
				inBubble(t, func(p tenants) {
					api := &mortal{RoundTripper: p.server, arrives: arrives}
					if p.takeAndRemove(api, c.removing, c.write); !api.killed() {
						t.Errorf("the dispatcher never wrote %s", c.write)
					}
				})
			})
		}
	}
}

// TestSnapshotWrites: there are no other writes than those that TestSnapshotKilled kills at.
func TestSnapshotWrites(t *testing.T) {
	inBubble(t, func(p tenants) {
		taking, removing := p.takeAndRemove(&mortal{RoundTripper: p.server}, false, "")
		for _, c := range snapshotWrites {
			got := &taking
			if c.removing {
				got = &removing
			}

			i := slices.Index(*got, c.write)
			if i < 0 {
				t.Errorf("%s: there is no %s", c.name, c.write)
				continue
			}

			*got = slices.Delete(*got, i, i+1)
		}

		if left := append(taking, removing...); len(left) > 0 {
			t.Errorf("more writes: %q", left)
		}
	})
}

// takeAndRemove plays a user who takes a snapshot and deletes it, and returns what was written for both.
func (p tenants) takeAndRemove(api *mortal, removing bool, at string) (taken, removed []string) {
	p.snapshots, p.api = true, api
	stop := p.dispatch()
	defer func() { stop() }()

	again := func() {
		p.play(20 * time.Second)
		if api.killed() {
			stop()
			p.api = p.server
			stop = p.dispatch()
			p.play(20 * time.Second)
		}
	}
	part := func(of bool) string {
		if of == removing {
			return at
		}

		return ""
	}

	p.class("silver.good", map[string]string{"snapshot": "true", "delete-snapshot": "true"})
	p.snapshotClass(snapshotv1.VolumeSnapshotContentDelete)
	p.play(5 * time.Second)
	p.claim("data", "silver.good")
	p.play(20 * time.Second)

	api.next(part(false))
	p.snapshot("before", "data")
	again()
	taken = api.next(part(true))

	o, _ := apiserver.Get[*snapshotv1.VolumeSnapshot](p.server, apiserver.Snapshots, "team", "before")
	if st := o.Status; st == nil || st.ReadyToUse == nil || !*st.ReadyToUse {
		p.t.Errorf("the snapshot is not ready: %+v; events: %q", st, apiserver.Told(p.server))
		return taken, nil
	}

	p.remove(apiserver.Snapshots, "team", "before")
	again()
	p.nothingLeft(podspec.SnapshotName(string(o.UID)))

	return taken, api.next("")
}

// nothingLeft checks that the snapshot was taken once and removed once, and that none of its objects is left.
func (p tenants) nothingLeft(handle string) {
	want := []string{"delete-snapshot " + handle, "provision", "snapshot " + handle}
	if got := p.operations(); !slices.Equal(got, want) {
		p.t.Errorf("pods ran to\n%q, want\n%q", got, want)
	}

	var left []string
	for _, o := range apiserver.List[*snapshotv1.VolumeSnapshot](p.server, apiserver.Snapshots) {
		left = append(left, path.Join("VolumeSnapshot", o.Name))
	}

	for _, o := range apiserver.List[*snapshotv1.VolumeSnapshotContent](p.server, apiserver.SnapshotContents) {
		left = append(left, path.Join("VolumeSnapshotContent", o.Name))
	}

	for _, pod := range apiserver.List[*corev1.Pod](p.server, apiserver.Pods) {
		if strings.Contains(pod.Name, strings.TrimPrefix(handle, "snap-")) {
			left = append(left, path.Join("pod", pod.Name))
		}
	}

	if len(left) > 0 {
		p.t.Errorf("left is %q; events: %q", left, apiserver.Told(p.server))
	}
}
