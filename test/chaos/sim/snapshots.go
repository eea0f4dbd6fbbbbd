package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/snapshotter"
)

// snapshotting are the actions of the theme.
var snapshotting = []string{"snapshot-take", "snapshot-take", "snapshot-take", "snapshot-restore", "snapshot-restore", "snapshot-delete", "snapshot-delete",
	"snapshot-policy", "snapshot-force", "snapshot-import", "snapshot-backup", "snapshot-drop", "deletes-stop", "claim-delete", "claim-create", "claim-expand",
	"pod-kill", "pod-delete", "dispatcher-kill"}

// snapshots are those of the storage, by handle: there is one storage, and names of snapshots are unique.
type snapshots struct {
	w    *World
	mu   sync.Mutex
	made map[string]*madeSnapshot
	// data is what the volumes of the backend began with, by key: empty for those that began empty.
	data map[string]string
	of   map[string]*snapshotAccount // by handle
	kept map[string]bool             // snapshots that somebody keeps, or dropped, by handle
	busy map[string]string           // the pod that works on a snapshot, by handle
	gone map[string]time.Time        // when VolumeSnapshots went, by UID
	// unseen is until when the snapshot-controller's cache has not got a content, by UID.
	unseen map[types.UID]time.Time
}

type madeSnapshot struct {
	key   string // of the volume
	whole bool
}

// snapshotAccount says whether a snapshot may be removed: while the only content that has it is deleted under Delete,
// and its VolumeSnapshot too, or an administrator allows it.
type snapshotAccount struct {
	contents map[string]*snapshotv1.VolumeSnapshotContent
	doomed   bool
	until    time.Time
}

func newSnapshots(w *World) *snapshots {
	return &snapshots{w: w, made: map[string]*madeSnapshot{}, data: map[string]string{}, of: map[string]*snapshotAccount{}, kept: map[string]bool{}, busy: map[string]string{}, gone: map[string]time.Time{}, unseen: map[types.UID]time.Time{}}
}

// changed hears of objects of snapshots, under the server's lock.
func (s *snapshots) changed(before, after apiserver.Object) {
	object := after
	if object == nil {
		object = before
	}
	control := s.controller()
	namespace, name := object.GetNamespace(), object.GetName()
	content, ok := object.(*snapshotv1.VolumeSnapshotContent)
	if !ok {
		if after == nil {
			s.mu.Lock()
			s.gone[string(object.GetUID())] = time.Now()
			s.mu.Unlock()
		}
		s.w.later(time.Millisecond, 500*time.Millisecond, func() {
			if control.Sync(namespace, name); after == nil {
				control.Removed(before.(*snapshotv1.VolumeSnapshot))
			}
		}, "snapshotter", namespace, name)
		return
	}
	s.mayBeReady(before, content)
	ref := content.Spec.VolumeSnapshotRef
	sync := func() {
		control.SyncContent(name)
		control.Sync(ref.Namespace, ref.Name)
	}
	s.w.later(time.Millisecond, 500*time.Millisecond, sync, "snapshotter", name)

	s.mu.Lock()
	defer s.mu.Unlock()
	if before == nil && s.w.faulty() && s.w.dice.chance(s.w.plan.Rates["lag"], "snapshotter", "unseen", name) {
		behind := s.w.dice.between(time.Millisecond, 10*time.Second, "snapshotter", "behind", name)
		s.unseen[content.UID] = time.Now().Add(behind)
		s.w.later(behind, behind+time.Millisecond, sync, "snapshotter", "sees", name)
		s.w.drawn("snapshotter-lag")
	}
	handle := podspec.HandleOf(content)
	a := s.of[handle]
	if a == nil {
		a = &snapshotAccount{contents: map[string]*snapshotv1.VolumeSnapshotContent{}}
		s.of[handle] = a
	}
	if a.contents[name] = content; after == nil {
		delete(a.contents, name)
		// What the policy says last counts, and nobody else has to clean up after those who take finalizers off.
		if content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentRetain {
			s.kept[handle] = true
		}
	}
	doomed := a.doomed && len(a.contents) == 0
	for _, c := range a.contents {
		released := c.Annotations[contract.AnnBeingDeleted] != "" || c.Spec.VolumeSnapshotRef.UID == ""
		deleted := c.DeletionTimestamp != nil && c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete && released
		doomed = doomed || deleted && (len(a.contents) == 1 || c.Annotations[contract.AnnAllowDelete] == "true")
	}
	if a.doomed && !doomed {
		a.until = time.Now()
	}
	a.doomed = doomed
}

// mayBeReady checks that the snapshot of a content exists once that says so.
func (s *snapshots) mayBeReady(before apiserver.Object, content *snapshotv1.VolumeSnapshotContent) {
	was, known := before.(*snapshotv1.VolumeSnapshotContent)
	byHand := content.Spec.Source.SnapshotHandle != nil
	if byHand || !podspec.ContentReady(content) || known && podspec.ContentReady(was) {
		return
	}
	handle := podspec.HandleOf(content)
	if of := s.get(handle); of == nil || !of.whole {
		s.w.violate("content %s is ready, and the storage has snapshot %s as %+v", content.Name, handle, of)
	}
}

// controller is the snapshot-controller, whose cache may be behind.
func (s *snapshots) controller() snapshotter.Controller {
	return snapshotter.Controller{Server: s.w.server, Unseen: func(content *snapshotv1.VolumeSnapshotContent) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return time.Now().Before(s.unseen[content.UID])
	}}
}

// begin checks that nobody else works on the snapshot.
func (s *snapshots) begin(handle string, c *container) (end func()) {
	s.mu.Lock()
	other := s.busy[handle]
	s.busy[handle] = c.pod.Name
	s.mu.Unlock()
	if other != "" {
		s.w.violate("pods %s and %s work on snapshot %s at once", other, c.pod.Name, handle)
	}
	return func() { s.mu.Lock(); defer s.mu.Unlock(); delete(s.busy, handle) }
}

func (s *snapshots) get(handle string) *madeSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[handle]
}

func (s *snapshots) put(handle string, of *madeSnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made[handle] = of; of == nil {
		delete(s.made, handle)
	}
	s.w.trace.add("backend", "snapshot %s: %+v", handle, of)
}

// snapshot is the operation of the image.
func (c *container) snapshot() error {
	s, handle, key := c.w.snapshots, c.request.Snapshot.Name, c.key()
	defer s.begin(handle, c)()
	if err := c.begin(c.refuses); err != nil {
		return err
	}
	if err := c.w.backend.call(c, "look the volume up"); err != nil {
		return err
	}
	if there := s.get(handle); there == nil || !there.whole {
		s.mayTake(c)
		if state := c.w.backend.get(key); state != available {
			return sdk.Refuse(fmt.Errorf("the volume at %s is %q", key, state))
		}
		s.put(handle, &madeSnapshot{key: key})
		if err := c.w.backend.call(c, "take the snapshot"); err != nil {
			return err
		}
		s.put(handle, &madeSnapshot{key, true})
		c.w.count("snapshot-taken")
	}
	if c.chance("exit-1") {
		return errors.New("something went wrong after the snapshot was taken")
	}
	return nil
}

// mayTake checks that somebody asks for the snapshot.
func (s *snapshots) mayTake(c *container) {
	s.mu.Lock()
	at, gone := s.gone[c.request.Snapshot.UID]
	s.mu.Unlock()
	if gone && c.pod.CreationTimestamp.Sub(at) > decided {
		s.w.violate("pod %s takes a snapshot whose VolumeSnapshot has been gone since %s", c.pod.Name, at)
	}
}

// deleteSnapshot is the operation of the image.
func (c *container) deleteSnapshot() error {
	s, handle := c.w.snapshots, c.request.Snapshot.Name
	defer s.begin(handle, c)()
	if err := c.begin(c.refuses); err != nil {
		return err
	}
	if err := c.w.backend.call(c, "look the snapshot up"); err != nil || s.get(handle) == nil {
		return err
	}
	s.mayRemove(c, handle)
	s.put(handle, &madeSnapshot{key: s.get(handle).key})
	if err := c.w.backend.call(c, "remove the snapshot"); err != nil {
		return err
	}
	s.put(handle, nil)
	c.w.count("snapshot-removed")
	return nil
}

func (s *snapshots) mayRemove(c *container, handle string) {
	s.mu.Lock()
	a := s.of[handle]
	doomed := a != nil && (a.doomed || c.pod.CreationTimestamp.Sub(a.until) < decided)
	s.mu.Unlock()
	if !doomed {
		s.w.violate("pod %s removes snapshot %s, which a content has that is not deleted under Delete, or more than one", c.pod.Name, handle)
	}
	s.w.podMu.Lock()
	defer s.w.podMu.Unlock()
	for _, other := range s.w.runningPods {
		if observed.SourceSnapshot(other) == handle {
			s.w.violate("pod %s removes snapshot %s while %s restores it", c.pod.Name, handle, other.Name)
		}
	}
}

// count counts what went well, beside the faults.
func (w *World) count(what string) { w.set(func() { w.counts[what]++ }) }

// restoreInto fills new storage: with what its snapshot has.
func (s *snapshots) restoreInto(c *container, key string) error {
	if c.request.Source == nil || c.request.Source.Snapshot == "" {
		return nil
	}
	handle := c.request.Source.Snapshot
	if err := c.w.backend.call(c, "look the snapshot up"); err != nil {
		return err
	}
	if of := s.get(handle); of == nil || !of.whole {
		return fmt.Errorf("there is no snapshot %s", handle) // no refusal: the storage has been made
	}
	c.w.count("snapshot-restored")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data[key] = handle
	return nil
}

// bound checks that a claim gets the data that it asks for.
func (s *snapshots) bound(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
	name, _ := observed.SnapshotOf(claim)
	if name == "" || v.Name != podspec.VolumeName(string(claim.UID)) || v.Spec.NFS == nil {
		return
	}
	s.mu.Lock()
	has := s.data[keyOf(v)]
	named := false
	for _, content := range s.all() {
		ref := content.Spec.VolumeSnapshotRef
		named = named || podspec.HandleOf(content) == has && ref.Namespace == claim.Namespace && ref.Name == name
	}
	s.mu.Unlock()
	if has == "" {
		s.w.violate("claim %s asks for snapshot %s, and volume %s began empty", claim.Name, name, v.Name)
	} else if !named && !s.everNamed(has, claim.Namespace, name) {
		s.w.violate("claim %s asks for snapshot %s, and volume %s has the data of %s", claim.Name, name, v.Name, has)
	}
}

// all are the contents that exist; it is called with mu held.
func (s *snapshots) all() (list []*snapshotv1.VolumeSnapshotContent) {
	for _, handle := range sorted(s.of) {
		for _, name := range sorted(s.of[handle].contents) {
			list = append(list, s.of[handle].contents[name])
		}
	}
	return list
}

// everNamed reports whether a VolumeSnapshot that is gone by now had the snapshot: the handle has its UID, and the trace
// is what remembers.
func (s *snapshots) everNamed(handle, namespace, name string) bool {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.snapshotNames[handle+" "+namespace+"/"+name]
}

const snapshotClass = "snapshots"

func (w *World) setupSnapshots() {
	for policy, name := range map[snapshotv1.DeletionPolicy]string{
		snapshotv1.VolumeSnapshotContentDelete: snapshotClass, snapshotv1.VolumeSnapshotContentRetain: snapshotClass + "-kept"} {
		w.create(apiserver.SnapshotClasses, &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: name},
			Driver: contract.SnapshotDriver(contract.ProvisionerName), DeletionPolicy: policy})
	}
}

func (w *World) newSnapshot(namespace, name string, class string, source snapshotv1.VolumeSnapshotSource) {
	w.create(apiserver.Snapshots, &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &class, Source: source}})
}

// snap carries out an action on snapshots.
func (w *World) snap(a Action) {
	if w.snapshots == nil || time.Since(w.trace.start) < w.plan.CRDs {
		return
	}
	claim := a.N % w.plan.Claims
	if a.Do == "snapshot-take" {
		name, class := claimName(claim), snapshotClass
		if a.N%7 == 0 {
			class += "-kept"
		}
		w.newSnapshot(w.plan.Tenant(claim), fmt.Sprintf("snap-%d-%d", claim, a.N%3), class, snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &name})
		return
	}
	requests := apiserver.List[*snapshotv1.VolumeSnapshot](w.server, apiserver.Snapshots)
	contents := apiserver.List[*snapshotv1.VolumeSnapshotContent](w.server, apiserver.SnapshotContents)
	switch a.Do {
	case "snapshot-restore", "snapshot-delete":
		if len(requests) == 0 {
			return
		}
		o := requests[a.N%len(requests)]
		if a.Do == "snapshot-delete" {
			w.remove("user", apiserver.Snapshots, o.Namespace, o.Name)
			return
		}
		for i := range w.plan.Claims {
			if _, there := w.claim(claimName(i)); !there && w.plan.Tenant(i) == o.Namespace {
				w.set(func() { w.restores[i] = o.Name })
				w.createClaim(i)
				w.set(func() { delete(w.restores, i) })
				return
			}
		}
	default:
		if len(contents) > 0 {
			w.changeContent(contents[a.N%len(contents)], a)
		}
	}
}

// changeContent is what administrators and backup tools do to contents.
func (w *World) changeContent(content *snapshotv1.VolumeSnapshotContent, a Action) {
	ref, handle := content.Spec.VolumeSnapshotRef, podspec.HandleOf(content)
	keep := func() { w.snapshots.mu.Lock(); defer w.snapshots.mu.Unlock(); w.snapshots.kept[handle] = true }
	w.trace.add("admin", "%s content %s (%s)", a.Do, content.Name, handle)
	switch a.Do {
	case "snapshot-policy":
		policy := []snapshotv1.DeletionPolicy{snapshotv1.VolumeSnapshotContentDelete, snapshotv1.VolumeSnapshotContentRetain}[a.N%2]
		w.server.Mutate(apiserver.SnapshotContents, "", content.Name, func(o apiserver.Object) { o.(*snapshotv1.VolumeSnapshotContent).Spec.DeletionPolicy = policy })
	case "snapshot-drop":
		w.remove("admin", apiserver.SnapshotContents, "", content.Name)
	case "snapshot-force", "snapshot-backup":
		keep()
		for _, lost := range []struct{ resource, namespace, name string }{
			{apiserver.Snapshots, ref.Namespace, ref.Name}, {apiserver.SnapshotContents, "", content.Name}} {
			w.server.Mutate(lost.resource, lost.namespace, lost.name, func(o apiserver.Object) { o.SetFinalizers(nil) })
			w.remove("admin", lost.resource, lost.namespace, lost.name)
		}
	}
	if a.Do != "snapshot-import" && a.Do != "snapshot-backup" {
		return
	}
	again := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("by-hand-%d", a.N)}, Spec: *content.Spec.DeepCopy()}
	again.Spec.Source = snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle}
	again.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: ref.Namespace, Name: fmt.Sprintf("again-%d", a.N)}
	switch {
	case a.Do == "snapshot-backup" || a.N%3 == 0:
		again.Annotations = content.Annotations
	case a.N%3 == 1:
		again.Annotations = map[string]string{contract.AnnClass: w.plan.Classes[0].Name}
	}
	w.remember(handle, again.Spec.VolumeSnapshotRef)
	w.create(apiserver.SnapshotContents, again)
	w.newSnapshot(ref.Namespace, again.Spec.VolumeSnapshotRef.Name, snapshotClass, snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &again.Name})
}

func (w *World) remember(handle string, ref corev1.ObjectReference) {
	w.set(func() { w.snapshotNames[handle+" "+ref.Namespace+"/"+ref.Name] = true })
}

// finishSnapshots is everybody once everything is mended: they look first whether each VolumeSnapshot is ready or says why not, then
// delete all, and do what the events of contents ask for.
func (w *World) finishSnapshots() {
	for _, o := range apiserver.List[*snapshotv1.VolumeSnapshot](w.server, apiserver.Snapshots) {
		if o.DeletionTimestamp == nil {
			w.silent(o)
			w.remove("user", apiserver.Snapshots, o.Namespace, o.Name)
		}
	}
	for _, c := range apiserver.List[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims) {
		if name, _ := observed.SnapshotOf(c); name != "" && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil {
			if len(w.eventsOf(string(c.UID))) == 0 {
				w.violate("claim %s waits for snapshot %s in silence", c.Name, name)
			}
			w.remove("user", apiserver.Claims, c.Namespace, c.Name)
		}
		if c.DeletionTimestamp != nil { // the snapshot-controller leaves it behind where somebody took its own finalizers off
			w.server.Mutate(apiserver.Claims, c.Namespace, c.Name, func(o apiserver.Object) { dropFinalizer(o, snapshotter.OfClaim) })
		}
	}
	for _, content := range apiserver.List[*snapshotv1.VolumeSnapshotContent](w.server, apiserver.SnapshotContents) {
		waits := w.eventsOf(string(content.UID))
		switch {
		case content.DeletionTimestamp == nil && (content.Spec.Source.SnapshotHandle != nil || told(waits, "StorageLeftBehind") || told(waits, "SnapshotRefused") || content.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentRetain):
			w.remove("admin", apiserver.SnapshotContents, "", content.Name)
		case told(waits, "VolumeRecordInvalid") && content.Annotations[contract.AnnClass] == "":
			w.annotateContent(content, contract.AnnClass, w.plan.Classes[0].Name)
		case told(waits, "DeletionHeld") && content.Annotations[contract.AnnAllowDelete] == "":
			w.annotateContent(content, contract.AnnAllowDelete, "true")
			w.annotateContent(content, contract.AnnBeingDeleted, "yes")
		}
	}
	w.later(time.Minute, 2*time.Minute, w.finishSnapshots, "user", "finishes")
}

func (w *World) annotateContent(content *snapshotv1.VolumeSnapshotContent, name, value string) {
	w.trace.add("admin", "annotates %s %s=%s", content.Name, name, value)
	w.server.Mutate(apiserver.SnapshotContents, "", content.Name, func(o apiserver.Object) { setAnnotation(o, name, value) })
}

// silent checks that a VolumeSnapshot that waits says why, or that a pod is at it.
func (w *World) silent(o *snapshotv1.VolumeSnapshot) {
	isReady := o.Status != nil && o.Status.ReadyToUse != nil && *o.Status.ReadyToUse
	if isReady || time.Since(o.CreationTimestamp.Time) < 11*time.Second || len(w.podsOf(string(o.UID))) > 0 || len(w.eventsOf(string(o.UID))) > 0 {
		return
	}
	bound := o.Status != nil && o.Status.BoundVolumeSnapshotContentName != nil
	if o.Spec.Source.VolumeSnapshotContentName != nil || bound && o.Status.Error != nil {
		return // its status says why: what its content says, or that there is none
	}
	w.violate("VolumeSnapshot %s (%s) waits in silence: %+v", o.Name, o.UID, o.Status)
}

// unsettledSnapshots is what is left of snapshots at the end.
func (w *World) unsettledSnapshots() (list []string) {
	for _, o := range apiserver.List[*snapshotv1.VolumeSnapshot](w.server, apiserver.Snapshots) {
		list = append(list, fmt.Sprintf("VolumeSnapshot %s (%s, finalizers %v) is left; its events: %s", o.Name, o.UID, o.Finalizers, strings.Join(w.eventsOf(string(o.UID)), " | ")))
	}
	for _, c := range apiserver.List[*snapshotv1.VolumeSnapshotContent](w.server, apiserver.SnapshotContents) {
		list = append(list, fmt.Sprintf("content %s (deleted %v, %s, annotations %v) is left; its events: %s", c.Name, c.DeletionTimestamp != nil, c.Spec.DeletionPolicy,
			slices.DeleteFunc(sorted(c.Annotations), func(n string) bool { return n == contract.AnnVolume }), strings.Join(w.eventsOf(string(c.UID)), " | ")))
	}
	w.snapshots.mu.Lock()
	defer w.snapshots.mu.Unlock()
	for _, handle := range sorted(w.snapshots.made) {
		if !w.snapshots.kept[handle] {
			list = append(list, fmt.Sprintf("snapshot %s is an orphan: %+v", handle, w.snapshots.made[handle]))
		}
	}
	return list
}
