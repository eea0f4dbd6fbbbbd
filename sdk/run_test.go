package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// recorder notes what it was asked and answers as told.
type recorder struct {
	volume *sdk.Volume
	err    error
	calls  []string
}

func (r *recorder) Provision(_ context.Context, request sdk.Request) (*sdk.Volume, error) {
	r.calls = append(r.calls, "provision "+request.VolumeName+" in "+request.Properties["zone"])
	return r.volume, r.err
}

func (r *recorder) Delete(_ context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	source := "undo"
	if volume != nil {
		source = volume.Spec.NFS.Path
	}
	r.calls = append(r.calls, "delete "+request.VolumeName+" "+source)
	return r.err
}

// grower is a recorder that can expand.
type grower struct{ *recorder }

func (g grower) Expand(_ context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	g.calls = append(g.calls, fmt.Sprintf("expand %s from %d to %d", volume.Name, request.CurrentSizeBytes>>30, request.SizeBytes>>30))
	return g.err
}

// snapshotter is a recorder that takes snapshots.
type snapshotter struct{ *recorder }

func (s snapshotter) Snapshot(_ context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	s.calls = append(s.calls, "snapshot "+request.Snapshot.Name+" of "+volume.Name)
	return s.err
}

func (s snapshotter) DeleteSnapshot(_ context.Context, request sdk.Request, volume *corev1.PersistentVolume) error {
	s.calls = append(s.calls, fmt.Sprintf("delete-snapshot %s, recorded %t", request.Snapshot.Name, volume != nil))
	return s.err
}

type runCase struct {
	name     string
	request  sdk.Request
	volume   *corev1.PersistentVolume
	answer   recorder
	calls    []string
	code     int
	err      string // %s stands for the pod's root
	noServer bool
	// expander says that the provisioner can expand.
	expander bool
	// snapshotter says that the provisioner takes snapshots.
	snapshotter bool
}

func runCases() []runCase {
	zone := map[string]string{"zone": "west"}
	shrink := sdktest.Provision(zone)
	shrink.Operation = "shrink"
	foreign := sdktest.Provision(zone)
	foreign.Claim.UID = "another"
	list := sdktest.List(zone)
	stranger := sdktest.Delete(zone)
	stranger.VolumeName = "pvc-another"
	good := &sdk.Volume{Source: nfs}
	unnamed := sdktest.Snapshot(zone)
	unnamed.Snapshot = nil
	byHand := sdktest.DeleteSnapshot(zone)
	byHand.VolumeName = ""
	nowhere := sdktest.Snapshot(zone)
	nowhere.VolumeName = ""
	return []runCase{
		{name: "provision", request: sdktest.Provision(zone), volume: sdktest.Skeleton(sdktest.Provision(zone)),
			answer: recorder{volume: good}, calls: []string{"provision " + name + " in west"}, err: "<nil>"},
		{name: "provision fails", request: sdktest.Provision(zone), volume: sdktest.Skeleton(sdktest.Provision(zone)),
			answer: recorder{err: sdk.NotHere(errors.New("no disk"))}, calls: []string{"provision " + name + " in west"},
			code: 69, err: "no disk"},
		{name: "provision returns nothing", request: sdktest.Provision(zone), volume: sdktest.Skeleton(sdktest.Provision(zone)),
			calls: []string{"provision " + name + " in west"}, code: 1,
			err: "the provisioner returned neither a volume nor an error"},
		{name: "provision without source", request: sdktest.Provision(zone), volume: sdktest.Skeleton(sdktest.Provision(zone)),
			answer: recorder{volume: &sdk.Volume{}}, calls: []string{"provision " + name + " in west"}, code: 1,
			err: "volume source: Required value: name exactly one, for example nfs or csi"},
		{name: "no identity, so nothing is made", request: sdktest.Provision(zone), volume: sdktest.Skeleton(sdktest.Provision(zone)),
			answer: recorder{volume: good}, noServer: true, code: 1,
			err: "neither FLEX_KUBE_API nor KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set; is this a provisioner pod?"},
		{name: "no skeleton", request: sdktest.Provision(zone), answer: recorder{volume: good}, code: 1,
			err: "read volume: %s/etc/flex-provisioner/volume.yaml is missing or empty; is this a provisioner pod?"},
		{name: "skeleton of another claim", request: foreign, volume: sdktest.Skeleton(sdktest.Provision(zone)),
			answer: recorder{volume: good}, code: 1,
			err: `read volume %s/etc/flex-provisioner/volume.yaml: spec.claimRef.uid is not "another", the claim of the request`},
		{name: "delete needs no identity", request: sdktest.Delete(zone), volume: newVolume(), noServer: true,
			calls: []string{"delete " + name + " /e/x"}, err: "<nil>"},
		{name: "undo", request: sdktest.Delete(zone), noServer: true, calls: []string{"delete " + name + " undo"}, err: "<nil>"},
		{name: "delete fails", request: sdktest.Delete(zone), volume: newVolume(), noServer: true,
			answer: recorder{err: errors.New("array is down")}, calls: []string{"delete " + name + " /e/x"}, code: 1, err: "array is down"},
		{name: "delete of another volume", request: stranger, volume: newVolume(), code: 1,
			err: `read volume %s/etc/flex-provisioner/volume.yaml: metadata.name is "` + name + `", but the request is for "pvc-another"`},
		{name: "unknown operation", request: shrink, volume: newVolume(), code: 64,
			err: `operation "shrink": this provisioner knows only provision, delete`},
		{name: "expand by one that cannot", request: sdktest.Expand(zone), volume: newVolume(), code: 64,
			err: `operation "expand": this provisioner knows only provision, delete`},
		{name: "expand", request: sdktest.Expand(zone), volume: newVolume(), expander: true, noServer: true,
			calls: []string{"expand " + name + " from 10 to 20"}, err: "<nil>"},
		{name: "expand fails", request: sdktest.Expand(zone), volume: newVolume(), expander: true, noServer: true,
			answer: recorder{err: sdk.Refuse(errors.New("no larger"))}, calls: []string{"expand " + name + " from 10 to 20"}, code: 64, err: "no larger"},
		{name: "expand without the volume", request: sdktest.Expand(zone), expander: true, noServer: true, code: 1,
			err: "read volume: %s/etc/flex-provisioner/volume.yaml is missing or empty; is this a provisioner pod?"},
		{name: "unknown operation of one that expands", request: shrink, volume: newVolume(), expander: true, code: 64,
			err: `operation "shrink": this provisioner knows only provision, delete, expand`},
		{name: "snapshot by one that cannot", request: sdktest.Snapshot(zone), volume: newVolume(), code: 64,
			err: `operation "snapshot": this provisioner knows only provision, delete`},
		{name: "snapshot", request: sdktest.Snapshot(zone), volume: newVolume(), snapshotter: true, noServer: true,
			calls: []string{"snapshot " + sdktest.SnapshotName + " of " + name}, err: "<nil>"},
		{name: "snapshot that is not ready", request: sdktest.Snapshot(zone), volume: newVolume(), snapshotter: true, noServer: true,
			answer: recorder{err: sdk.TryAgain(errors.New("copying"))}, calls: []string{"snapshot " + sdktest.SnapshotName + " of " + name},
			code: 75, err: "copying"},
		{name: "snapshot without the volume", request: sdktest.Snapshot(zone), snapshotter: true, noServer: true, code: 1,
			err: "read volume: %s/etc/flex-provisioner/volume.yaml is missing or empty; is this a provisioner pod?"},
		{name: "snapshot without a name", request: unnamed, volume: newVolume(), snapshotter: true, noServer: true, code: 1,
			err: "read request %s/etc/flex-provisioner/request.json: snapshot.name is missing"},
		{name: "snapshot of nothing", request: nowhere, volume: newVolume(), snapshotter: true, noServer: true, code: 1,
			err: "read request %s/etc/flex-provisioner/request.json: volumeName is missing"},
		{name: "delete-snapshot", request: sdktest.DeleteSnapshot(zone), volume: newVolume(), snapshotter: true, noServer: true,
			calls: []string{"delete-snapshot " + sdktest.SnapshotName + ", recorded true"}, err: "<nil>"},
		{name: "delete-snapshot by hand", request: byHand, snapshotter: true, noServer: true,
			calls: []string{"delete-snapshot " + sdktest.SnapshotName + ", recorded false"}, err: "<nil>"},
		{name: "unknown operation of one that takes snapshots", request: shrink, volume: newVolume(), snapshotter: true, code: 64,
			err: `operation "shrink": this provisioner knows only provision, delete, snapshot, delete-snapshot`},
		{name: "list without a Lister", request: list, code: 64,
			err: `operation "list": this provisioner cannot list; remove the ConfigMap's key listable`},
	}
}

func TestRun(t *testing.T) {
	for _, c := range runCases() {
		t.Run(c.name, func(t *testing.T) {
			var server *sdktest.Server
			t.Setenv("FLEX_KUBE_API", "")
			if !c.noServer {
				server = sdktest.NewServer(t)
				t.Setenv("FLEX_KUBE_API", server.URL)
			}
			pod := sdktest.NewPod(t, c.request, c.volume, server)
			var p sdk.Provisioner = &c.answer
			if c.expander {
				p = grower{&c.answer}
			}
			if c.snapshotter {
				p = snapshotter{&c.answer}
			}
			err := sdk.Run(t.Context(), pod.Root, p)
			want := strings.ReplaceAll(c.err, "%s", pod.Root)
			if got := errorText(err); got != want || sdk.ExitCode(err) != c.code {
				t.Errorf("error %s with code %d, want %s with %d", got, sdk.ExitCode(err), want, c.code)
			}
			if !reflect.DeepEqual(c.answer.calls, c.calls) {
				t.Errorf("calls %q, want %q", c.answer.calls, c.calls)
			}
			wantVolume := c.request.Operation == contract.Provision && c.err == "<nil>"
			if server != nil && (server.Volume(name) != nil) != wantVolume {
				t.Errorf("the volume exists: %t, want %t", !wantVolume, wantVolume)
			}
		})
	}
}

func TestLoadRequest(t *testing.T) {
	pod := sdktest.NewPod(t, sdktest.Provision(nil), nil, nil)
	file := filepath.Join(pod.Root, contract.RequestFile)
	for _, c := range []struct{ name, text, err string }{
		{"no JSON", "{", "read request " + file + ": unexpected end of JSON input"},
		{"no name", "{}", "read request " + file + ": volumeName is missing"},
		{"of a later version", `{"volumeName": "pvc-1", "color": {"name": "red"}}`, "<nil>"},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sdk.LoadRequest(pod.Root); errorText(err) != c.err {
			t.Errorf("%s: got %v, want %s", c.name, err, c.err)
		}
	}
	want := sdktest.Provision(map[string]string{"zone": "west"})
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := sdk.LoadRequest(pod.Root); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

// TestNewConfigBounds: a server that does not answer is given up on, and nothing is held back on the pod's own side.
func TestNewConfigBounds(t *testing.T) {
	t.Setenv("FLEX_KUBE_API", "https://10.96.0.1:443")
	config, err := sdk.NewConfig(sdktest.NewPod(t, sdktest.Provision(nil), nil, sdktest.NewServer(t)).Root)
	if err != nil || config.Timeout < time.Second || config.QPS >= 0 {
		t.Errorf("got %+v, %v", config, err)
	}
}

// lister is a recorder that can list.
type lister struct {
	*recorder
	storage []sdk.Storage
}

func (l lister) List(context.Context, sdk.Request) ([]sdk.Storage, error) { return l.storage, l.err }

// TestRunList prints a line for each storage, or fails where the list is not whole.
func TestRunList(t *testing.T) {
	pod := sdktest.NewPod(t, sdktest.List(nil), nil, nil)
	storage := []sdk.Storage{{Name: "pvc-1"}, {Name: "pvc-2"}}
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	for _, c := range []struct {
		err    error
		closed bool
		want   string
		text   string
	}{
		{want: "<nil>", text: storage[0].Line() + "\n" + storage[1].Line() + "\n"},
		{err: errors.New("backend is down"), want: "backend is down"},
		{closed: true, want: "print pvc-1: "},
	} {
		out, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		if c.closed {
			out.Close()
		}
		os.Stdout = out
		err = sdk.Run(t.Context(), pod.Root, lister{&recorder{err: c.err}, storage})
		os.Stdout = stdout
		if !strings.HasPrefix(errorText(err), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
		if text, err := os.ReadFile(out.Name()); err != nil || string(text) != c.text {
			t.Errorf("printed %q, %v, want %q", text, err, c.text)
		}
	}
}
