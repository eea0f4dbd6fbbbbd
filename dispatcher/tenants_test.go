package dispatcher

import (
	"net/http"
	"path"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/snapshotter"
)

// tenants play everybody else in a cluster: authors of classes and claims, nodes, images and Kubernetes' own controllers.
type tenants struct {
	t      *testing.T
	server *apiserver.Server
	// ran are the pods that ran, by name, where somebody wants to know.
	ran map[string]*corev1.Pod
	// api is what dispatchers talk to.
	api http.RoundTripper
	// snapshots are served, and the snapshot-controller runs.
	snapshots bool
	// log takes what dispatchers log, nil for nobody.
	log logr.LogSink
}

func (p tenants) create(resource string, o apiserver.Object) {
	if _, err := p.server.Create(resource, o); err != nil {
		p.t.Error(err)
	}
}

func (p tenants) remove(resource, namespace, name string) {
	if _, err := p.server.Delete(resource, namespace, name, metav1.DeleteOptions{}); err != nil {
		p.t.Error(err)
	}
}

func (p tenants) class(name string, data map[string]string) {
	p.create(apiserver.Classes, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "p"})
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"storage-class": name, "type": "provisioner-config"}},
		Data: map[string]string{"plugin-name": "p", "image": "example.com/i", "service-account-name": "s", "provision": "true", "delete": "true", "failed-pod-ttl": "1m", "flexctl": "in-image"}}
	for key, value := range data {
		cm.Data[key] = value
	}

	p.create(apiserver.ConfigMaps, cm)
}

// claim is of a class whose name says what becomes of its pods.
func (p tenants) claim(name, class string) { p.create(apiserver.Claims, newClaim(name, class)) }

func newClaim(name, class string) *corev1.PersistentVolumeClaim {
	mode := corev1.PersistentVolumeFilesystem

	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": "p"}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
}

// play lets time go by in which everybody does what they have to.
func (p tenants) play(d time.Duration) {
	for range d / time.Second {
		time.Sleep(time.Second)
		synctest.Wait()
		dying := p.dying() // before the dispatcher can answer what follows

		if p.snapshots {
			snapshotter.Controller{Server: p.server}.SyncAll()
		}

		for _, pod := range apiserver.List[*corev1.Pod](p.server, apiserver.Pods) {
			if pod.Status.Phase == corev1.PodPending && pod.DeletionTimestamp == nil {
				p.run(pod)
			}
		}

		for _, v := range apiserver.List[*corev1.PersistentVolume](p.server, apiserver.Volumes) {
			p.bind(v)
		}

		for _, o := range dying {
			p.unprotect(o)
		}
	}

	synctest.Wait()
}

// dying are the claims and volumes that are deleted and protected.
func (p tenants) dying() (dying []protected) {
	for resource, finalizer := range map[string]string{
		apiserver.Claims: "kubernetes.io/pvc-protection", apiserver.Volumes: "kubernetes.io/pv-protection",
	} {
		for _, o := range p.objects(resource) {
			if o.GetDeletionTimestamp() != nil {
				dying = append(dying, protected{resource, o.GetNamespace(), o.GetName(), finalizer})
			}
		}
	}

	return dying
}

type protected struct{ resource, namespace, name, finalizer string }

// unprotect takes the finalizer away by which Kubernetes protects the object.
func (p tenants) unprotect(dying protected) {
	p.server.Mutate(dying.resource, dying.namespace, dying.name, func(o apiserver.Object) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == dying.finalizer }))
	})
}

func (p tenants) objects(resource string) (list []apiserver.Object) {
	switch resource {
	case apiserver.Claims:
		for _, o := range apiserver.List[*corev1.PersistentVolumeClaim](p.server, resource) {
			list = append(list, o)
		}
	case apiserver.Volumes:
		for _, o := range apiserver.List[*corev1.PersistentVolume](p.server, resource) {
			list = append(list, o)
		}
	case apiserver.Classes:
		for _, o := range apiserver.List[*storagev1.StorageClass](p.server, resource) {
			list = append(list, o)
		}
	case apiserver.ConfigMaps:
		for _, o := range apiserver.List[*corev1.ConfigMap](p.server, resource) {
			list = append(list, o)
		}
	case apiserver.Events:
		for _, o := range apiserver.List[*corev1.Event](p.server, resource) {
			list = append(list, o)
		}
	}

	return list
}

// run is what the pod comes to.
func (p tenants) run(pod *corev1.Pod) {
	if p.ran != nil {
		p.ran[pod.Name] = pod
	}

	class, code := pod.Annotations[contract.AnnClass], int32(0)
	op, uid, _, _ := podspec.ParseName(pod.Name)
	switch kind := path.Ext(class); {
	case kind == ".hangs":
		_, _ = p.server.Create(apiserver.Events, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: pod.Name + ".1"}, Type: corev1.EventTypeWarning, Reason: "FailedMount",
			Message: "secret not found", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: pod.Name, UID: pod.UID}})

		return
	case op == contract.Delete && kind == ".local" && !p.placed(pod):
		return
	case op == contract.Provision && kind == ".fails":
		code = 1
	case podspec.OfAttachment(op):
		code = p.attaches(pod)
	case op == contract.Provision:
		volume := &corev1.PersistentVolume{}
		if err := yaml.Unmarshal([]byte(pod.Annotations[contract.AnnVolume]), volume); err != nil {
			p.t.Fatal(err)
		}

		if kind == ".strays" {
			volume.Spec.StorageClassName = "silver-of-another-tenant"
		}

		switch kind {
		case ".local":
			volume.Spec.Local = &corev1.LocalVolumeSource{Path: "/data"}
			volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node1"}}}}}}}
		case ".attached", ".loop":
			volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: contract.SnapshotDriver("p"), VolumeHandle: volume.Name,
				VolumeAttributes: map[string]string{contract.AttributeStager: map[string]string{".attached": "iscsi", ".loop": "loop"}[kind]}}
		case ".csi":
			volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: "volume-" + uid}
		default:
			volume.Spec.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/" + uid}
		}

		p.create(apiserver.Volumes, volume)
	}

	p.server.Mutate(apiserver.Pods, pod.Namespace, pod.Name, func(o apiserver.Object) {
		pod, phase := o.(*corev1.Pod), corev1.PodSucceeded
		if code != 0 {
			phase = corev1.PodFailed
		}

		pod.Spec.NodeName = "node1"
		pod.Status.Phase = phase
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Completed", Message: "", StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}}}
	})
}

// bind is what kube-controller-manager does with a volume, whose claimRef may have no UID yet, or be missing.
func (p tenants) bind(v *corev1.PersistentVolume) {
	claim := p.claimFor(v)
	if claim != nil && *claim.Spec.StorageClassName != v.Spec.StorageClassName {
		return
	}

	phase := corev1.VolumeReleased
	switch {
	case claim != nil:
		phase = corev1.VolumeBound
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "":
		phase = corev1.VolumeAvailable
	}

	if v.Status.Phase == phase && (claim == nil || claim.Status.Phase == corev1.ClaimBound) {
		return
	}

	p.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		now, v := metav1.Now(), o.(*corev1.PersistentVolume)
		v.Status.Phase, v.Status.LastPhaseTransitionTime = phase, &now // the API server writes the time
		if claim != nil {
			v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		}
	})
	if claim != nil {
		p.server.Mutate(apiserver.Claims, claim.Namespace, claim.Name, func(o apiserver.Object) {
			c := o.(*corev1.PersistentVolumeClaim)
			c.Spec.VolumeName, c.Status.Phase, c.Status.Capacity = v.Name, corev1.ClaimBound, v.Spec.Capacity.DeepCopy()
		})
	}
}

// claimFor is the claim that a volume is for: that of its claimRef, or where it has none the one that names the volume.
func (p tenants) claimFor(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	for _, claim := range apiserver.List[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims) {
		ref := v.Spec.ClaimRef
		named := ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == claim.UID || ref.UID == "")
		asks := ref == nil && claim.Spec.VolumeName == v.Name
		ours := claim.Spec.VolumeName == "" || claim.Spec.VolumeName == v.Name
		if (named || asks) && ours {
			return claim
		}
	}

	return nil
}
