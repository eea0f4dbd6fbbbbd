package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Kind is a kind of object that the caller may not be allowed to read.
type Kind string

// Kinds. Events are those of claims; the others are of the whole cluster or of the namespaces of an installation.
const (
	Claims       Kind = "claims"
	Volumes      Kind = "volumes"
	Pods         Kind = "provisioner pods"
	ConfigMaps   Kind = "provisioner ConfigMaps"
	Revisions    Kind = "last good versions of ConfigMaps, and records of pods"
	Classes      Kind = "StorageClasses"
	Events       Kind = "events"
	PodEvents    Kind = "events of provisioner pods"
	VolumeEvents Kind = "events of volumes"
	Policies     Kind = "admission policies"
	Lease        Kind = "the Lease"
	Deployment   Kind = "the dispatcher's Deployment"
	AllowList    Kind = "the allow-list"
	Nodes        Kind = "nodes"
	Logs         Kind = "logs of provisioner pods"
	Snapshots    Kind = "snapshots"
)

// Unread is a kind of object that could not be read.
type Unread struct {
	Kind Kind `json:"kind"`
	// Right is the right that reading takes, such as "get, list persistentvolumes".
	Right string `json:"right"`
	// Why is the API server's message.
	Why string `json:"why"`
}

// Objects are the objects that were read from a cluster.
type Objects struct {
	Now time.Time
	// Options of the dispatcher, as far as they are known.
	Dispatcher DispatcherOptions

	Claims     []*corev1.PersistentVolumeClaim
	Volumes    []*corev1.PersistentVolume
	Pods       []*corev1.Pod
	ConfigMaps []*corev1.ConfigMap
	// Unlabelled are ConfigMaps of the provisioners' namespace that no dispatcher sees, for want of the label.
	Unlabelled []*corev1.ConfigMap
	// Revisions are the last good versions of ConfigMaps.
	Revisions []*appsv1.ControllerRevision
	// Saved are the records of pods that somebody deleted.
	Saved   []*appsv1.ControllerRevision
	Classes []*storagev1.StorageClass
	Events  []*corev1.Event
	// Attachments are the VolumeAttachments of flex-node's volumes. Whoever may not read them is told less.
	Attachments []*storagev1.VolumeAttachment
	// Nodes are read where a class has allowedTopologies.
	Nodes []*corev1.Node
	// Consumers are the pods of the namespace that ConsumersNamespace names, where one claim is looked at.
	Consumers []*corev1.Pod
	// AttemptNode is the node that AttemptNodeOf names, where one claim is looked at; else nil.
	AttemptNode *corev1.Node
	// AllowList is the ConfigMap flex-pv-policy, and Stop the ConfigMap stop-deletes; nil where there is none.
	AllowList, Stop *corev1.ConfigMap
	// Exists reports whether a ServiceAccount, Secret or claim of the provisioners' namespace exists, as far as that is
	// known.
	Exists map[Ref]bool
	// Denied are ServiceAccounts of classes that RBAC lets create no volume, as far as that was asked.
	Denied []string
	// Logs has the last log lines of provisioner pods by the pod's UID, as far as they were read.
	Logs map[types.UID]string
	// Lacks lists what is missing of the admission policies.
	Lacks []string
	// Leader is the dispatcher that holds the Lease, and since when. It is empty where none does.
	Leader      string
	LeaderSince time.Time
	// LeaderLost is when the leader last renewed the Lease, if the Lease has expired. Else it is zero.
	LeaderLost time.Time
	// OneNamespace reports whether Claims are those of one namespace alone, since the caller may not read others.
	OneNamespace bool
	// Unread are the kinds that could not be read.
	Unread []Unread

	// Snapshots are the objects of snapshots.
	Snapshots SnapshotObjects

	index *index // built at the first use
}

// index finds objects fast, since a cluster may have fifty thousand claims.
type index struct {
	claims        map[string]*corev1.PersistentVolumeClaim // by UID
	claimsByName  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	volumes       map[string]*corev1.PersistentVolume
	pods          map[string][]*corev1.Pod                // by the claim's UID
	saved         map[string][]*appsv1.ControllerRevision // by the claim's UID
	events        map[eventKey][]*corev1.Event
	volumeEvents  map[string][]*corev1.Event // by the volume's name
	resolutions   map[string]classes.Resolution
	requests      map[string]*snapshotv1.VolumeSnapshot          // by UID
	contents      map[string]*snapshotv1.VolumeSnapshotContent   // by their keys
	snapshots     map[string][]*snapshotv1.VolumeSnapshotContent // those of the driver, by their handles
	restoring     map[string][]*corev1.Pod                       // by the handle of the snapshot that they restore
	attachments   map[string][]*storagev1.VolumeAttachment       // those of the driver, by their volumes
	configMapLogs []*corev1.Event
	// running counts the pods of a class that have not ended, oldest is the first of them, and waiting has the times of its
	// claims without one, sorted.
	running map[string]int
	oldest  map[string]*corev1.Pod
	waiting map[string][]time.Time
}

// eventKey is the event's namespace with the object's UID. The namespace is part of it, since an event in one tenant's
// namespace may name an object of another tenant.
type eventKey struct {
	namespace string
	uid       types.UID
}

func (o *Objects) indexed() *index {
	if o.index != nil {
		return o.index
	}
	x := &index{claims: map[string]*corev1.PersistentVolumeClaim{}, claimsByName: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{},
		pods: map[string][]*corev1.Pod{}, saved: map[string][]*appsv1.ControllerRevision{}, events: map[eventKey][]*corev1.Event{},
		volumeEvents: map[string][]*corev1.Event{}, resolutions: map[string]classes.Resolution{}, running: map[string]int{},
		oldest:  map[string]*corev1.Pod{},
		waiting: map[string][]time.Time{}, requests: map[string]*snapshotv1.VolumeSnapshot{}, contents: map[string]*snapshotv1.VolumeSnapshotContent{},
		snapshots: map[string][]*snapshotv1.VolumeSnapshotContent{}, restoring: map[string][]*corev1.Pod{},
		attachments: map[string][]*storagev1.VolumeAttachment{}}
	for _, r := range o.Snapshots.Requests {
		x.requests[string(r.UID)] = r
	}
	for _, c := range o.Snapshots.Contents {
		x.contents[observed.ContentKey(c)] = c
		if o.ownContent(c) {
			handle := podspec.HandleOf(c)
			x.snapshots[handle] = append(x.snapshots[handle], c)
		}
	}
	for _, v := range o.Volumes {
		x.volumes[v.Name] = v
	}
	for _, va := range o.Attachments {
		if va.Spec.Attacher == o.driver() {
			x.attachments[observed.AttachedVolume(va)] = append(x.attachments[observed.AttachedVolume(va)], va)
		}
	}
	served := map[string]bool{} // by a pod that has not ended, by UID
	for _, pod := range o.Pods {
		if handle := observed.RestoredSnapshot(pod); handle != "" {
			x.restoring[handle] = append(x.restoring[handle], pod)
		}
		if _, uid, _, ok := podspec.ParseName(pod.Name); ok {
			x.pods[uid] = append(x.pods[uid], pod)
			if !podspec.OutcomeOf(pod).Final() {
				served[uid] = true
				class := pod.Annotations[contract.AnnClass]
				x.running[class]++
				if oldest := x.oldest[class]; oldest == nil || pod.CreationTimestamp.Before(&oldest.CreationTimestamp) {
					x.oldest[class] = pod
				}
			}
		}
	}
	for _, claim := range o.Claims {
		uid := string(claim.UID)
		x.claims[uid], x.claimsByName[claim.Namespace+"/"+claim.Name] = claim, claim
		if claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil && !served[uid] {
			class := podspec.ClassOfClaim(claim)
			x.waiting[class] = append(x.waiting[class], claim.CreationTimestamp.Time)
		}
	}
	for _, times := range x.waiting {
		slices.SortFunc(times, time.Time.Compare)
	}
	for _, record := range o.Saved {
		_, uid, _, _ := podspec.ParseName(record.Name)
		x.saved[uid] = append(x.saved[uid], record)
	}
	for _, e := range o.Events {
		switch about := e.InvolvedObject; {
		case about.Kind == "PersistentVolume" && e.Namespace == metav1.NamespaceDefault:
			x.volumeEvents[about.Name] = append(x.volumeEvents[about.Name], e)
		case about.Kind == "ConfigMap" && e.Namespace == o.Dispatcher.Namespace:
			x.configMapLogs = append(x.configMapLogs, e)
		case about.UID != "":
			key := eventKey{e.Namespace, about.UID}
			x.events[key] = append(x.events[key], e)
		}
	}
	o.index = x
	return x
}

// DispatcherOptions are the options of a dispatcher that affect what it does for a claim.
type DispatcherOptions struct {
	// Provisioner is the StorageClasses' provisioner. Namespace holds the ConfigMaps and pods, System the dispatcher.
	Provisioner, Namespace, System string
	// LeaseNamespace holds the Lease.
	LeaseNamespace string
	// Found reports whether the dispatcher's Deployment was read.
	Found bool
	// Image of the dispatcher, empty where it is not known.
	Image string
	// Version of the dispatcher, empty where it is not known.
	Version string
	// Ready is the number of ready replicas, Wanted that of spec.replicas.
	Ready, Wanted int32
	// Insecure reports whether the dispatcher runs with --insecure-without-policies.
	Insecure bool
	// Cluster is what provisioner pods have in common.
	Cluster podspec.Cluster
}

// reads reports whether all of the kinds were read.
func (o *Objects) reads(kinds ...Kind) bool {
	return !slices.ContainsFunc(o.Unread, func(u Unread) bool { return slices.Contains(kinds, u.Kind) })
}

// complete reports whether every kind that a plan depends on was read.
func (o *Objects) complete() bool { return o.reads(Volumes, Pods, ConfigMaps, Classes) }

// ClaimNamed is the claim of a namespace and name, or nil.
func (o *Objects) ClaimNamed(namespace, name string) *corev1.PersistentVolumeClaim {
	return o.indexed().claimsByName[namespace+"/"+name]
}

func (o *Objects) claim(uid string) *corev1.PersistentVolumeClaim { return o.indexed().claims[uid] }

// VolumeNamed is the volume of a name, or nil.
func (o *Objects) VolumeNamed(name string) *corev1.PersistentVolume { return o.indexed().volumes[name] }

func (o *Objects) class(name string) *storagev1.StorageClass {
	return first(o.Classes, func(c *storagev1.StorageClass) bool { return c.Name == name })
}

func (o *Objects) configMap(name string) *corev1.ConfigMap {
	return first(o.ConfigMaps, func(cm *corev1.ConfigMap) bool { return cm.Name == name })
}

func (o *Objects) podsOf(uid string) []*corev1.Pod { return o.indexed().pods[uid] }

// recordedOf are the pods of a claim, and what was saved of those that are gone.
func (o *Objects) recordedOf(uid string) []*corev1.Pod {
	pods := slices.Clone(o.podsOf(uid))
	for _, record := range o.indexed().saved[uid] {
		saved := podspec.SavedPod(record)
		if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.UID == saved.UID }) {
			pods = append(pods, saved)
		}
	}
	return pods
}

// eventsOn lists the events about a claim or a pod, oldest first.
func (o *Objects) eventsOn(namespace string, uid types.UID) []*corev1.Event {
	list := slices.Clone(o.indexed().events[eventKey{namespace, uid}])
	slices.SortStableFunc(list, byLastSeen)
	return list
}

// eventsOnClaim lists the events about a claim, oldest first. The condition in the claim's status counts as an event
// once the event itself is gone.
func (o *Objects) eventsOnClaim(claim *corev1.PersistentVolumeClaim) []*corev1.Event {
	list := o.eventsOn(claim.Namespace, claim.UID)
	told, waits := waitingEvent(claim)
	reported := func(e *corev1.Event) bool {
		return e.Reason == told.Reason && strings.HasPrefix(e.Message, told.Message)
	}
	if !waits || slices.ContainsFunc(list, reported) {
		return list
	}
	list = append(list, told)
	slices.SortStableFunc(list, byLastSeen)
	return list
}

// waitingEvent is the condition in a claim's status as the event that it is of.
func waitingEvent(claim *corev1.PersistentVolumeClaim) (e *corev1.Event, waits bool) {
	c, waits := observed.WaitingCondition(claim)
	if !waits {
		return nil, false
	}
	m, _ := events.MeaningOf(podspec.Reason(c.Reason))
	kind := corev1.EventTypeNormal
	if m.Warning {
		kind = corev1.EventTypeWarning
	}
	about := corev1.ObjectReference{Kind: "PersistentVolumeClaim",
		Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	return &corev1.Event{InvolvedObject: about, Source: corev1.EventSource{Component: source}, Type: kind,
		Reason: c.Reason, Message: c.Message, LastTimestamp: c.LastProbeTime}, true
}

// eventsOnVolume lists the events about a volume, which may be gone.
func (o *Objects) eventsOnVolume(name string) []*corev1.Event { return o.indexed().volumeEvents[name] }

// source is the component of the dispatcher's events.
const source = "flex-provisioner"

// namesDispatcher reports whether an event names the dispatcher as its source. Anybody who may create events can do so.
func namesDispatcher(e *corev1.Event) bool {
	return e.Source.Component == source || e.ReportingController == source
}

// fromDispatcher reports whether the dispatcher may have written an event: the event names the dispatcher, and the
// dispatcher writes its reason on objects of that kind. So a tenant's event on a claim cannot pass for one that the
// dispatcher writes on volumes alone.
func fromDispatcher(e *corev1.Event) bool {
	words := map[string]string{"PersistentVolumeClaim": "claim", "PersistentVolume": "volume", "Pod": "pod", "ConfigMap": "ConfigMap",
		"VolumeSnapshot": "snapshot", "VolumeSnapshotContent": "content"}
	m, resolutions := events.MeaningOf(podspec.Reason(e.Reason))
	return namesDispatcher(e) && resolutions && slices.Contains(strings.FieldsFunc(m.On, func(r rune) bool { return r == ' ' || r == ',' }), words[e.InvolvedObject.Kind])
}

// byLastSeen orders events. Times have whole seconds. Within a second, the names of events tell, which end with the
// time in nanoseconds. What a status says has no name, and comes last.
func byLastSeen(a, b *corev1.Event) int {
	return cmp.Or(lastSeen(a).Compare(lastSeen(b)), strings.Compare(nanoseconds(a), nanoseconds(b)))
}

// nanoseconds is the end of an event's name.
func nanoseconds(e *corev1.Event) string {
	if e.Name == "" {
		return "~"
	}
	return e.Name[strings.LastIndex(e.Name, ".")+1:]
}

// lastSeen is when an event last happened.
func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// resolve finds the configuration in force for a class, once for all callers.
func (o *Objects) resolve(class string) classes.Resolution {
	resolved := o.indexed().resolutions
	r, ok := resolved[class]
	if !ok {
		r, _ = classes.Resolve(class, nil, o.Now, classes.Objects{Provisioner: o.Dispatcher.Provisioner, Classes: o.Classes, ConfigMaps: o.ConfigMaps, Revisions: o.Revisions})
		resolved[class] = r
	}
	return r
}

// provisionerOf is the provisioner of a claim: the class's, or else the one in the annotation of
// kube-controller-manager. It is empty where neither is known.
func (o *Objects) provisionerOf(claim *corev1.PersistentVolumeClaim) string {
	if class := o.class(podspec.ClassOfClaim(claim)); class != nil {
		return class.Provisioner
	}
	return requestedProvisioner(claim)
}

// requestedProvisioner is the provisioner that kube-controller-manager asked for a volume, empty where it has asked
// none yet.
func requestedProvisioner(claim *corev1.PersistentVolumeClaim) string {
	for _, key := range []string{"volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner"} {
		if name := claim.Annotations[key]; name != "" {
			return name
		}
	}
	return ""
}

// ownVolume reports whether the dispatcher is responsible for the volume's storage.
func (o *Objects) ownVolume(v *corev1.PersistentVolume) bool {
	if by, found := v.Annotations[contract.ProvisionedBy]; found {
		return by == o.Dispatcher.Provisioner
	}
	class := o.class(podspec.ClassOf(v))
	_, named := podspec.ClaimUIDOf(v.Name)
	return class != nil && class.Provisioner == o.Dispatcher.Provisioner && named
}

// filter lists the objects for which keep is true.
func filter[T any](list []T, keep func(T) bool) (kept []T) {
	for _, object := range list {
		if keep(object) {
			kept = append(kept, object)
		}
	}
	return kept
}

// namesOf lists the names of the objects for which keep is true.
func namesOf[T metav1.Object](list []T, keep func(T) bool) (names []string) {
	for _, object := range filter(list, keep) {
		names = append(names, object.GetName())
	}
	return names
}

func first[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}
