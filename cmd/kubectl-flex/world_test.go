package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/deploy/policies"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

const uid = dispatchertest.UID

var noon = dispatchertest.Noon

// world is a cluster with the class silver and a claim team-a/data that waits, before a test changes it.
type world struct {
	t        *testing.T
	claim    *corev1.PersistentVolumeClaim
	class    *storagev1.StorageClass
	config   *corev1.ConfigMap
	allowed  *corev1.ConfigMap
	account  *corev1.ServiceAccount
	dispatch *appsv1.Deployment
	lease    *coordinationv1.Lease
	// compared reports whether policies are compared with the shipped ones, which takes long. Else none lacks.
	compared  bool
	more      []runtime.Object
	snapshots []runtime.Object
	// lacks are the kinds of snapshots that the cluster does not serve.
	lacks  []string
	events int
	// tenant may read nothing but claims and events of team-a.
	tenant bool
	// unbound reports whether no ClusterRoleBinding lets ServiceAccounts create volumes.
	unbound bool
	// forbids are resources that may not be read.
	forbids []string
	// ctx is what ends a command, nil for nothing.
	ctx context.Context
	// client is made by the first command.
	client *fake.Clientset
}

func newWorld(t *testing.T) *world {
	class, leader, acquired := "silver", "flex-provisioner-0_1234", metav1.NewMicroTime(noon.Add(-72*time.Hour))
	w := &world{t: t,
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: uid, CreationTimestamp: metav1.NewTime(noon.Add(-10 * time.Minute)),
				Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": contract.ProvisionerName}},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		},
		class: &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "silver"}, Provisioner: contract.ProvisionerName},
		config: &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: "silver", UID: "config", ResourceVersion: "1",
				Labels: map[string]string{"storage-class": "silver", "type": "provisioner-config"}},
			Data: map[string]string{"plugin-name": contract.ProvisionerName, "image": "registry.example/silver:v1", "service-account-name": "silver", "zone": "west"}},
		allowed: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: contract.SystemNamespace, Name: "flex-pv-policy"},
			Data: map[string]string{"provisionerName": contract.ProvisionerName, "silver.storageClasses": "silver, gold-*", "silver.volumeTypes": "nfs", "silver.nfsExports": "10.0.0.1:/srv"}},
		account: &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: "silver"}},
		dispatch: &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: contract.SystemNamespace, Name: "flex-provisioner"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "dispatcher", Image: "registry.example/flex-provisioner:v0.1.0", Args: []string{"--flexctl-image=registry.example/flexctl:v0.1.0", "--flexctl-mount=image", "--pod-kube-api=https://10.96.0.1:443"}}}}}},
			Status: appsv1.DeploymentStatus{ReadyReplicas: 1}},
		lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: contract.SystemNamespace, Name: "flex-provisioner"},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &leader, AcquireTime: &acquired}},
	}
	return w
}

// bound binds the claim to its volume.
func (w *world) bound() *corev1.PersistentVolume {
	w.claim.Spec.VolumeName, w.claim.Status.Phase = "pvc-"+uid, corev1.ClaimBound
	w.claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return w.volume("bound")
}

// another is the UID of the claim that has the volume which was made for the one with UID uid.
const another = "99999999-2222-4333-8444-555555555555"

// handedOver makes the claim that which the volume was given to.
func (w *world) handedOver(words string) *corev1.PersistentVolume {
	w.bound().Spec.ClaimRef.UID = another
	w.claim.UID = another
	w.more = nil
	v := w.volume(words)
	v.Spec.ClaimRef.UID = another
	return v
}

// volume adds the volume in words of dispatchertest.Volume, made by this dispatcher with the record that it signed.
func (w *world) volume(words string) *corev1.PersistentVolume {
	v := dispatchertest.Volume(words)
	if v.Annotations[contract.ProvisionedBy] == "p" {
		v.Annotations[contract.ProvisionedBy] = contract.ProvisionerName
	}
	if v.Annotations[podspec.Verified] != "" {
		delete(v.Annotations, podspec.Verified)
		v.Annotations[contract.AnnRecord] = strings.Repeat("0a", 32)
	}
	w.more = append(w.more, v)
	return v
}

// pod adds a pod in words of dispatchertest.Pod, which was created so many seconds before noon and ended half a second before it.
func (w *world) pod(words string, secondsAgo int) *corev1.Pod {
	pod := dispatchertest.Pod(words, noon.Add(-time.Duration(secondsAgo)*time.Second), noon.Add(-500*time.Millisecond))
	op, _, _, _ := podspec.ParseName(pod.Name)
	pod.Namespace = contract.ProvisionersNamespace
	pod.Labels = map[string]string{contract.LabelOperation: string(op), contract.LabelClaimUID: uid}
	pod.Annotations[contract.AnnClass], pod.Annotations[contract.AnnClaim] = "silver", "team-a/data"
	if config, faults := configmaps.Parse(w.config); len(faults) == 0 {
		pod.Annotations[contract.AnnConfig] = podspec.ConfigStamp(config)
	}
	request := contract.Request{Claim: contract.Claim{Namespace: "team-a", Name: "data", UID: uid}, Identity: contract.Identity{Properties: map[string]string{"zone": "west"}}}
	text, err := json.Marshal(request)
	if err != nil {
		w.t.Fatal(err)
	}
	pod.Annotations[contract.AnnRequest] = string(text)
	w.more = append(w.more, pod)
	return pod
}

// says is what the container wrote as its message.
func says(pod *corev1.Pod, message string) {
	pod.Status.ContainerStatuses[0].State.Terminated.Message = message
}

// tell adds an event of the dispatcher on an object.
func (w *world) tell(kind, name string, on types.UID, warning bool, reason podspec.Reason, message string) {
	namespace, ofKind := metav1.NamespaceDefault, corev1.EventTypeNormal
	switch kind {
	case "PersistentVolumeClaim", "VolumeSnapshot":
		namespace = "team-a"
	case "Pod", "ConfigMap":
		namespace = contract.ProvisionersNamespace
	}
	if warning {
		ofKind = corev1.EventTypeWarning
	}
	w.events++
	w.more = append(w.more, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("event-%d", w.events)},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, Namespace: namespace, UID: on},
		Source:         corev1.EventSource{Component: "flex-provisioner"}, Type: ofKind, Reason: string(reason), Message: message,
		LastTimestamp: metav1.NewTime(noon.Add(time.Duration(w.events-10) * time.Second)), Count: 1})
}

func (w *world) tellClaim(warning bool, reason podspec.Reason, message string) {
	w.tell("PersistentVolumeClaim", "data", uid, warning, reason, message)
}

// waits is what the dispatcher says of a claim that waits, in an event and in the claim's status.
func (w *world) waits(warning bool, reason podspec.Reason, message string) {
	w.tellClaim(warning, reason, message)
	at := w.more[len(w.more)-1].(*corev1.Event).LastTimestamp
	told := corev1.PersistentVolumeClaimCondition{Type: contract.ConditionWaiting, Status: corev1.ConditionTrue,
		Reason: string(reason), Message: message, LastProbeTime: at, LastTransitionTime: at}
	w.claim.Status.Conditions = append(w.claim.Status.Conditions, told)
}

func (w *world) tellVolume(warning bool, reason podspec.Reason, message string) {
	w.tell("PersistentVolume", "pvc-"+uid, "volume-UID", warning, reason, message)
}

// attachment is one of the volume on node1, with what keeps it from being attached, or attached without.
func (w *world) attachment(fault string) {
	volume := "pvc-" + uid
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1", UID: "11111111-2222-3333-4444-555555555555"},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: contract.SnapshotDriver(contract.ProvisionerName), NodeName: "node1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}}
	if va.Status.Attached = fault == ""; fault != "" {
		va.Status.AttachError = &storagev1.VolumeError{Message: fault}
	}
	w.more = append(w.more, va)
}

func (w *world) objects() []runtime.Object {
	list := append([]runtime.Object{w.allowed, w.account, w.dispatch}, w.more...)
	if w.lease != nil {
		list = append(list, w.lease)
	}
	if w.claim != nil {
		list = append(list, w.claim)
	}
	if w.class != nil {
		list = append(list, w.class)
	}
	if w.config != nil {
		list = append(list, w.config)
	}
	return list
}

// guarded adds the shipped policies.
func (w *world) guarded() {
	w.compared = true
	files, err := fs.Glob(policies.Files, "*.yaml")
	w.must(err)
	for _, file := range files {
		data, err := policies.Files.ReadFile(file)
		w.must(err)
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			var kind metav1.TypeMeta
			policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
			w.must(yaml.Unmarshal([]byte(document), &kind))
			var into runtime.Object = policy
			if kind.Kind == "ValidatingAdmissionPolicyBinding" {
				into = binding
			} else if kind.Kind != "ValidatingAdmissionPolicy" {
				continue
			}
			w.must(yaml.Unmarshal([]byte(document), into))
			w.more = append(w.more, into)
		}
	}
}

// noneLacking is what a cluster with the shipped policies lacks.
func noneLacking([]admissionv1.ValidatingAdmissionPolicy, []admissionv1.ValidatingAdmissionPolicyBinding, string, string, string) ([]string, error) {
	return nil, nil
}

// run runs a command against the world.
func (w *world) run(input string, args ...string) (output string, code int) {
	w.t.Helper()
	if w.client == nil {
		w.client = fake.NewClientset(w.objects()...)
		w.client.Resources = w.kindsOfSnapshots()
		w.client.PrependReactor("create", "subjectaccessreviews", w.review)
		w.client.PrependReactor("list", "events", w.selected)
		if w.tenant {
			w.client.PrependReactor("*", "*", forbidden)
		}
		for _, resource := range w.forbids {
			w.client.PrependReactor("*", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, notAllowed(action)
			})
		}
	}
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(input), Out: &out, ErrOut: &errs}
	namespace := "team-a"
	kube := genericclioptions.NewConfigFlags(true)
	kube.Namespace = &namespace
	o := &options{IOStreams: streams, client: w.client, snapshots: w.snapshotClient(), now: func() time.Time { return noon }, lacking: noneLacking, period: time.Millisecond, kube: kube}
	if w.compared {
		o.lacking = admission.Lacking
	}
	ctx := context.Background()
	if w.ctx != nil {
		ctx = w.ctx
	}
	code = runCommand(ctx, commandOf("kubectl flex", o), args, streams)
	return out.String() + errs.String(), code
}

// selected lists the events about the kind that the field selector names. The fake client lists those about all kinds.
func (w *world) selected(action clienttesting.Action) (bool, runtime.Object, error) {
	kind, selects := action.(clienttesting.ListAction).GetListRestrictions().Fields.RequiresExactMatch("involvedObject.kind")
	if !selects {
		return false, nil, nil
	}
	events := corev1.SchemeGroupVersion
	object, err := w.client.Tracker().List(events.WithResource("events"), events.WithKind("Event"), action.GetNamespace())
	if err != nil {
		return true, nil, err
	}
	list := object.(*corev1.EventList)
	list.Items = slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.InvolvedObject.Kind != kind })
	return true, list, nil
}

// review answers what a ServiceAccount may do.
func (w *world) review(action clienttesting.Action) (bool, runtime.Object, error) {
	review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
	review.Status.Allowed = !w.unbound
	return true, review, nil
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func forbidden(action clienttesting.Action) (bool, runtime.Object, error) {
	kind := action.GetResource().Resource
	discovers := kind == "resource"
	if discovers || action.GetNamespace() == "team-a" && (kind == "persistentvolumeclaims" || kind == "events") {
		return false, nil, nil
	}
	return true, nil, notAllowed(action)
}

func notAllowed(action clienttesting.Action) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: action.GetResource().Resource}, "", fmt.Errorf("user tom cannot %s it", action.GetVerb()))
}

func (w *world) forbid(resources ...string) { w.forbids = append(w.forbids, resources...) }

// renewed is when the leader last renewed the Lease.
func (w *world) renewed(at time.Time) {
	seconds := int32(15)
	w.lease.Spec.LeaseDurationSeconds, w.lease.Spec.RenewTime = &seconds, &metav1.MicroTime{Time: at}
}
