package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Ready says that the snapshot exists.
const Ready Phase = "Ready"

// The causes while nothing is to be done for a snapshot.
var ofSnapshotAtRest = []row{planned, noCRDs, notAccepted, notBound}

// SnapshotObjects are those of a cluster, as far as it has their CustomResourceDefinitions.
type SnapshotObjects struct {
	// Served reports whether the API server serves the kinds. Lacks are those that it does not.
	Served   bool
	Lacks    []string
	Requests []*snapshotv1.VolumeSnapshot
	Contents []*snapshotv1.VolumeSnapshotContent
	Classes  []*snapshotv1.VolumeSnapshotClass
}

func (o *Objects) driver() string { return contract.SnapshotDriver(o.Dispatcher.Provisioner) }

func (o *Objects) requestNamed(namespace, name string) *snapshotv1.VolumeSnapshot {
	return first(o.Snapshots.Requests, func(r *snapshotv1.VolumeSnapshot) bool {
		return r.Namespace == namespace && r.Name == name
	})
}

// contentNamed is the content as it is in the cache of the dispatcher that signed its record.
func (o *Objects) contentNamed(name string) *snapshotv1.VolumeSnapshotContent {
	return VerifiedContent(first(o.Snapshots.Contents, func(c *snapshotv1.VolumeSnapshotContent) bool {
		return c.Name == name
	}))
}

// VerifiedContent is a copy of a content whose record counts as valid if it is signed. Only the dispatcher knows the key.
func VerifiedContent(content *snapshotv1.VolumeSnapshotContent) *snapshotv1.VolumeSnapshotContent {
	if content == nil {
		return nil
	}

	content = content.DeepCopy()
	if record := content.Annotations[contract.AnnRecord]; record != "" && record != contract.RecordTrusted {
		delete(content.Annotations, contract.AnnRecord)
		content.Annotations[podspec.Verified] = "true"
	}

	return content
}

func (o *Objects) snapshotClass(name string) *snapshotv1.VolumeSnapshotClass {
	return first(o.Snapshots.Classes, func(c *snapshotv1.VolumeSnapshotClass) bool { return c.Name == name })
}

// snapshotOf is the snapshot that is served under the UID, nil for a claim.
func (o *Objects) snapshotOf(uid string) *observed.Snapshot {
	x := o.indexed()
	of := &observed.Snapshot{Driver: o.driver(), Request: x.requests[uid], Content: VerifiedContent(x.contents[uid])}
	if of.Request == nil && of.Content == nil {
		pods := slices.ContainsFunc(o.recordedOf(uid), func(pod *corev1.Pod) bool {
			op, _, _, _ := podspec.ParseName(pod.Name)
			return podspec.OfSnapshot(op)
		})
		if !pods {
			return nil
		}

		of.Unserved = !o.Snapshots.Served || !o.reads(Snapshots)

		return of
	}

	of.SetObjects(observed.SnapshotListers{Request: o.requestNamed, Content: o.contentNamed, Class: o.snapshotClass,
		Claim: o.ClaimNamed, Volume: func(name string) *corev1.PersistentVolume {
			if v := o.VolumeNamed(name); v != nil {
				return verified(v)
			}
			return nil
		}})
	if of.Content != nil {
		handle := podspec.HandleOf(of.Content)
		of.SetOthers(x.snapshots[handle], x.restoring[handle])
	}

	return of
}

// configOf is the name of the ConfigMap in force for a class, empty for none.
func (o *Objects) configOf(class string) string {
	if config := o.serving(class); config != nil {
		return config.Name
	}

	return ""
}

// serving is the configuration in force for a class, nil for none.
func (o *Objects) serving(class string) *configmaps.Config {
	return o.resolve(o.servedAs(class)).InForce
}

// ConfigOf finds the configuration in force for a class. It is nil if not all was read that it takes.
func (o *Objects) ConfigOf() func(class string) *configmaps.Config {
	if !o.reads(ConfigMaps, Revisions, Classes) {
		return nil
	}

	return o.serving
}

// findSnapshot is the UID under which the snapshot of a name is served that begins with its kind.
func (o *Objects) findSnapshot(namespace, kind, name string) (uid string, err error) {
	if kind == contentKind {
		if content := o.contentNamed(name); content != nil {
			return observed.ContentKey(content), nil
		}
		return "", fmt.Errorf("there is no VolumeSnapshotContent %s%s", quoted(name), o.unserved())
	}

	r := o.requestNamed(namespace, name)
	if r == nil {
		return "", fmt.Errorf("namespace %s has no VolumeSnapshot %s%s", namespace, quoted(name), o.unserved())
	}

	return o.keyOfRequest(r), nil
}

// keyOfRequest is the UID under which the snapshot of a VolumeSnapshot is served.
func (o *Objects) keyOfRequest(r *snapshotv1.VolumeSnapshot) string {
	if r.Status != nil && r.Status.BoundVolumeSnapshotContentName != nil {
		content := o.contentNamed(*r.Status.BoundVolumeSnapshotContentName)
		if content != nil && content.Spec.VolumeSnapshotRef.UID == r.UID {
			return observed.ContentKey(content)
		}
	}

	return string(r.UID)
}

func (o *Objects) unserved() string {
	if o.Snapshots.Served && o.reads(Snapshots) {
		return ""
	}

	return ": the cluster has no CustomResourceDefinitions of snapshots, or they may not be read"
}

// identifySnapshot sets what a state says of a snapshot's objects.
func (s *State) identifySnapshot(seen *observed.Claim) {
	of := seen.Snapshot
	s.OfSnapshot, s.Class = true, seen.ClassName
	if of.Content != nil {
		ref := of.Content.Spec.VolumeSnapshotRef
		s.Content, s.Namespace, s.Snapshot = of.Content.Name, ref.Namespace, ref.Name
		s.Since = of.Content.CreationTimestamp.Time
	}

	if of.Request != nil {
		s.Namespace, s.Snapshot, s.Since = of.Request.Namespace, of.Request.Name, of.Request.CreationTimestamp.Time
	}

	if seen.Volume != nil {
		s.Volume = seen.Volume.Name
	}

	for _, text := range []*string{&s.Namespace, &s.Snapshot, &s.Content, &s.Class, &s.Volume} {
		*text = podspec.OneLine(*text)
	}
}

// snapshotState is the state of a snapshot.
func (o *Objects) snapshotState(uid string) State {
	seen := o.observe(uid)
	of := seen.Snapshot
	s := State{UID: uid, Attempt: -1, Phase: progress.Waiting}
	s.identifySnapshot(seen)
	if by := otherDriver(of); by != "" {
		s.NotOurs, s.Phase = podspec.OneLine(by), Ready
		return s
	}

	o.follow(&s, seen)
	ready := of.Content != nil && podspec.ContentReady(of.Content)
	switch {
	case s.Operation != "":
	case of.Content == nil && of.Request == nil:
		s.Phase = Gone
	case ready && s.Reason != reasonNotBound:
		s.Phase = Ready
	default:
		s.Phase = progress.Waiting
	}

	return s
}

// otherDriver is the driver of a snapshot if it is not this dispatcher's, else empty.
func otherDriver(of *observed.Snapshot) string {
	switch {
	case of.Content != nil && of.Content.Spec.Driver != of.Driver:
		return of.Content.Spec.Driver
	case of.Content == nil && of.Class != nil && of.Class.Driver != of.Driver:
		return of.Class.Driver
	}

	return ""
}

// noCRDs is for pods whose snapshot nobody can read.
func noCRDs(_ *Objects, s situation) (Cause, bool) {
	return explain(reasonNoCRDs, "the objects of snapshots cannot be read", true), s.Snapshot.Unserved
}

// notAccepted is for a VolumeSnapshot that asks nobody.
func notAccepted(_ *Objects, s situation) (Cause, bool) {
	of := s.Snapshot
	if of.Content != nil || of.Request == nil || of.Request.DeletionTimestamp != nil {
		return Cause{}, false
	}

	spec := of.Request.Spec
	switch {
	case spec.Source.VolumeSnapshotContentName != nil:
		return explain(reasonNoContent, fmt.Sprintf("VolumeSnapshotContent %s does not exist, or is for another VolumeSnapshot",
			quoted(*spec.Source.VolumeSnapshotContentName)), true), true
	case spec.VolumeSnapshotClassName == nil:
		return explain(reasonNoSnapshotClass, "the VolumeSnapshot names no VolumeSnapshotClass, and none is the default of the "+
			"volume's driver", true), true
	case of.Class == nil:
		return explain(reasonNoSnapshotClass, fmt.Sprintf("VolumeSnapshotClass %s does not exist",
			quoted(*spec.VolumeSnapshotClassName)), true), true
	}

	return explain(reasonNoContent, "the VolumeSnapshot names a VolumeSnapshotContent that does not exist any more", true), true
}

// notBound is for a snapshot that exists, and whose VolumeSnapshot does not say so.
func notBound(_ *Objects, s situation) (Cause, bool) {
	of := s.Snapshot
	if of.Content == nil || of.Request == nil || of.Content.DeletionTimestamp != nil {
		return Cause{}, false
	}

	st := of.Request.Status
	shown := st != nil && st.ReadyToUse != nil && *st.ReadyToUse && st.BoundVolumeSnapshotContentName != nil

	return explain(reasonNotBound, fmt.Sprintf("VolumeSnapshotContent %s is ready, and the VolumeSnapshot is not",
		of.Content.Name), true), !shown
}

// snapshotSteps are what the objects of a snapshot say.
func (o *Objects) snapshotSteps(s *observed.Claim, add func(time.Time, string, ...any)) {
	of := s.Snapshot
	if r := of.Request; r != nil {
		what := "an existing snapshot"
		if name := r.Spec.Source.PersistentVolumeClaimName; name != nil {
			what = "a snapshot of claim " + *name
		}
		add(r.CreationTimestamp.Time, "VolumeSnapshot %s/%s asks for %s", r.Namespace, r.Name, what)
		if r.DeletionTimestamp != nil {
			add(r.DeletionTimestamp.Time, "the VolumeSnapshot is being deleted")
		}
	}

	content := of.Content
	if content == nil {
		return
	}

	add(content.CreationTimestamp.Time, "VolumeSnapshotContent %s exists, with policy %s, for snapshot %s", content.Name,
		content.Spec.DeletionPolicy, podspec.HandleOf(content))
	if st := content.Status; podspec.ContentReady(content) && st.CreationTime != nil {
		add(time.Unix(0, *st.CreationTime), "the snapshot is of this moment, and is ready")
	}

	if content.DeletionTimestamp != nil {
		add(content.DeletionTimestamp.Time, "the VolumeSnapshotContent is being deleted")
	}
}

// eventsOnSnapshot are the events about a snapshot's objects. Tenants can write only those on the VolumeSnapshot.
func (o *Objects) eventsOnSnapshot(of *observed.Snapshot, believed bool) (list []*corev1.Event) {
	if of != nil && of.Content != nil {
		list = append(list, o.eventsOn(metav1.NamespaceDefault, of.Content.UID)...)
	}

	if of != nil && of.Request != nil && !believed {
		list = append(list, o.eventsOn(of.Request.Namespace, of.Request.UID)...)
	}

	return list
}

// pendingSnapshots are the UIDs under which all snapshots are served. Overview leaves out those that are ready.
func (o *Objects) pendingSnapshots() (uids []string) {
	x := o.indexed()
	for _, r := range x.requests {
		uids = append(uids, o.keyOfRequest(r))
	}

	for uid, content := range x.contents {
		if o.ownContent(content) {
			uids = append(uids, uid)
		}
	}

	return uids
}

// ownContent reports whether a content is of the dispatcher's driver.
func (o *Objects) ownContent(c *snapshotv1.VolumeSnapshotContent) bool {
	return c.Spec.Driver == o.driver()
}

// readySnapshots counts the snapshots of the dispatcher, and those that are ready.
func (o *Objects) readySnapshots() string {
	all := filter(o.Snapshots.Contents, o.ownContent)
	if len(all) == 0 {
		return ""
	}

	ready := filter(all, func(c *snapshotv1.VolumeSnapshotContent) bool {
		return podspec.ContentReady(c) && c.DeletionTimestamp == nil
	})

	return fmt.Sprintf("%d of %d ready", len(ready), len(all))
}

// Subject names what a state is of, for a sentence.
func (s State) Subject() string {
	switch {
	case s.OfSnapshot && s.Snapshot != "":
		return "VolumeSnapshot " + s.Namespace + "/" + s.Snapshot
	case s.OfSnapshot:
		return "VolumeSnapshotContent " + cmp.Or(s.Content, "with UID "+s.UID)
	case s.Claim != "":
		return "claim " + s.Namespace + "/" + s.Claim
	}

	return "claim with UID " + s.UID
}

// snapshotKinded takes a name apart that begins with a kind of snapshots.
func snapshotKinded(name string) (kind, rest string, ok bool) {
	kind, rest, ok = strings.Cut(name, "/")
	return kind, rest, ok && (kind == snapshotKind || kind == contentKind)
}
