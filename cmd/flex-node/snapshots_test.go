//go:build conformance

package main

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// script runs the image loop, whose storage is a directory of the node.
type script struct {
	dir string
	api *sdktest.Server
}

func (s script) request(r contract.Request) contract.Request {
	r.SizeBytes = size
	r.Properties = map[string]string{"root": s.dir}

	return r
}

func (s script) run(t *testing.T, r contract.Request, existing *corev1.PersistentVolume, killAt int) sdktest.Result {
	t.Helper()
	volume := existing
	if r.Operation == contract.Provision {
		volume = sdktest.Skeleton(r)
	}

	return sdktest.RunScript(t, "../../images/loop/provisioner.sh", sdktest.NewPod(t, r, volume, s.api), killAt)
}

// A snapshot of a volume in use, what is restored from it, and a clone have what was written before, and each has a
// file system of its own. All of it is on one node at once. Whatever is killed is done by the next attempt.
func TestSnapshots(t *testing.T) {
	for _, disk := range []string{"xfs", "btrfs"} {
		for _, fsType := range []string{"ext4", "xfs"} {
			t.Run(fsType+" on "+disk, func(t *testing.T) {
				s := script{newDisk(t, disk), sdktest.NewServer(t)}
				provision := s.request(sdktest.Provision(nil))
				s.run(t, provision, nil, 0).Expect(t, 0, "created")
				v := namedVolume(t, s.dir, fsType, provision.VolumeName)
				v.do(t, "stage", "publish")
				must(t, os.WriteFile(v.target+"/data", []byte("before"), 0o600))
				run(t, "sync", "-f", v.target)
				take := s.request(sdktest.Snapshot(nil))
				take.VolumeName = provision.VolumeName
				killedAll(t, func(at int) sdktest.Result { return s.run(t, take, sdktest.Skeleton(provision), at) })
				must(t, os.WriteFile(v.target+"/data", []byte("after"), 0o600))
				run(t, "sync", "-f", v.target)

				restore := s.request(sdktest.Restore(nil))
				restore.SizeBytes = 2 * size
				clone := s.request(sdktest.Provision(nil))
				clone.Claim.UID = "00000000-0000-4000-8000-00000000000c"
				clone.VolumeName = "pvc-" + clone.Claim.UID
				clone.Source = &contract.Source{Namespace: clone.Claim.Namespace, Name: "data", VolumeName: v.id}
				for want, r := range map[string]contract.Request{"before": restore, "after": clone} {
					killedAll(t, func(at int) sdktest.Result { return s.run(t, r, nil, at) })
					c := namedVolume(t, s.dir, fsType, r.VolumeName)
					if !canGrow(fsType) && r.SizeBytes != size {
						must(t, os.Truncate(filepath.Join(c.folder(), "image"), size))
					}

					c.do(t, "stage", "publish")
					if data, err := os.ReadFile(c.target + "/data"); err != nil || string(data) != want {
						t.Errorf("it has %q, %v, want %q", data, err, want)
					}

					if canGrow(fsType) && r.SizeBytes != size && c.stats(t).GetTotal() < size*3/2 {
						t.Errorf("restored larger it has %v", c.stats(t))
					}
				}

				v.do(t, "unpublish", "unstage", "stage", "publish")
				drop := s.request(sdktest.DeleteSnapshot(nil))
				drop.VolumeName = provision.VolumeName
				killedAll(t, func(at int) sdktest.Result { return s.run(t, drop, sdktest.Skeleton(provision), at) })
				entries, err := os.ReadDir(s.dir + "/.flex-provisioner/snapshots")
				if err != nil || len(entries) > 0 {
					t.Errorf("the snapshots %v, %v are left", entries, err)
				}
			})
		}
	}
}

// killedAll runs a script that is killed at its points, one after another, until it comes to its end.
func killedAll(t *testing.T, attempt func(at int) sdktest.Result) {
	t.Helper()
	for at := 1; ; at++ {
		got := attempt(at)
		if got.Code == sdktest.Killed {
			continue
		}

		if got.Code != 0 {
			t.Fatalf("attempt %d ends with %d: %s", at, got.Code, got.Output)
		}

		return
	}
}
