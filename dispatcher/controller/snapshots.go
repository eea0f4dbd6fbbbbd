package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// crdPeriod is how often it is looked whether the CustomResourceDefinitions of snapshots have come.
const crdPeriod = 30 * time.Second

// ServeSnapshots serves snapshots as soon as their CustomResourceDefinitions exist, until ctx ends. first is called
// when that was looked for once, and the caches are filled if they do.
func (c *Controller) ServeSnapshots(ctx context.Context, first func()) {
	for {
		served, err := c.serveSnapshots(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Could not serve snapshots, will retry")
		}

		first()
		if served {
			return
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(crdPeriod):
		}
	}
}

func (c *Controller) serveSnapshots(ctx context.Context) (served bool, err error) {
	if c.Snapshots == nil {
		return false, nil
	}

	list, err := c.Snapshots.Discovery().ServerResourcesForGroupVersion(snapshotv1.SchemeGroupVersion.String())
	if err != nil || len(podspec.LackingSnapshotKinds(list)) > 0 {
		return false, nil // an error says that the group does not exist, or nothing that lasts
	}

	if err := c.Cache.ServeSnapshots(ctx, c.Snapshots); err != nil {
		return false, err
	}

	requests, contents, snapshotClasses := c.Cache.SnapshotHandlers()
	for _, h := range []struct {
		informer clientcache.SharedIndexInformer
		changed  func(obj any, deleted bool)
	}{
		{requests, on(c.requestChanged)},
		{contents, on(c.contentChanged)},
		{snapshotClasses, on(func(class *snapshotv1.VolumeSnapshotClass, _ bool) {
			for _, o := range c.Cache.RequestsOf(class.Name) {
				c.enqueueRequest(o)
			}
		})},
	} {
		if _, err := h.informer.AddEventHandler(handlerOf(h.changed)); err != nil {
			return false, fmt.Errorf("listen for changes of snapshots: %w", err)
		}
	}

	klog.FromContext(ctx).Info("Serving snapshots", "driver", c.driver())
	c.queue.RequeueAll() // pods of snapshots wait for this

	return true, nil
}

// driver is the name of the driver of VolumeSnapshotClasses and contents.
func (c *Controller) driver() string { return contract.SnapshotDriver(c.ProvisionerName) }

func (c *Controller) requestChanged(o *snapshotv1.VolumeSnapshot, deleted bool) {
	c.requeueRestores(o.Namespace, o.Name)
	if deleted {
		c.queue.Requeue(string(o.UID))
		if content := c.Cache.Content(string(o.UID)); content != nil {
			c.enqueueContent(content)
		}

		return
	}

	c.enqueueRequest(o)
}

// enqueueRequest adds a VolumeSnapshot that asks for a snapshot of this dispatcher's driver.
func (c *Controller) enqueueRequest(o *snapshotv1.VolumeSnapshot) {
	of := observed.Snapshot{Driver: c.driver(), Request: o}
	if name := o.Spec.VolumeSnapshotClassName; name != nil {
		of.Class = c.Cache.SnapshotClass(*name)
	}

	if !of.Asks() {
		c.queue.Requeue(string(o.UID))
		return
	}

	uid := string(o.UID)
	c.memory.handOver(uid, func(*claimMemory) {}, func() { c.queue.Add(c.classOfClaim(o), o.Namespace, uid) })
}

// classOfClaim is the StorageClass of the volume that the VolumeSnapshot asks a snapshot of, empty where it has none
// yet.
func (c *Controller) classOfClaim(o *snapshotv1.VolumeSnapshot) string {
	claim := c.Cache.ClaimNamed(o.Namespace, *o.Spec.Source.PersistentVolumeClaimName)
	if claim == nil {
		return ""
	}

	if v := c.Cache.Volume(claim.Spec.VolumeName); v != nil {
		return podspec.ClassOf(v)
	}

	return podspec.ClassOfClaim(claim)
}

func (c *Controller) contentChanged(content *snapshotv1.VolumeSnapshotContent, deleted bool) {
	ref := content.Spec.VolumeSnapshotRef
	c.requeueRestores(ref.Namespace, ref.Name)
	c.requeueTwins(content)
	if uid, ok := podspec.SnapshotUIDOf(content.Name); ok {
		c.queue.Requeue(uid) // its VolumeSnapshot may wait for the name
	}

	if deleted {
		c.queue.Requeue(observed.ContentKey(content))
		return
	}

	c.enqueueContent(content)
}

// enqueueContent adds a content that asks for work, or whose administrator has to be told that nobody deletes it.
func (c *Controller) enqueueContent(content *snapshotv1.VolumeSnapshotContent) {
	key, ref := observed.ContentKey(content), content.Spec.VolumeSnapshotRef
	of := observed.Snapshot{Driver: c.driver(), Content: content, Request: c.Cache.Request(string(ref.UID))}
	if !of.Left() && !observed.DueContent(content, c.driver()) {
		c.queue.Requeue(key)
		return
	}

	class := observed.ClassOfContent(content)
	c.memory.handOver(key, func(*claimMemory) {}, func() { c.queue.Add(class, ref.Namespace, key) })
}

// requeueTwins requeues the contents whose removal another content of the snapshot holds up.
func (c *Controller) requeueTwins(content *snapshotv1.VolumeSnapshotContent) {
	for _, other := range c.Cache.ContentsOf(podspec.HandleOf(content)) {
		if other.UID != content.UID {
			c.queue.Requeue(observed.ContentKey(other))
		}
	}
}

// requeueRestores requeues the claims that wait for a VolumeSnapshot.
func (c *Controller) requeueRestores(namespace, name string) {
	for _, claim := range c.Cache.RestoresOf(namespace, name) {
		c.queue.Requeue(string(claim.UID))
	}
}

// requeueSnapshotsOf requeues the VolumeSnapshots that wait for a claim.
func (c *Controller) requeueSnapshotsOf(namespace, claim string) {
	for _, o := range c.Cache.RequestsFor(namespace, claim) {
		c.enqueueRequest(o)
	}
}

// restoreEnded requeues the contents whose removal waits for a pod that restores their snapshot.
func (c *Controller) restoreEnded(pod *corev1.Pod) {
	handle := observed.SourceSnapshot(pod)
	if handle == "" {
		return
	}

	for _, content := range c.Cache.ContentsOf(handle) {
		c.queue.Requeue(observed.ContentKey(content))
	}
}

// observeSnapshot finds the snapshot that is served under the UID, nil for a claim.
func (c *Controller) observeSnapshot(s *observed.Claim) *observed.Snapshot {
	of := &observed.Snapshot{Driver: c.driver(), Request: c.Cache.Request(s.UID), Content: c.Cache.Content(s.UID)}
	if of.Request == nil && of.Content == nil {
		if !s.OfSnapshot() {
			return nil
		}

		of.Unserved = !c.Cache.ServesSnapshots()

		return of
	}

	of.SetObjects(observed.SnapshotListers{Request: c.Cache.RequestNamed, Content: c.Cache.ContentNamed,
		Class: c.Cache.SnapshotClass, Claim: c.Cache.ClaimNamed, Volume: c.Cache.Volume})
	c.observeOthers(of)

	return of
}

// observeOthers finds who else needs the snapshot of the content.
func (c *Controller) observeOthers(of *observed.Snapshot) {
	if of.Content == nil {
		of.SetOthers(nil, nil)
		return
	}

	handle := podspec.HandleOf(of.Content)
	of.SetOthers(c.Cache.ContentsOf(handle), c.Cache.Restoring(handle))

	ref := of.Content.Spec.VolumeSnapshotRef
	for _, claim := range c.Cache.RestoresOf(ref.Namespace, ref.Name) {
		if expected := c.memory.claim(string(claim.UID)).expected.name; expected != "" && of.RestoredBy == "" {
			of.RestoredBy = fmt.Sprintf("pod %s/%s for claim %s/%s",
				c.Pods.Namespace, expected, claim.Namespace, claim.Name)
		}
	}
}

// observeSnapshotDeletions adds what may protect the snapshot from deletion.
func (c *Controller) observeSnapshotDeletions(s *observed.Claim) {
	s.DeleteLimit, s.RecentDeletions = c.deleteLimit(s), 0
	content := s.Snapshot.Content
	removes := content != nil && content.DeletionTimestamp != nil
	if s.DeleteLimit > 0 && removes && obstacles.OldContent(content, s.Now) {
		s.RecentDeletions = c.countSnapshotDeletions(s)
	}
}

// countSnapshotDeletions is countDeletions for snapshots. What a content's record says is decoded last.
func (c *Controller) countSnapshotDeletions(s *observed.Claim) int {
	recent := c.memory.recentDeletions(s.ClassName, s.Now)
	delete(recent, s.UID)
	count := len(recent) + 1
	for _, content := range c.Cache.DeletedContents() {
		if count > s.DeleteLimit {
			break
		}

		uid := observed.ContentKey(content)
		another := uid != s.UID && !recent[uid] && obstacles.OldContent(content, s.Now)
		if !another || c.hasPod(uid, isOf(contract.DeleteSnapshot)) {
			continue
		}

		if v := podspec.VolumeOf(content); v != nil && podspec.ClassOf(v) == s.ClassName {
			count++
		}
	}

	return count
}

// observeSource finds what the claim asks its volume to begin with.
func (c *Controller) observeSource(s *observed.Claim) {
	s.SetSource(c.Cache.ClaimNamed, c.Cache.Volume)
	s.SetSnapshotSource(c.Cache.RequestNamed, c.Cache.ContentNamed, c.configOf)
}

// configOf is the name of the ConfigMap in force for a class, empty for none.
func (c *Controller) configOf(class string) string {
	served, _ := classes.ServedAs(class, c.Cache.Class(class), c.ProvisionerName)
	if config, _ := c.memory.config(served); config != nil {
		return config.Name
	}

	return ""
}

// confirmSnapshotSource reads the snapshot that is to be restored, and its content: a restore must not begin beside the
// removal of the snapshot.
func (c *Controller) confirmSnapshotSource(ctx context.Context, s *observed.Claim) error {
	var faults []error
	request := func(namespace, name string) *snapshotv1.VolumeSnapshot {
		o, err := c.reader.Request(ctx, namespace, name)
		faults = append(faults, err)

		return o
	}
	content := func(name string) *snapshotv1.VolumeSnapshotContent {
		o, err := c.reader.Content(ctx, name)
		faults = append(faults, err)

		return o
	}

	s.SetSnapshotSource(request, content, c.configOf)

	return errors.Join(faults...)
}

// confirmSnapshot replaces what was observed of a snapshot by what the API server has: by old caches a snapshot could
// be taken twice, or removed beside its content's restoration.
func (c *Controller) confirmSnapshot(ctx context.Context, s *observed.Claim) error {
	began := time.Now()
	of := s.Snapshot
	if of.Unserved {
		return nil
	}

	if err := c.confirmContent(ctx, s.UID, of); err != nil {
		return err
	}

	if err := c.confirmRequest(ctx, of); err != nil {
		return err
	}

	if err := c.confirmSnapshotVolume(ctx, of); err != nil {
		return err
	}

	s.SetSnapshot(of)
	if err := otherClass(s, "snapshot"); err != nil {
		return err
	}

	c.observeConfig(s)
	c.observeOthers(of)

	for _, read := range []func() error{
		func() error { return c.confirmPods(ctx, s) },
		func() error { return c.confirmStop(ctx, s) },
		func() error { return c.confirmPlaces(ctx, s) },
		func() error { c.confirmNamespace(ctx, s.Now); return nil },
	} {
		if err := read(); err != nil {
			return err
		}
	}

	c.observeSnapshotDeletions(s)
	s.Confirmed = began

	return nil
}

// confirmContent reads the content by the name that it was observed by, or would have.
func (c *Controller) confirmContent(ctx context.Context, uid string, of *observed.Snapshot) error {
	name := podspec.ContentName(uid)
	if of.Content != nil {
		name = of.Content.Name
	}

	content, err := c.reader.Content(ctx, name)
	if err != nil {
		return err
	}

	of.Content, of.Taken = content, nil
	if content != nil && observed.ContentKey(content) != uid {
		of.Content, of.Taken = nil, content
	}

	return nil
}

// confirmSnapshotVolume reads the volume that the snapshot is of, after what names it.
func (c *Controller) confirmSnapshotVolume(ctx context.Context, of *observed.Snapshot) (err error) {
	of.Source = nil
	if name := of.SourceName(); name != "" {
		of.Source, err = c.reader.VolumeNamed(ctx, name)
	}

	return err
}

// confirmRequest reads the VolumeSnapshot and its claim.
func (c *Controller) confirmRequest(ctx context.Context, of *observed.Snapshot) error {
	var ref corev1.ObjectReference
	switch {
	case of.Request != nil:
		ref = corev1.ObjectReference{Namespace: of.Request.Namespace, Name: of.Request.Name, UID: of.Request.UID}
	case of.Content != nil:
		ref = of.Content.Spec.VolumeSnapshotRef
	}

	of.Request, of.Claim = nil, nil
	if ref.Name == "" {
		return nil
	}

	o, err := c.reader.Request(ctx, ref.Namespace, ref.Name)
	if err != nil || o == nil || o.UID != ref.UID {
		return err
	}

	of.Request = o
	if o.Spec.Source.PersistentVolumeClaimName == nil {
		return nil
	}

	of.Claim, err = c.reader.ClaimNamed(ctx, o.Namespace, *o.Spec.Source.PersistentVolumeClaimName)

	return err
}

// changeContent carries out an action on a snapshot's content.
func (c *Controller) changeContent(ctx context.Context, s *observed.Claim, action reconcile.Action) (err error) {
	content := s.Snapshot.Content
	switch a := action.(type) {
	case reconcile.CreateContent, reconcile.RecordContent:
		if content == nil {
			err = c.createContent(ctx, s)
		} else {
			err = c.recordContent(ctx, s)
		}

		if err != nil && !recorder.IsTransient(err) {
			c.recordAll(s, []events.Event{
				events.SnapshotWaits(events.OnSnapshot, events.ReasonSnapshotRefused, err.Error()),
			})
		}
	case reconcile.SetContentReady:
		err = c.writer.SetContentReady(ctx, content, podspec.HandleOf(content), a.At, a.Size)
	case reconcile.SetContentError:
		err = c.writer.SetContentError(ctx, content, a.Message, s.Now)
	case reconcile.FinishContent:
		err = c.writer.FinishContent(ctx, content)
	case reconcile.ReleaseContent:
		err = c.writer.ReleaseContent(ctx, content)
	}

	return err
}

// createContent creates the content of a VolumeSnapshot, as the snapshot-controller does for CSI drivers.
func (c *Controller) createContent(ctx context.Context, s *observed.Claim) error {
	o, class := s.Snapshot.Request, s.Snapshot.Class
	v, err := s.VolumeToRecord()
	if err != nil {
		return err
	}

	mode := podspec.ModeOf(v.Spec.VolumeMode)
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{
			Name: podspec.ContentName(s.UID), Finalizers: []string{contract.ContentFinalizer},
			Annotations: map[string]string{contract.AnnBeingCreated: "yes"},
		},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{
				Kind: "VolumeSnapshot", APIVersion: snapshotv1.SchemeGroupVersion.String(),
				Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
			},
			DeletionPolicy: class.DeletionPolicy, Driver: c.driver(), VolumeSnapshotClassName: &class.Name,
			Source:           snapshotv1.VolumeSnapshotContentSource{VolumeHandle: &v.Name},
			SourceVolumeMode: &mode,
		},
	}
	if err := c.RecordKey.RecordContent(content, v); err != nil {
		return err
	}

	return c.writer.CreateContent(ctx, content)
}

// recordContent writes on a content of the snapshot-controller what createContent writes on one of ours. It made the
// content for the volume that the claim had then.
func (c *Controller) recordContent(ctx context.Context, s *observed.Claim) error {
	content := s.Snapshot.Content
	handle, source := content.Spec.Source.VolumeHandle, s.Volume.Spec.CSI
	if handle == nil || source == nil || *handle != source.VolumeHandle {
		return fmt.Errorf("VolumeSnapshotContent %s is for another volume than %s, which the claim has now: delete "+
			"the VolumeSnapshot", content.Name, s.Volume.Name)
	}

	v, err := s.VolumeToRecord()
	if err != nil {
		return err
	}

	recorded := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: content.Name},
		Spec: content.Spec}
	if err := c.RecordKey.RecordContent(recorded, v); err != nil {
		return err
	}

	return c.writer.RecordContent(ctx, content, recorded.Annotations)
}
