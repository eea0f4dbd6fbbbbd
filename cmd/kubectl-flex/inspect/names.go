package inspect

import (
	"cmp"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// kinds are the words that kubectl prints before a name, and the first of those of the same kind.
var kinds = map[string]string{
	"pvc": claimKind, "persistentvolumeclaim": claimKind, "persistentvolumeclaims": claimKind,
	"pv": volumeKind, "persistentvolume": volumeKind, "persistentvolumes": volumeKind,
	"po": podKind, "pod": podKind, "pods": podKind,
	"sc": classKind, "storageclass": classKind, "storageclasses": classKind, "storageclass.storage.k8s.io": classKind,
	"vs": snapshotKind, "volumesnapshot": snapshotKind, "volumesnapshots": snapshotKind, "volumesnapshot.snapshot.storage.k8s.io": snapshotKind,
	"vsc": contentKind, "volumesnapshotcontent": contentKind, "volumesnapshotcontents": contentKind,
	"volumesnapshotcontent.snapshot.storage.k8s.io": contentKind,
	"cm": configMapKind, "configmap": configMapKind, "configmaps": configMapKind,
}

const (
	claimKind     = "persistentvolumeclaim"
	volumeKind    = "persistentvolume"
	podKind       = "pod"
	classKind     = "storageclass"
	configMapKind = "configmap"
	snapshotKind  = "volumesnapshot"
	contentKind   = "volumesnapshotcontent"
)

// SplitName takes a name apart that status or kubectl prints: NAMESPACE/NAME or KIND/NAME. The name of a snapshot keeps
// its kind, since a claim may have the same name.
func SplitName(namespace, name string) (string, string) {
	before, after, found := strings.Cut(name, "/")
	switch kind := kinds[strings.ToLower(before)]; {
	case !found:
		return namespace, name
	case kind == snapshotKind || kind == contentKind:
		return namespace, kind + "/" + after
	case kind != "":
		return namespace, after
	}
	return before, after
}

// Name is the name of a state's object as kubectl -o name prints it, or qualified for a claim of another namespace.
func (s State) Name(qualified bool) string {
	switch {
	case s.Snapshot != "":
		return snapshotKind + "/" + s.Snapshot
	case s.Content != "":
		return contentKind + "/" + s.Content
	case s.Claim != "" && qualified:
		return s.Namespace + "/" + s.Claim
	case s.Claim != "":
		return claimKind + "/" + s.Claim
	case s.Volume != "":
		return volumeKind + "/" + s.Volume
	}
	return podKind + "/" + s.Pod
}

// NoClassError says that no StorageClass has the name, and that no ConfigMap is for it.
type NoClassError struct {
	Name string
	// Meant is the name of a class that is probably meant, empty for none.
	Meant string
}

func (e NoClassError) Error() string {
	text := "there is no StorageClass " + quoted(e.Name)
	if e.Meant != "" {
		text += ": did you mean " + e.Meant + "?"
	}
	return text
}

// FindClass is the class of a name as kubectl prints it: of a StorageClass, or of a ConfigMap that is for one. The error
// is a NoClassError where all are known and none is it.
func (o *Objects) FindClass(name string) (string, error) {
	before, after, found := strings.Cut(name, "/")
	switch kind := kinds[strings.ToLower(before)]; {
	case found && kind == configMapKind:
		if cm := o.configMap(after); cm != nil {
			return configmaps.ClassName(cm), nil
		}
		name = after
	case found && kind == classKind:
		name = after
	}

	exists := o.class(name) != nil || o.resolve(name).Present || o.meantFor(name) != ""
	if exists || !o.reads(Classes, ConfigMaps) {
		return name, nil
	}
	return "", NoClassError{Name: name, Meant: configmaps.Nearest(name, o.ClassNames())}
}

// FindAnyClass is the error where no StorageClass of any provisioner has the name, nil where one does.
func (o *Objects) FindAnyClass(name string) error {
	if o.class(name) != nil || !o.reads(Classes) {
		return nil
	}
	return NoClassError{Name: name, Meant: configmaps.Nearest(name, o.AllClassNames("", ""))}
}

// AllClassNames lists the StorageClasses of all provisioners.
func (o *Objects) AllClassNames(_, _ string) []string {
	return namesOf(o.Classes, func(*storagev1.StorageClass) bool { return true })
}

// similarClaim is the claim of the namespace whose name is most like one that does not exist, empty for none.
func (o *Objects) similarClaim(namespace, name string) string {
	return configmaps.Nearest(name, namesOf(o.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Namespace == namespace }))
}

// NamesFor lists the names that may complete a word: claims of the namespace, and once the word begins, volumes and pods
// of the dispatcher too. A word with a kind or a namespace keeps it.
func (o *Objects) NamesFor(namespace, word string) (names []string) {
	before, _, typed := strings.Cut(word, "/")
	kind, prefix := "", ""
	if typed {
		kind, prefix = cmp.Or(kinds[strings.ToLower(before)], claimKind), before+"/"
	}
	wants := func(of string) bool { return kind == of || kind == "" && (of == claimKind || word != "") }
	own := o.Own()

	names = slices.Concat(
		namesOf(own.Claims, func(c *corev1.PersistentVolumeClaim) bool { return wants(claimKind) && c.Namespace == namespace }),
		namesOf(own.Volumes, func(*corev1.PersistentVolume) bool { return wants(volumeKind) }),
		namesOf(o.Pods, func(*corev1.Pod) bool { return wants(podKind) }),
		namesOf(o.Snapshots.Requests, func(r *snapshotv1.VolumeSnapshot) bool { return kind == snapshotKind && r.Namespace == namespace }),
		namesOf(own.Contents, func(*snapshotv1.VolumeSnapshotContent) bool { return kind == contentKind }))
	for i := range names {
		names[i] = prefix + names[i]
	}
	slices.Sort(names)
	return names
}

// ReleasedVolumes lists the dispatcher's volumes whose claims are gone.
func (o *Objects) ReleasedVolumes(_, _ string) []string {
	return namesOf(o.Own().Volumes, func(v *corev1.PersistentVolume) bool {
		return v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	})
}

// ForeignVolumes lists the volumes that are not the dispatcher's.
func (o *Objects) ForeignVolumes(_, _ string) []string {
	return namesOf(o.Volumes, func(v *corev1.PersistentVolume) bool { return !o.ownVolume(v) })
}

// ClassNamesFor lists the classes that may complete a word, or the ConfigMaps where it begins with that kind.
func (o *Objects) ClassNamesFor(word string) []string {
	before, _, typed := strings.Cut(word, "/")
	names := o.ClassNames()
	if typed && kinds[strings.ToLower(before)] == configMapKind {
		names = namesOf(o.OwnConfigMaps(), func(*corev1.ConfigMap) bool { return true })
	}
	if typed {
		for i := range names {
			names[i] = before + "/" + names[i]
		}
	}
	return names
}
