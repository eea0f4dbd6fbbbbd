//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// snapshot is a VolumeSnapshot that a test made.
type snapshot struct {
	*snapshotv1.VolumeSnapshot
	s       *scope
	created time.Time
}

// needSnapshots ends the test where the cluster has none. When the test ends, its snapshots are deleted before its claims are.
func (s *scope) needSnapshots() {
	s.Helper()
	_, err := shared.admin.Discovery().ServerResourcesForGroupVersion(snapshotv1.SchemeGroupVersion.String())
	if err == nil {
		_, err = command(s.Context(), "test/cluster/ctl.sh", "pid", "snapshot-controller")
	}
	if err != nil {
		s.Fatalf("the cluster has no snapshots: make cluster-down, NODES=3 SPARE=1 ISCSI=1 SNAPSHOTS=1 make cluster-up: %v", err)
	}
	s.Cleanup(s.endSnapshots)
}

// endSnapshots deletes the snapshots of the test, those that are to be retained too.
func (s *scope) endSnapshots() {
	ctx, api := context.Background(), shared.snapshots
	if s.Failed() {
		s.diagnoseSnapshots(ctx)
	}
	contents, err := s.contents(ctx)
	if err != nil {
		s.Errorf("clean up: %v", err)
	}
	for _, content := range contents {
		_, err := api.VolumeSnapshotContents().Patch(ctx, content.Name, types.MergePatchType, []byte(`{"spec":{"deletionPolicy":"Delete"}}`), metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("clean up: %v", err)
		}
	}
	if err := api.VolumeSnapshots(s.name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		s.Errorf("clean up: %v", err)
	}
	for _, content := range contents {
		if err := api.VolumeSnapshotContents().Delete(ctx, content.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("clean up: %v", err)
		}
	}
	if lack, err := shared.await(patient, func() string { return s.leftSnapshots(ctx) }); err != nil {
		s.Errorf("left behind: %s", lack)
		s.diagnoseSnapshots(ctx)
		s.forceSnapshots(ctx)
	}
}

// contents are those of the test's namespace.
func (s *scope) contents(ctx context.Context) ([]snapshotv1.VolumeSnapshotContent, error) {
	list, err := shared.snapshots.VolumeSnapshotContents().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var own []snapshotv1.VolumeSnapshotContent
	for _, content := range list.Items {
		if content.Spec.VolumeSnapshotRef.Namespace == s.name {
			own = append(own, content)
		}
	}
	return own, nil
}

// leftSnapshots names what of the test's snapshots still exists in Kubernetes.
func (s *scope) leftSnapshots(ctx context.Context) string {
	contents, err := s.contents(ctx)
	if err != nil {
		return err.Error()
	}
	list, err := shared.snapshots.VolumeSnapshots(s.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, o := range list.Items {
		names = append(names, "VolumeSnapshot "+o.Name)
	}
	for _, content := range contents {
		names = append(names, fmt.Sprintf("VolumeSnapshotContent %s%s", content.Name, showEvents(eventsOn(content.UID))))
	}
	return strings.Join(names, ", ")
}

// forceSnapshots takes away what nobody did.
func (s *scope) forceSnapshots(ctx context.Context) {
	bare := []byte(`{"metadata":{"finalizers":null}}`)
	api := shared.snapshots
	if list, err := api.VolumeSnapshots(s.name).List(ctx, metav1.ListOptions{}); err == nil {
		for _, o := range list.Items {
			_, _ = api.VolumeSnapshots(s.name).Patch(ctx, o.Name, types.MergePatchType, bare, metav1.PatchOptions{})
		}
	}
	contents, _ := s.contents(ctx)
	for _, content := range contents {
		_, _ = api.VolumeSnapshotContents().Patch(ctx, content.Name, types.MergePatchType, bare, metav1.PatchOptions{})
	}
}

func (s *scope) diagnoseSnapshots(ctx context.Context) {
	var b strings.Builder
	if list, err := shared.snapshots.VolumeSnapshots(s.name).List(ctx, metav1.ListOptions{}); err == nil {
		for _, o := range list.Items {
			fmt.Fprintf(&b, "VolumeSnapshot %s %s: %s%s\n", o.Name, o.UID, inJSON(o.Status), showEvents(eventsOn(o.UID)))
		}
	}
	contents, _ := s.contents(ctx)
	for _, c := range contents {
		fmt.Fprintf(&b, "VolumeSnapshotContent %s: %s, finalizers %v%s\n", c.Name, inJSON(c.Status), c.Finalizers, showEvents(eventsOn(c.UID)))
	}
	s.Logf("what is known of snapshots:\n%s", b.String())
}

// snapshotClass makes a VolumeSnapshotClass of this project's driver, and returns its name.
func (s *scope) snapshotClass(suffix string, policy snapshotv1.DeletionPolicy) string {
	s.Helper()
	classes := shared.snapshots.VolumeSnapshotClasses()
	name := s.name + "-" + suffix
	_, err := classes.Create(s.Context(), &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: name},
		Driver: contract.SnapshotDriver(contract.ProvisionerName), DeletionPolicy: policy}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return classes.Delete(ctx, name, metav1.DeleteOptions{}) })
	return name
}

// snapshot asks for one of the claim.
func (c *claim) snapshot(name, class string) *snapshot {
	c.s.Helper()
	return c.s.makeSnapshot(name, snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &class,
		Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &c.Name}})
}

func (s *scope) makeSnapshot(name string, spec snapshotv1.VolumeSnapshotSpec) *snapshot {
	s.Helper()
	created := time.Now()
	made, err := shared.snapshots.VolumeSnapshots(s.name).Create(s.Context(),
		&snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	s.ok(err)
	return &snapshot{made, s, created}
}

// importSnapshot makes a content for a snapshot that exists, as an administrator does by hand, and a VolumeSnapshot of it.
func (s *scope) importSnapshot(name, handle string, annotations map[string]string) *snapshot {
	s.Helper()
	content, mode := s.name+"-"+name, corev1.PersistentVolumeFilesystem
	_, err := shared.snapshots.VolumeSnapshotContents().Create(s.Context(), &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: content, Annotations: annotations},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: contract.SnapshotDriver(contract.ProvisionerName), DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, SourceVolumeMode: &mode,
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: s.name, Name: name},
			Source:            snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle},
		},
	}, metav1.CreateOptions{})
	s.ok(err)
	return s.makeSnapshot(name, snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &content}})
}

// now is the VolumeSnapshot as it is, nil where it is gone.
func (o *snapshot) now() *snapshotv1.VolumeSnapshot {
	o.s.Helper()
	now, err := shared.snapshots.VolumeSnapshots(o.Namespace).Get(o.s.Context(), o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && now.UID != o.UID {
		return nil
	}
	o.s.ok(err)
	return now
}

// contentName is the name that the content has to have: its VolumeSnapshot's UID is in it, or somebody made it by hand.
func (o *snapshot) contentName() string {
	if by := o.Spec.Source.VolumeSnapshotContentName; by != nil {
		return *by
	}
	return podspec.ContentName(string(o.UID))
}

// content is nil where there is none.
func (o *snapshot) content() *snapshotv1.VolumeSnapshotContent {
	o.s.Helper()
	content, err := shared.snapshots.VolumeSnapshotContents().Get(o.s.Context(), o.contentName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	o.s.ok(err)
	return content
}

// handle is the name that the snapshot has to have on the backend.
func (o *snapshot) handle() string { return podspec.SnapshotName(string(o.UID)) }

// unready says what is lacking until the snapshot is ready.
func (o *snapshot) unready() string {
	now := o.now()
	switch {
	case now == nil:
		return fmt.Sprintf("VolumeSnapshot %s is not there", o.Name)
	case now.Status == nil || now.Status.ReadyToUse == nil || !*now.Status.ReadyToUse:
		return fmt.Sprintf("VolumeSnapshot %s: %s%s", o.Name, inJSON(now.Status), showEvents(eventsOn(o.UID)))
	}
	return ""
}

// ready waits until the snapshot is, and returns how long that took since it was asked for.
func (o *snapshot) ready(limit time.Duration) time.Duration {
	o.s.Helper()
	o.s.wait(limit, "snapshot ready", o.unready)
	return time.Since(o.created)
}

func (o *snapshot) delete() {
	o.s.Helper()
	o.s.ok(shared.snapshots.VolumeSnapshots(o.Namespace).Delete(o.s.Context(), o.Name, metav1.DeleteOptions{}))
}

// left names what exists of the snapshot in Kubernetes.
func (o *snapshot) left() string {
	var names []string
	if o.now() != nil {
		names = append(names, "VolumeSnapshot "+o.Name)
	}
	if content := o.content(); content != nil {
		names = append(names, "VolumeSnapshotContent "+content.Name+showEvents(eventsOn(content.UID)))
	}
	return strings.Join(names, ", ")
}

func (o *snapshot) gone(limit time.Duration) {
	o.s.Helper()
	o.s.wait(limit, "snapshot gone", o.left)
}

// ran fails unless there were exactly so many pods of the operation, each once.
func (o *snapshot) ran(operation contract.Operation, count int) {
	o.s.Helper()
	(&claim{PersistentVolumeClaim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID}}, s: o.s}).ran(operation, count)
}

// restores makes a claim begin with the snapshot's data.
func restores(name string) func(*corev1.PersistentVolumeClaim) {
	group := snapshotv1.GroupName
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: name}
	}
}

// inJSON is a value as people read it.
func inJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Parts of scripts. A snapshot has its name once it is whole. One whose gate is shut waits beforehand.
const (
	restoreDir = `kept=$home/snapshots/$FLEX_SOURCE_SNAPSHOT
if [ -n "$FLEX_SOURCE_SNAPSHOT" ] && [ ! -d "$dir" ]; then
	[ -d "$kept" ] || flexctl fail --refuse "there is no snapshot $FLEX_SOURCE_SNAPSHOT"
	rm -rf -- "$home/restoring-$FLEX_PV_NAME"
	cp -a -- "$kept" "$home/restoring-$FLEX_PV_NAME"
	mv -T -- "$home/restoring-$FLEX_PV_NAME" "$dir"
fi
`
	takeSnapshot = `kept=$home/snapshots/$FLEX_SNAPSHOT_NAME
[ ! -d "$kept" ] || exit 0
rm -rf -- "$kept.part"
cp -a -- "$dir" "$kept.part"
mv -T -- "$kept.part" "$kept"
`
	removeSnapshot = "rm -rf -- \"$home/snapshots/$FLEX_SNAPSHOT_NAME\" \"$home/snapshots/$FLEX_SNAPSHOT_NAME.part\"\n"
)

// scriptClass is a class of scripts that take, remove and restore snapshots, after what comes first in each of them.
func (s *scope) scriptClass(suffix, first string) *class {
	s.Helper()
	c := s.class(suffix, setting{
		provision: "if [ -n \"$FLEX_SOURCE_SNAPSHOT\" ]; then\n:\n" + first + "fi\n" + restoreDir + makeDir + makeVolume,
		data:      map[string]string{"snapshot": prologue + first + takeSnapshot, "delete-snapshot": prologue + first + removeSnapshot},
	})
	s.ok(openDir(c.dir() + "/snapshots"))
	return c
}

// snapshots are the names of what the class's directory for snapshots has.
func (c *class) snapshots() string {
	c.s.Helper()
	out, err := command(c.s.Context(), "ls", "-A", c.dir()+"/snapshots")
	c.s.ok(err)
	return strings.Join(strings.Fields(out), ", ")
}
