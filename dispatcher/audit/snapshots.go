package audit

import (
	"cmp"
	"fmt"
	"slices"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Snapshots are the objects of snapshots.
type Snapshots struct {
	// Requests are the VolumeSnapshots. They were read before the contents: a content is not older than what it is for.
	Requests []*snapshotv1.VolumeSnapshot
	// Contents are those of all drivers. Their records have been marked.
	Contents []*snapshotv1.VolumeSnapshotContent
	// ConfigOf is the configuration in force for a StorageClass, nil for none. It is itself nil where nobody knows.
	ConfigOf func(class string) *configmaps.Config
}

// keep adds the UIDs of snapshots whose pods the dispatcher may still need. They are in the names of the pods.
func (s *Snapshots) keep(uids map[string]bool) {
	for _, r := range s.Requests {
		uids[string(r.UID)] = true
	}

	for _, c := range s.Contents {
		uids[string(c.UID)] = true
		if uid, ok := podspec.SnapshotUIDOf(c.Name); ok {
			uids[uid] = true
		}
	}
}

// contents finds what is wrong with the contents of the dispatcher's driver.
func (s State) contents() (found []Finding) {
	if s.Snapshots == nil {
		return nil
	}

	requests := map[string]*snapshotv1.VolumeSnapshot{}
	for _, r := range s.Snapshots.Requests {
		requests[string(r.UID)] = r
	}

	byHandle := map[string][]*snapshotv1.VolumeSnapshotContent{}
	for _, c := range s.Snapshots.Contents {
		if c.Spec.Driver != contract.SnapshotDriver(s.Provisioner) {
			continue
		}

		found = append(found, s.content(c, requests[string(c.Spec.VolumeSnapshotRef.UID)])...)
		if handle := podspec.HandleOf(c); handle != "" {
			byHandle[handle] = append(byHandle[handle], c)
		}
	}

	for handle, contents := range byHandle {
		found = append(found, twins(handle, contents, requests)...)
	}

	return found
}

// content finds what is wrong with one content. request is its VolumeSnapshot, nil for none.
func (s State) content(c *snapshotv1.VolumeSnapshotContent, request *snapshotv1.VolumeSnapshot) []Finding {
	found := s.served(c, request)
	ref, deleted := c.Spec.VolumeSnapshotRef, c.DeletionTimestamp
	removed := c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete
	left := deleted == nil && request == nil && ref.UID != "" && s.Now.Sub(c.CreationTimestamp.Time) > gracePeriod
	gone := fmt.Sprintf("VolumeSnapshot %.63s/%.253s does not exist any more, and ", ref.Namespace, ref.Name)
	switch {
	case removed && deleted != nil && s.Now.Sub(deleted.Time) > gracePeriod:
		found = append(found, Finding{ReleasedContent, c.Name, "its snapshot was to be removed more than an hour ago",
			"kubectl flex why volumesnapshotcontent/" + c.Name, c})
	case left && podspec.ContentUnmade(c):
		found = append(found, Finding{ReleasedContent, c.Name, gone + "its snapshot was not taken", dropUntaken(c), c})
	case left && removed:
		found = append(found,
			Finding{ReleasedContent, c.Name, gone + "nobody removes the snapshot", deleteContent(c), c})
	}

	return found
}

// dropUntaken is the command that deletes a content with what an attempt may have made.
func dropUntaken(c *snapshotv1.VolumeSnapshotContent) string {
	if c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete {
		return deleteContent(c)
	}

	return setPolicy(c, snapshotv1.VolumeSnapshotContentDelete) + deleteContent(c)
}

// cannot is what follows for a content that the dispatcher cannot serve.
const cannot = ", so that it can neither be restored nor removed"

// served finds whether the dispatcher can restore and remove the snapshot: it has to know where that is, and the class
// has to have snapshots.
func (s State) served(c *snapshotv1.VolumeSnapshotContent, request *snapshotv1.VolumeSnapshot) []Finding {
	class, byHand := c.Annotations[contract.AnnClass], c.Spec.Source.SnapshotHandle != nil
	uid, named := podspec.SnapshotUIDOf(c.Name)
	v := podspec.VolumeOf(c)

	unrecorded := func(why, command string) []Finding { return []Finding{{UnrecordedContent, c.Name, why, command, c}} }
	switch {
	case !byHand && (!named || string(c.Spec.VolumeSnapshotRef.UID) != uid):
		return unrecorded("it asks for a snapshot, and the dispatcher makes such objects itself, for VolumeSnapshots",
			giveUp(c, nil))
	case v != nil:
		class = podspec.ClassOf(v)
	case request != nil && podspec.ContentUntouched(c):
		return nil // an event on the VolumeSnapshot says why
	case !byHand:
		return unrecorded("it has no signed record of its volume"+cannot+"; look first whether its annotation "+
			contract.AnnVolume+" is right", annotate(c, contract.AnnRecord, contract.RecordTrusted))
	case class == "":
		return unrecorded("it was made by hand, and nothing says of which StorageClass its snapshot is"+cannot,
			annotate(c, contract.AnnClass, "CLASS"))
	}

	if s.Snapshots.ConfigOf == nil {
		return nil
	}

	return unserved(c, class, s.Snapshots.ConfigOf(class))
}

// unserved finds whether the configuration in force for the content's class has snapshots.
func unserved(c *snapshotv1.VolumeSnapshotContent, class string, config *configmaps.Config) []Finding {
	switch {
	case config == nil:
		why := fmt.Sprintf("no valid ConfigMap serves its class %.253q%s", class, cannot)
		return []Finding{{UnservedContent, c.Name, why, "# create the StorageClass and its ConfigMap again", c}}
	case !config.Snapshots:
		why := fmt.Sprintf("ConfigMap %s of its class has neither the scripts snapshot and delete-snapshot nor "+
			"snapshots: \"true\"%s", config.Name, cannot)
		command := fmt.Sprintf("kubectl -n %s edit configmap %s", config.Namespace, config.Name)

		return []Finding{{UnservedContent, c.Name, why, command, c}}
	}

	return nil
}

// twins finds the contents that have one snapshot. It is not removed while several have it. The one to keep is the one
// that somebody needs most. The others go without the snapshot.
func twins(
	handle string, contents []*snapshotv1.VolumeSnapshotContent, requests map[string]*snapshotv1.VolumeSnapshot,
) (found []Finding) {
	if !slices.ContainsFunc(contents, func(c *snapshotv1.VolumeSnapshotContent) bool {
		return c.Spec.DeletionPolicy == snapshotv1.VolumeSnapshotContentDelete
	}) {
		return nil
	}

	request := func(c *snapshotv1.VolumeSnapshotContent) *snapshotv1.VolumeSnapshot {
		return requests[string(c.Spec.VolumeSnapshotRef.UID)]
	}
	slices.SortFunc(contents, func(a, b *snapshotv1.VolumeSnapshotContent) int {
		return cmp.Or(
			first(a.DeletionTimestamp == nil, b.DeletionTimestamp == nil),
			first(request(a) != nil, request(b) != nil),
			first(podspec.VolumeOf(a) != nil, podspec.VolumeOf(b) != nil),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.UID, b.UID),
		)
	})

	for _, c := range contents[1:] {
		why := fmt.Sprintf("VolumeSnapshotContent %s has the same snapshot %.253q, which nobody removes while both "+
			"exist: keep that one alone", contents[0].Name, handle)
		found = append(found, Finding{TwinContent, c.Name, why, giveUp(c, request(c)), c})
	}

	return found
}

// giveUp is the command that deletes a content and its VolumeSnapshot, and leaves the snapshot alone.
func giveUp(c *snapshotv1.VolumeSnapshotContent, request *snapshotv1.VolumeSnapshot) string {
	command := setPolicy(c, snapshotv1.VolumeSnapshotContentRetain)
	if request != nil {
		command += fmt.Sprintf("kubectl -n %s delete volumesnapshot %s && ", request.Namespace, request.Name)
	}

	return command + deleteContent(c)
}

// setPolicy is the beginning of a command.
func setPolicy(c *snapshotv1.VolumeSnapshotContent, policy snapshotv1.DeletionPolicy) string {
	const patch = `kubectl patch volumesnapshotcontent %s --type=merge -p '{"spec": {"deletionPolicy": %q}}' && `
	return fmt.Sprintf(patch, c.Name, policy)
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}

	return 1
}

func deleteContent(c *snapshotv1.VolumeSnapshotContent) string {
	return "kubectl delete volumesnapshotcontent " + c.Name
}

func annotate(c *snapshotv1.VolumeSnapshotContent, key, value string) string {
	return fmt.Sprintf("kubectl annotate volumesnapshotcontent %s --overwrite %s=%s", c.Name, key, value)
}
