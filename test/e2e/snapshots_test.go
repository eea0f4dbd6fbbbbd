//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// What pods do with files. Each ends with the checksums of all.
const (
	writes  = "mkdir /data/files && cd /data/files && for i in 1 2 3; do dd if=/dev/urandom of=$i bs=100k count=5 2> /dev/null; done && echo first > text && " + sums
	changes = "cd /data/files && dd if=/dev/urandom of=2 bs=100k count=5 conv=notrunc 2> /dev/null && echo second > text && rm 3 && echo new > 4 && " + sums
	sums    = "cd /data/files && sync && sha256sum *"
)

// onlySnapshots skips a test that takes minutes unless make test-snapshots runs it.
func onlySnapshots(t *testing.T) {
	t.Helper()
	if os.Getenv("FLEX_E2E_SNAPSHOTS") == "" {
		t.Skip("make test-snapshots runs it")
	}
}

// snapshotting is a user's path with snapshots of a class.
type snapshotting struct {
	name  string
	class func(s *scope) *class
	// claim and pod are changes to all claims and pods.
	claim []func(*corev1.PersistentVolumeClaim)
	pod   []func(*corev1.Pod)
	// restored is a change to the pod with the restored claim.
	restored func(*corev1.Pod)
	// deletes are the claim, the snapshot and the claim that was restored, in the order in which they are deleted.
	deletes []string
	// waits is what the claim's volume says as long as it waits for the snapshot, where it does.
	waits string
	// storage names what the storage still has.
	storage func(c *class) string
}

var snapshottings = []snapshotting{
	{
		name: "script", class: func(s *scope) *class { return s.scriptClass("a", "") },
		deletes: []string{"claim", "restored", "snapshot"},
		storage: func(c *class) string { return strings.Join(c.volumes(), ", ") + c.snapshots() },
	},
	{
		name: "hostpath", class: func(s *scope) *class {
			s.mountDisk("node3", "/var/lib/flex-hostpath", "btrfs", "256M") // it shares data between files
			return s.snapshotExample("hostpath", map[string]string{"snapshot-copy": ""})
		},
		claim: []func(*corev1.PersistentVolumeClaim){readWriteOnce}, pod: []func(*corev1.Pod){onSpare("node3")}, restored: onSpare("node3"),
		deletes: []string{"snapshot", "claim", "restored"},
		storage: func(c *class) string { return c.s.namesOn("node3", "/var/lib/flex-hostpath") },
	},
	{
		name: "loop", class: func(s *scope) *class {
			s.mountDisk("node2", loopDir, "xfs", "1G")
			s.mountDisk("node3", loopDir, "xfs", "1G")
			s.flexNode()
			return s.snapshotExample("loop", nil)
		},
		claim: []func(*corev1.PersistentVolumeClaim){readWriteOnce}, pod: []func(*corev1.Pod){ownsFiles, onSpare("node2")},
		restored: func(pod *corev1.Pod) { // the scheduler selects node3, and the snapshot is on node2
			ownsFiles(pod)
			prefersSpare("node3")(pod)
		},
		deletes: []string{"restored", "snapshot", "claim"},
		storage: func(c *class) string {
			return c.s.namesOn("node2", loopDir) + c.s.namesOn("node3", loopDir)
		},
	},
}

// TestSnapshots takes a user through each class: data, a snapshot, other data, a claim with the data of the snapshot. Then all is deleted,
// in another order for each class, and the storage has nothing left.
func TestSnapshots(t *testing.T) {
	installedAfter(t)
	for _, row := range snapshottings {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.needSnapshots()
			s.needSpareNodes()
			class := row.class(s)
			s.snapshotPath(class, row)
			s.wait(patient, "storage empty", func() string { return row.storage(class) })
		})
	}
}

// TestCinderSnapshots does the same with a real Cinder, which keeps a volume as long as it has snapshots.
func TestCinderSnapshots(t *testing.T) {
	cinderStops(t)
	s := begin(t)
	s.needSnapshots()
	cinder := s.cinder("noauth")
	class := s.cinderClass(cinder.standalone())
	s.snapshotPath(class, snapshotting{
		claim: []func(*corev1.PersistentVolumeClaim){readWriteOnce, atLeast1Gi}, pod: []func(*corev1.Pod){ownsFiles},
		deletes: []string{"claim", "snapshot", "restored"}, waits: "*snapshot*",
	})
	cinder.nothingLeft()
	var list struct{ Snapshots []any }
	cinder.call("GET", "/snapshots", nil, &list)
	if len(list.Snapshots) > 0 {
		t.Errorf("cinder has snapshots: %v", list.Snapshots)
	}
}

// snapshotPath is a user's, from the claim to the deletion of everything.
func (s *scope) snapshotPath(class *class, row snapshotting) {
	s.Helper()
	of := s.snapshotClass("delete", snapshotv1.VolumeSnapshotContentDelete)
	original := class.claim("original", row.claim...)
	before := s.printed(original.consumerOf(shared.admin, writes, row.pod...))
	volume := original.volume()

	snapshot := original.snapshot("snapshot", of)
	s.Logf("the snapshot was ready after %.1f s", snapshot.ready(patient).Seconds())
	snapshot.recorded(volume)
	after := s.printed(original.consumerOf(shared.admin, changes, row.pod...))
	if before == after {
		s.Fatalf("the data has not changed: %s", before)
	}

	pod := row.pod
	if row.restored != nil {
		pod = []func(*corev1.Pod){row.restored}
	}
	restored := class.claim("restored", append(row.claim, restores(snapshot.Name))...)
	s.finished(restored.consumerOf(shared.admin, sums, pod...), before)
	s.finished(original.consumerOf(shared.admin, sums, row.pod...), after)

	for _, what := range row.deletes {
		switch what {
		case "claim":
			original.delete()
			if row.waits != "" {
				s.told(patient, volume.UID, "ProvisionerBusy", row.waits)
				continue
			}
			original.gone(patient)
		case "snapshot":
			snapshot.delete()
			snapshot.gone(2 * patient) // some backends keep it while a restored volume depends on it
			snapshot.ran(contract.Snapshot, 1)
		case "restored":
			s.finished(restored.consumerOf(shared.admin, sums, pod...), before)
			restored.delete()
			restored.gone(patient)
		}
	}
	original.gone(2 * patient)
}

// recorded fails unless the content says what it has to of the volume's snapshot.
func (o *snapshot) recorded(of *corev1.PersistentVolume) {
	o.s.Helper()
	content, now := o.content(), o.now()
	if content == nil || content.Status == nil {
		o.s.Fatalf("VolumeSnapshot %s is ready, and its content is %s", o.Name, inJSON(content))
	}
	size := of.Spec.Capacity[corev1.ResourceStorage]
	st := content.Status
	switch {
	case st.SnapshotHandle == nil || *st.SnapshotHandle != o.handle():
		o.s.Errorf("the handle is %s, want %s", inJSON(st.SnapshotHandle), o.handle())
	case st.RestoreSize == nil || *st.RestoreSize != size.Value():
		o.s.Errorf("the size is %s, want %d", inJSON(st.RestoreSize), size.Value())
	case st.CreationTime == nil || *st.CreationTime > time.Now().UnixNano():
		o.s.Errorf("the time is %s", inJSON(st.CreationTime))
	case *content.Spec.Source.VolumeHandle != of.Name:
		o.s.Errorf("it is of volume %s, want %s", *content.Spec.Source.VolumeHandle, of.Name)
	case now.Status.Error != nil:
		o.s.Errorf("it has the error %s", inJSON(now.Status.Error))
	}
	o.s.wait(soon, "content finished", func() string {
		if _, begun := o.content().Annotations[contract.AnnBeingCreated]; begun {
			return "it has the annotation " + contract.AnnBeingCreated
		}
		return ""
	})
}

// snapshotExample is spareExample with snapshots, and with other changes to its ConfigMap.
func (s *scope) snapshotExample(name string, changes map[string]string) *class {
	s.Helper()
	c := s.spareExample(name)
	data := map[string]string{"snapshots": "true"}
	maps.Copy(data, changes)
	c.edit(data)
	return c
}

// namesOn are what a node has of volumes and snapshots in a folder, and in the folders of that.
func (s *scope) namesOn(node, folder string) string {
	s.Helper()
	names, err := command(s.Context(), "test/cluster/enter.sh", "--node", node, "find", folder, "-name", "pvc-*", "-o", "-name", "*snap-*")
	s.ok(err)
	return strings.Join(strings.Fields(names), ", ")
}

// TestSnapshotCopiesAll has a disk that cannot share data between files. Copies of all data have to be allowed.
func TestSnapshotCopiesAll(t *testing.T) {
	onlySnapshots(t)
	installedAfter(t)
	s := begin(t)
	s.needSnapshots()
	class := s.snapshotExample("hostpath", map[string]string{"snapshot-copy": ""})
	of := s.snapshotClass("delete", snapshotv1.VolumeSnapshotContentDelete)
	original := class.claim("original", readWriteOnce)
	before := s.printed(original.consumerOf(shared.admin, writes))
	snapshot := original.snapshot("snapshot", of)
	s.told(patient, snapshot.UID, "ProvisionerRefused", "*cannot share data between files*snapshot-copy*")
	class.edit(map[string]string{"snapshot-copy": "full"})
	snapshot.ready(patient)
	s.printed(original.consumerOf(shared.admin, changes))
	restored := class.claim("restored", readWriteOnce, restores(snapshot.Name))
	s.finished(restored.consumerOf(shared.admin, sums), before)
	original.delete()
	snapshot.delete()
	restored.delete()
	original.gone(patient)
	restored.gone(patient)
	snapshot.gone(patient)
	s.wait(patient, "storage removed", func() string { // other tests use this folder of the machine, too
		names := s.namesOn("node1", "/var/lib/flex-hostpath")
		return first([]string{original.volumeName(), restored.volumeName(), snapshot.handle()}, func(own string) string {
			if strings.Contains(names, own) {
				return names
			}
			return ""
		})
	})
}

// TestSnapshotRetained: under the policy Retain the snapshot outlives its objects. A content that an administrator makes for it by hand is
// restored and deleted as soon as the class is known.
func TestSnapshotRetained(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.needSnapshots()
	class := s.scriptClass("a", "")
	original := class.claim("original")
	before := s.printed(original.consumerOf(shared.admin, writes))
	kept := original.snapshot("kept", s.snapshotClass("retain", snapshotv1.VolumeSnapshotContentRetain))
	kept.ready(patient)
	kept.delete()
	s.wait(patient, "VolumeSnapshot gone", func() string {
		if kept.now() != nil {
			return "it is there"
		}
		return ""
	})
	if kept.content() == nil {
		t.Fatal("the content of a retained snapshot went with its VolumeSnapshot")
	}
	s.ok(shared.snapshots.VolumeSnapshotContents().Delete(t.Context(), kept.contentName(), metav1.DeleteOptions{}))
	kept.gone(patient)
	kept.ran(contract.DeleteSnapshot, 0)
	if names := class.snapshots(); names != kept.handle() {
		t.Errorf("the storage has %q, want %q", names, kept.handle())
	}
	original.delete()
	original.gone(patient)

	imported := s.importSnapshot("imported", kept.handle(), nil)
	imported.ready(patient)
	restored := class.claim("restored", restores(imported.Name))
	unknown := "*nothing says of which class the snapshot of VolumeSnapshotContent " + imported.contentName() + " is: kubectl annotate *"
	restored.told(soon, "SnapshotNotReady", unknown)
	_, err := kubectl(t.Context(), "annotate", "volumesnapshotcontent", imported.contentName(), contract.AnnClass+"="+class.name)
	s.ok(err)
	s.finished(restored.consumerOf(shared.admin, sums), before)
	restored.delete()
	restored.gone(patient)

	twin := s.importSnapshot("twin", kept.handle(), map[string]string{contract.AnnClass: class.name})
	twin.ready(patient)
	imported.delete()
	s.told(patient, imported.content().UID, "DeletionHeld", "*"+twin.contentName()+" has the same snapshot "+kept.handle()+"*")
	_, err = kubectl(t.Context(), "patch", "volumesnapshotcontent", twin.contentName(), "--type=merge", "-p", `{"spec":{"deletionPolicy":"Retain"}}`)
	s.ok(err)
	twin.delete()
	s.ok(shared.snapshots.VolumeSnapshotContents().Delete(t.Context(), twin.contentName(), metav1.DeleteOptions{}))
	twin.gone(patient)
	imported.gone(patient)
	if names := class.snapshots(); names != "" {
		t.Errorf("the storage has %q left", names)
	}
}

// TestSnapshotRefused: who asks for what a class does not have reads why, and so does who waits.
func TestSnapshotRefused(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.needSnapshots()
	of := s.snapshotClass("delete", snapshotv1.VolumeSnapshotContentDelete)

	none := s.class("none", setting{})
	without := none.claim("without")
	without.bound(patient)
	refused := without.snapshot("refused", of)
	s.told(soon, refused.UID, "SnapshotRefused", "class "+none.name+" has no snapshots: its ConfigMap "+none.id+" has neither *")
	if content := refused.content(); content != nil {
		t.Errorf("there is a content %s", content.Name)
	}
	refused.delete()
	refused.gone(patient)

	full := s.scriptClass("full", "[ -e \"$home/room\" ] || flexctl fail \"the array is full\"\n")
	claim := full.claim("claim")
	claim.bound(patient)
	early := s.makeSnapshot("early", snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &of,
		Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("nothing")}})
	s.told(soon, early.UID, "SnapshotWaits", "claim nothing does not exist; the snapshot waits for it")
	early.delete()
	failing := claim.snapshot("failing", of)
	waiting := full.claim("waiting", restores(failing.Name))
	s.told(patient, failing.UID, "ProvisionerFailed", "the array is full (pod "+contract.ProvisionersNamespace+"/snap-"+string(failing.UID)+"-0)*")
	waiting.told(soon, "SnapshotNotReady", "*VolumeSnapshot failing, which is not ready*")
	s.wait(soon, "error in the status", func() string {
		content, now := failing.content(), failing.now()
		for _, status := range []string{inJSON(content.Status), inJSON(now.Status)} {
			if !strings.Contains(status, `"error":{`) || !strings.Contains(status, "the array is full") {
				return "the status is " + status
			}
		}
		return ""
	})
	s.ok(os.WriteFile(full.dir()+"/room", nil, 0o644))
	failing.ready(patient)
	waiting.bound(patient)

	small := full.claim("small", restores(failing.Name), func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = newClaim("", "", "", "1Mi").Spec.Resources.Requests
	})
	small.told(soon, "ClaimRefused", "spec.resources.requests.storage is 1Mi: VolumeSnapshot failing needs 67108864 bytes")
	other := none.claim("other", restores(failing.Name))
	other.told(soon, "ClaimRefused", "*VolumeSnapshot failing: class "+none.name+" has no snapshots*")
	small.delete()
	other.delete()
	failing.delete()
	failing.gone(patient)
	if names := full.snapshots(); names != "" {
		t.Errorf("the storage has %q left", names)
	}
}

// atGate is a pod that waits at its gate: the UID in its name, and the volume that the gate is for.
type atGate struct{ uid, volume string }

// TestSnapshotsDispatcherKilled kills the dispatcher while pods take snapshots, restore them and remove them. Half of them end while no
// dispatcher runs. Each runs once.
func TestSnapshotsDispatcherKilled(t *testing.T) {
	onlySnapshots(t)
	s := begin(t)
	s.needSnapshots()
	s.freshDispatcher()
	class := s.scriptClass("a", gate)
	of := s.snapshotClass("delete", snapshotv1.VolumeSnapshotContentDelete)
	var claims, restored []*claim
	var snapshots []*snapshot
	var taking, restoring []atGate
	for i := range 6 {
		claims = append(claims, class.claim(fmt.Sprintf("claim-%d", i)))
	}
	s.wait(patient, "claims bound", func() string { return first(claims, (*claim).unbound) })
	for i, c := range claims {
		o := c.snapshot(fmt.Sprintf("snapshot-%d", i), of)
		snapshots, taking = append(snapshots, o), append(taking, atGate{string(o.UID), c.volumeName()})
	}
	s.killAt(class, contract.Snapshot, taking)
	s.wait(patient, "snapshots ready", func() string { return first(snapshots, (*snapshot).unready) })

	for i, o := range snapshots {
		c := class.claim(fmt.Sprintf("restored-%d", i), restores(o.Name))
		restored, restoring = append(restored, c), append(restoring, atGate{string(c.UID), c.volumeName()})
	}
	s.killAt(class, contract.Provision, restoring)
	s.wait(patient, "claims restored", func() string { return first(restored, (*claim).unbound) })

	for _, o := range snapshots {
		o.delete()
	}
	s.killAt(class, contract.DeleteSnapshot, taking)
	s.wait(patient, "snapshots gone", func() string { return first(snapshots, (*snapshot).left) })
	for _, o := range snapshots {
		o.ran(contract.Snapshot, 1)
		o.ran(contract.DeleteSnapshot, 1)
	}
	class.once()
	if names := class.snapshots(); names != "" {
		t.Errorf("the storage has %q left", names)
	}
}

// killAt kills the dispatcher while the pods of the operation wait at their gates.
func (s *scope) killAt(class *class, operation contract.Operation, pods []atGate) {
	s.Helper()
	s.wait(patient, fmt.Sprintf("%s pods run", operation), func() string {
		return first(pods, func(p atGate) string {
			for _, pod := range all(shared.pods, func(pod *corev1.Pod) bool { return pod.Labels[contract.LabelClaimUID] == p.uid }) {
				if pod.Labels[contract.LabelOperation] == string(operation) && pod.Status.Phase == corev1.PodRunning {
					return ""
				}
			}
			return "no pod runs for " + p.uid
		})
	})
	was := holder()
	s.ok(killed(s.Context(), s.leader()))
	half := len(pods) / 2
	for _, p := range pods[:half] {
		class.open(operation, p.volume)
	}
	took := s.newLeader(was)
	s.Logf("the dispatcher was killed while %d %s pods ran; another process led after %.1f s", len(pods), operation, took.Seconds())
	for _, p := range pods[half:] {
		class.open(operation, p.volume)
	}
}

// TestSnapshotControllerKilled kills the snapshot-controller before a snapshot is asked for, while one is taken, and while one is deleted.
func TestSnapshotControllerKilled(t *testing.T) {
	onlySnapshots(t)
	const controller = "snapshot-controller"
	s := begin(t)
	s.needSnapshots()
	class := s.scriptClass("a", gate)
	of := s.snapshotClass("delete", snapshotv1.VolumeSnapshotContentDelete)
	c := class.claim("claim")
	c.bound(patient)

	s.kill(controller)
	asked := c.snapshot("asked", of)
	s.told(soon, asked.UID, "SnapshotWaits", "the snapshot-controller has not put its finalizer on the VolumeSnapshot: see that it runs")
	asked.ran(contract.Snapshot, 0)
	s.ctl("start", controller)
	running := func(operation contract.Operation) {
		s.Helper()
		s.wait(patient, fmt.Sprintf("a %s pod runs", operation), func() string {
			for _, pod := range shared.ran(operation, asked.UID) {
				if pod.Status.Phase == corev1.PodRunning {
					return ""
				}
			}
			return "none does"
		})
	}

	running(contract.Snapshot)
	s.kill(controller)
	class.open(contract.Snapshot, c.volumeName())
	s.wait(patient, "content ready", func() string {
		if content := asked.content(); content == nil || content.Status == nil || content.Status.ReadyToUse == nil || !*content.Status.ReadyToUse {
			return inJSON(content)
		}
		return ""
	})
	s.ctl("start", controller)
	asked.ready(patient)

	asked.delete()
	running(contract.DeleteSnapshot)
	s.kill(controller)
	class.open(contract.DeleteSnapshot, c.volumeName())
	s.wait(patient, "content gone", func() string {
		if asked.content() != nil {
			return "it is there"
		}
		return ""
	})
	s.ctl("start", controller)
	asked.gone(patient)
	asked.ran(contract.Snapshot, 1)
	asked.ran(contract.DeleteSnapshot, 1)
	class.once()
}

// TestSnapshotBurst asks for FLEX_E2E_BURST claims at once, for a snapshot of each, and for the removal of all. Snapshots come at the rate
// of claims: half of it is too slow. It measures, so that it needs a machine without other work.
func TestSnapshotBurst(t *testing.T) {
	onlySnapshots(t)
	s := begin(t)
	s.needSnapshots()
	n := burst(t)
	class := s.scriptClass("a", "")
	of := s.snapshotClass("delete", snapshotv1.VolumeSnapshotContentDelete)
	var claims []*claim
	var snapshots []*snapshot
	limit := patient + time.Duration(n)*2*time.Second

	bound := s.rate("claims bound", n, func() {
		for i := range n {
			claims = append(claims, class.claim(fmt.Sprintf("claim-%d", i)))
		}
		s.wait(limit, "claims bound", func() string { return first(claims, (*claim).unbound) })
	})
	s.wait(limit, "pods acted on", func() string { return first(claims, (*claim).busy) })
	ready := s.rate("snapshots ready", n, func() {
		for i, c := range claims {
			snapshots = append(snapshots, c.snapshot(fmt.Sprintf("snapshot-%d", i), of))
		}
		s.wait(limit, "snapshots ready", s.unreadySnapshots)
	})
	s.rate("snapshots removed", n, func() {
		for _, o := range snapshots { // one request for all takes longer than a request may
			o.delete()
		}
		s.wait(limit, "snapshots gone", func() string { return s.leftSnapshots(t.Context()) })
	})
	s.rate("claims gone", n, func() {
		for _, c := range claims {
			c.delete()
		}
		s.wait(limit, "claims gone", s.left)
	})
	for _, o := range snapshots {
		o.ran(contract.Snapshot, 1)
		o.ran(contract.DeleteSnapshot, 1)
	}
	if names := class.snapshots(); names != "" {
		t.Errorf("the storage has %q left", names)
	}
	if ready < bound/2 {
		t.Errorf("%.2f snapshots a second, and %.2f claims", ready, bound)
	}
}

// burst is how many claims a burst has.
func burst(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FLEX_E2E_BURST")
	if text == "" {
		return 200
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("FLEX_E2E_BURST is %q: write a number of claims", text)
	}
	return n
}

// rate says how many a second there were.
func (s *scope) rate(what string, n int, do func()) float64 {
	s.Helper()
	began := time.Now()
	do()
	rate := float64(n) / time.Since(began).Seconds()
	s.Logf("%d %s: %.2f a second", n, what, rate)
	return rate
}

// unreadySnapshots is how many of the test's snapshots are not ready, by one request.
func (s *scope) unreadySnapshots() string {
	list, err := shared.snapshots.VolumeSnapshots(s.name).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	return first(list.Items, func(o snapshotv1.VolumeSnapshot) string {
		if o.Status != nil && o.Status.ReadyToUse != nil && *o.Status.ReadyToUse {
			return ""
		}
		return fmt.Sprintf("VolumeSnapshot %s: %s%s", o.Name, inJSON(o.Status), showEvents(eventsOn(o.UID)))
	})
}
