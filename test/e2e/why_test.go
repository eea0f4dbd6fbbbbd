//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// situation is a state that a test has brought about, and what kubectl flex why is asked of it.
type situation struct {
	name string
	// options name the dispatcher, where it is not the installed one.
	options []string
	// after lets what waits go on, so that the test can end.
	after func()
}

func of(c *claim) situation { return situation{name: c.Name} }

// telling is how why tells an administrator a reason: as what holds the claim up now, as what is wrong with its class, or as what has
// happened.
type telling struct {
	after string
	// next says that the next attempt is not due yet.
	next bool
}

var (
	cause       = telling{after: "Cause: "}
	retried     = telling{after: "Cause: ", next: true}
	ofClass     = telling{after: "Class: "}
	past        = telling{}
	retriedStep = telling{next: true}
)

func (how telling) told(reason podspec.Reason, text string) bool {
	text, _, _ = strings.Cut(text, "\ntom$ ")
	return strings.Contains(text, how.after+string(reason)) && (!how.next || strings.Contains(text, "\nNext:  "))
}

// reasons has a state of each row of docs/events.md. What takes longest comes first.
var reasons = []struct {
	reason podspec.Reason
	as     telling
	make   func(s *scope) situation
}{
	{podspec.ReasonEvicted, past, evicted},
	{podspec.ReasonOutOfMemory, retried, failing("echo sorting\nexec tail /dev/zero\n", map[string]string{"resources": "{limits: {memory: 32Mi}}"})},
	{events.ReasonNodeLost, cause, nodeLost},
	{podspec.ReasonDeadline, retried, failing("while :; do sleep 0.1; done\n", map[string]string{"timeout": "10s"})},
	{events.ReasonHeld, cause, heldVolume},
	{events.ReasonCopied, cause, copied},
	{events.ReasonOrphan, past, orphan},
	{events.ReasonLimit, cause, overLimit},
	{events.ReasonStopped, cause, deletionsStopped},
	{events.ReasonPoliciesMissing, cause, policiesMissing},
	{events.ReasonStartTimeout, past, startTimeout},
	{podspec.ReasonFailed, retried, failing("flexctl fail 'the array is rebooting'\n", nil)},
	{events.ReasonLog, retriedStep, failing("echo 'no route to 10.0.0.7'\nexit 7\n", nil)},
	{podspec.ReasonNotHere, retried, failing("flexctl fail --not-here 'this node has no fabric'\n", nil)},
	{podspec.ReasonTryAgain, retried, failing("flexctl fail --try-again 'the array is rebuilding'\n", nil)},
	{events.ReasonNoVolume, retried, noVolume},
	{podspec.ReasonRefused, retried, failing("flexctl fail --refuse 'pool gold is full'\n", nil)},
	{podspec.ReasonStart, retried, notStarted},
	{events.ReasonConcurrency, cause, concurrency},
	{events.ReasonConfigOutdated, ofClass, configOutdated},
	{events.ReasonRecord, cause, recordInvalid},
	{events.ReasonStorageMoved, cause, storageMoved},
	{events.ReasonStrayDelete, cause, strayDelete},
	{events.ReasonExpanded, past, expanded},
	{events.ReasonExpansionRefused, cause, expansionRefused},
	{events.ReasonUndone, past, undone},
	{events.ReasonUndo, past, undo},
	{events.ReasonVolumeMismatch, cause, misfit},
	{events.ReasonVolumeMended, past, mended},
	{events.ReasonLeft, cause, leftBehind},
	{events.ReasonNotOurs, past, notOurs},
	{events.ReasonSucceeded, past, succeeded},
	{podspec.ReasonImagePull, cause, failing("", map[string]string{"image": "registry.invalid/flex-provisioner/no-such-image:1", "image-pull-policy": "Never"})},
	{podspec.ReasonPodConfig, cause, secretMissing},
	{podspec.ReasonUnschedulable, cause, failing("", map[string]string{"node-selector": "e2e/nowhere=true"})},
	{events.ReasonPodRefused, cause, failing("", map[string]string{"run-as-user": "0"})},
	{events.ReasonCloneWaits, cause, cloneWaits},
	{events.ReasonClaimRefused, cause, claimRefused},
	{events.ReasonMountNotBound, cause, failing("", map[string]string{"mount-claims": "nowhere:/export"})},
	{events.ReasonConfigMissing, cause, configMissing},
	{events.ReasonConfigInvalid, ofClass, failing("", map[string]string{"timeout": "soon"})},
	{events.ReasonConfigDuplicate, ofClass, configDuplicate},
	{events.ReasonClassNotFound, ofClass, classNotFound},
	{events.ReasonClassMismatch, ofClass, classOfAnother},
	{events.ReasonConfigUnused, ofClass, configNotUsed},
	{events.ReasonLiteralToken, ofClass, literalToken},
}

// TestWhy: in a state of each reason, what an administrator and the claim's user are told by kubectl flex why, whole.
func TestWhy(t *testing.T) {
	t.Parallel()
	for _, r := range reasons {
		t.Run(string(r.reason), func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			tom := s.letTom()
			in := r.make(s)
			willDo := func(text string) bool { return r.as.told(r.reason, text) }
			s.shows(filepath.Join("why", string(r.reason)+".golden"), willDo, func() string {
				return "$ " + s.why(kubeconfig(), in.options, in.name) + "\ntom$ " + s.why(tom, in.options, in.name)
			})
			if in.after != nil {
				in.after()
			}
		})
	}
}

// why is the command and what it prints, with its exit code.
func (s *scope) why(kubeconfig string, options []string, name string) string {
	s.Helper()
	out, code := s.flex(kubeconfig, append(options, "why", name, "-n", s.name)...)
	return fmt.Sprintf("kubectl flex why %s\n%s$ echo $?\n%d\n", name, out, code)
}

// inForce makes a class, and waits until the dispatcher knows its ConfigMap, if it is valid. A claim that is there before is told that
// there is none.
func (s *scope) inForce(suffix string, want setting) *class {
	s.Helper()
	class := s.class(suffix, want)
	if want.data["timeout"] == "soon" {
		return class
	}
	s.wait(patient, "ConfigMap in force", func() string {
		kept, err := shared.admin.AppsV1().ControllerRevisions(contract.ProvisionersNamespace).List(s.Context(), metav1.ListOptions{ResourceVersion: "0"})
		s.ok(err)
		for _, revision := range kept.Items {
			if owner := metav1.GetControllerOf(&revision); owner != nil && owner.Name == class.id {
				return ""
			}
		}
		return "no version of it is kept"
	})
	return class
}

// failing is a claim of a class with such a script and such keys.
func failing(provision string, data map[string]string) func(s *scope) situation {
	return func(s *scope) situation {
		s.Helper()
		return of(s.inForce("silver", setting{provision: provision, data: data}).claim("data"))
	}
}

func succeeded(s *scope) situation {
	c := s.inForce("silver", setting{}).claim("data")
	c.told(patient, "ProvisioningSucceeded", "*")
	return of(c)
}

func evicted(s *scope) situation {
	class := s.inForce("silver", setting{provision: makeDir + gate + makeVolume})
	c := class.claim("data")
	s.wait(patient, "directory made", c.noDirectory)
	pod := metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: podspec.Name(contract.Provision, string(c.UID), 0)}
	s.ok(shared.admin.PolicyV1().Evictions(pod.Namespace).Evict(s.Context(), &policyv1.Eviction{ObjectMeta: pod}))
	return situation{name: c.Name, after: func() { class.open(contract.Provision, c.volumeName()) }}
}

// notStarted has an image without a shell.
func notStarted(s *scope) situation {
	class := s.inForce("silver", setting{data: map[string]string{"image": "registry.invalid/flex-provisioner/flexctl:dev"}})
	return situation{name: class.claim("data").Name, after: func() { class.edit(map[string]string{"image": shellImage}) }}
}

func secretMissing(s *scope) situation {
	return of(s.inForce("silver", setting{data: map[string]string{"secrets": s.name + "-password"}}).claim("data"))
}

// nodeLost has a node without a kubelet, which says of a pod what the test says.
func nodeLost(s *scope) situation {
	node := s.hollow()
	ctx, stop := context.WithCancel(context.Background())
	s.Cleanup(stop)
	go node.beat(ctx)
	node.ready()
	class := s.inForce("silver", setting{data: node.on()})
	c := class.claim("data")
	var pod *corev1.Pod
	s.wait(patient, "a pod on the node", func() string {
		if pod = get[corev1.Pod](shared.pods, c.pod(contract.Provision, 0)); pod == nil || pod.Spec.NodeName != node.name {
			return "there is none" + showEvents(eventsOn(c.UID))
		}
		return ""
	})
	began := metav1.Now()
	node.status(s.Context(), pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}})
	second := int64(1)
	s.ok(shared.admin.CoreV1().Pods(pod.Namespace).Delete(s.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &second}))
	return situation{name: c.Name, after: func() {
		class.edit(map[string]string{"node-selector": "", "tolerations": ""})
		node.status(s.Context(), pod, corev1.PodFailed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, StartedAt: began, FinishedAt: metav1.Now()}})
		c.bound(patient)
	}}
}

func startTimeout(s *scope) situation {
	c := s.inForce("silver", setting{data: map[string]string{"node-selector": "e2e/nowhere=true", "start-timeout": "45s"}}).claim("data")
	c.told(patient, "ProvisionerStartTimeout", "*")
	return of(c)
}

// concurrency has a claim that takes the only place.
func concurrency(s *scope) situation {
	class := s.inForce("silver", setting{data: map[string]string{"max-concurrent": "1"}, provision: makeDir + gate + makeVolume})
	first := class.claim("first")
	s.wait(patient, "directory made", first.noDirectory)
	c := class.claim("data")
	return situation{name: c.Name, after: func() {
		class.open(contract.Provision, first.volumeName())
		class.open(contract.Provision, c.volumeName())
	}}
}

func expanded(s *scope) situation {
	c := s.inForce("silver", growing("true\n")).claim("data")
	c.bound(patient)
	c.ask("128Mi")
	c.has("128Mi")
	return of(c)
}

func expansionRefused(s *scope) situation {
	c := s.inForce("silver", growing("")).claim("data")
	c.bound(patient)
	c.ask("128Mi")
	return of(c)
}

// moved is a claim whose class changed a property while its first attempt ran, which may have made storage and then failed. The second
// one waits at a gate of its own.
func moved(s *scope, remove string) *claim {
	s.Helper()
	class := s.inForce("silver", setting{data: map[string]string{"zone": "west"}, remove: remove,
		provision: makeDir + gate + "[ \"$ZONE\" = east ] || flexctl fail 'the array is rebooting'\n" + strings.ReplaceAll(gate, "$FLEX_OPERATION", "second") + makeVolume})
	c := class.claim("data")
	s.wait(patient, "directory made", c.noDirectory)
	class.edit(map[string]string{"zone": "east"})
	class.open(contract.Provision, c.volumeName())
	c.told(patient, "ProvisionerUndo", "*")
	return c
}

func undo(s *scope) situation {
	c := moved(s, gate+removeDir)
	return situation{name: c.Name, after: func() {
		c.class.open(contract.Delete, c.volumeName())
		c.class.open("second", c.volumeName())
	}}
}

func undone(s *scope) situation {
	c := moved(s, "")
	c.told(patient, "ProvisionerUndone", "*")
	s.wait(patient, "second attempt", func() string {
		if runs := c.class.runs(); len(runs) != 3 {
			return fmt.Sprint(runs)
		}
		return ""
	})
	return situation{name: c.Name, after: func() { c.class.open("second", c.volumeName()) }}
}

// misfit has a volume that is too small, whose storage a pod is about to remove.
func misfit(s *scope) situation {
	class := s.inForce("silver", setting{provision: tooSmall, remove: gate + removeDir})
	c := class.claim("data")
	s.wait(patient, "delete runs", func() string {
		if runs := class.runs(); len(runs) != 2 {
			return fmt.Sprint(runs)
		}
		return ""
	})
	return situation{name: c.Name, after: func() { class.open(contract.Delete, c.volumeName()) }}
}

// mended has a volume without its finalizer.
func mended(s *scope) situation {
	c := s.inForce("silver", setting{provision: makeDir + `
sed '/^  finalizers:/,+1d' /etc/flex-provisioner/volume.yaml > /tmp/volume.yaml
printf '  nfs:\n    server: %s\n    path: %s\n' "$SERVER" "$EXPORT/$FOLDER/volumes/$FLEX_PV_NAME" >> /tmp/volume.yaml
/export/kubectl create --validate=false -f /tmp/volume.yaml
`}).claim("data")
	c.told(patient, "VolumeMended", "*")
	c.bound(patient)
	return of(c)
}

// noVolume has a pod that says that it made a volume, which does not exist. If it is the last one, its storage is an
// administrator's to remove.
func noVolume(s *scope) situation {
	c := s.inForce("silver", setting{provision: "true\n"}).claim("data")
	return situation{name: c.Name, after: func() {
		c.delete()
		s.goneOnceAnswered(c)
	}}
}

func cloneWaits(s *scope) situation {
	class := s.inForce("silver", setting{terms: storagev1.StorageClass{Parameters: map[string]string{contract.ParameterSmartClone: "true"}}})
	return of(class.claim("data", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "original"}
	}))
}

func claimRefused(s *scope) situation {
	return of(s.inForce("silver", setting{}).claim("data", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
	}))
}

func configMissing(s *scope) situation {
	class := s.inForce("silver", setting{})
	class.removeConfigMap(class.id)
	return of(class.claim("data"))
}

// Volumes.

func heldVolume(s *scope) situation {
	c := s.inForce("silver", setting{}).claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy) // a volume that its pod has just created is not one of a backup
	_, err := shared.admin.CoreV1().PersistentVolumes().Create(s.Context(), s.lose(c), metav1.CreateOptions{})
	s.ok(err)
	return situation{name: c.volumeName(), after: func() {
		s.annotate(c.volumeName(), contract.AnnAllowDelete+"=true")
		c.gone(patient)
	}}
}

// copied has a volume whose claim is gone while a pod copies it.
func copied(s *scope) situation {
	class := s.inForce("silver", setting{
		terms:     storagev1.StorageClass{Parameters: map[string]string{contract.ParameterSmartClone: "true"}},
		provision: "if [ -n \"$FLEX_SOURCE_PV_NAME\" ]; then\n" + gate + "fi\n" + makeDir + makeVolume,
	})
	original := class.claim("data")
	original.bound(patient)
	s.wait(patient, "pods acted on", original.busy)
	volume := original.volume()

	clone := class.claim("copy", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}
	})
	s.wait(patient, "copy runs", func() string {
		if runs := class.runs(); len(runs) != 2 {
			return fmt.Sprint(runs)
		}
		return ""
	})
	original.delete()
	s.told(patient, volume.UID, "CloneRunning", "*")
	return situation{name: volume.Name, after: func() {
		class.open(contract.Provision, clone.volumeName())
		clone.bound(patient)
		original.gone(patient)
	}}
}

func (s *scope) annotate(volume string, annotations ...string) {
	s.Helper()
	_, err := kubectl(s.Context(), append([]string{"annotate", "pv", volume, "--overwrite"}, annotations...)...)
	s.ok(err)
}

func recordInvalid(s *scope) situation {
	c := s.inForce("silver", setting{}).claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	s.annotate(c.volumeName(), contract.AnnIdentity+`={"properties":{"server":"10.0.0.9"}}`)
	c.delete()
	return situation{name: c.volumeName(), after: func() {
		s.annotate(c.volumeName(), contract.AnnIdentity+"-")
		c.gone(patient)
	}}
}

// storageMoved has a volume whose record names a claim that is gone. The class mounts the same storage by another one.
func storageMoved(s *scope) situation {
	own := s.name + "-silver"
	s.ok(makeExportClaim(s.Context(), own))
	class := s.inForce("silver", setting{data: map[string]string{"mount-claims": own + ":/export"}})
	c := class.claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	class.edit(map[string]string{"mount-claims": export + ":/export"})
	s.ok(removeExportClaim(s.Context(), own))
	c.delete()
	return situation{name: c.volumeName(), after: func() {
		s.annotate(c.volumeName(), contract.AnnRecord+"="+contract.RecordTrusted, contract.AnnMounts+"-")
		c.gone(patient)
	}}
}

// strayDelete has a delete pod beside a bound volume, as a dispatcher might order it that had stalled.
func strayDelete(s *scope) situation {
	class := s.inForce("silver", setting{})
	c := class.claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	no, yes, user := false, true, int64(65532)
	_, err := shared.admin.CoreV1().Pods(contract.ProvisionersNamespace).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.Name(contract.Delete, string(c.UID), 0),
			Labels:      map[string]string{contract.LabelOperation: string(contract.Delete), contract.LabelClaimUID: string(c.UID)},
			Annotations: map[string]string{contract.AnnClass: class.name, contract.AnnClaim: s.name + "/" + c.Name}},
		// It has a node from the start: one that the dispatcher stops before has removed nothing.
		Spec: corev1.PodSpec{NodeName: "node1", RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, ServiceAccountName: class.id,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: podspec.ContainerName, Image: shellImage, Command: []string{"sleep", "600"},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.told(patient, c.volume().UID, "StorageMayBeGone", "*")
	return of(c)
}

func leftBehind(s *scope) situation {
	c := s.inForce("silver", setting{}).claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	uid := c.volume().UID
	s.forget(c.volumeName())
	s.told(patient, uid, "StorageLeftBehind", "*")
	c.delete()
	s.wait(patient, "claim gone", c.present)
	if !exists(c.directory()) {
		s.Error("its storage is gone")
	}
	return situation{name: c.volumeName(), after: func() { s.ok(os.RemoveAll(c.directory())) }}
}

// releasedVolume makes a volume by hand whose claim is gone. It does not count as restored.
func (s *scope) releasedVolume(name, provisioner, class string, annotations map[string]string) *corev1.PersistentVolume {
	s.Helper()
	uid, ours := podspec.ClaimUIDOf(name)
	if !ours {
		uid = string(uuid.NewUUID())
	}
	annotations = with(annotations, contract.ProvisionedBy, provisioner)
	annotations = with(annotations, contract.AnnMadeBefore, "2100-01-01T00:00:00Z")
	volumes := shared.admin.CoreV1().PersistentVolumes()
	v, err := volumes.Create(s.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, Finalizers: []string{contract.VolumeFinalizer}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: s.name, Name: "data", UID: types.UID(uid)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: nfsServer, Path: exportDir + "/none"}},
		},
	}, metav1.CreateOptions{})
	s.ok(err)
	return v
}

// notOurs has a volume that names the provisioner, and that no provisioner pod can have made.
func notOurs(s *scope) situation {
	class := s.inForce("silver", setting{})
	v := s.releasedVolume(s.name+"-by-hand", contract.ProvisionerName, class.name, map[string]string{})
	s.told(patient, v.UID, "VolumeNotOurs", "*")
	return situation{name: v.Name, after: func() { s.forget(v.Name) }}
}

// Dispatchers of the test's own.

func ofOwn(namespace, name string) situation {
	return situation{name: name, options: []string{"--system-namespace", namespace, "--provisioner-name", ownProvisioner(namespace)}}
}

// policiesMissing has a dispatcher for whose provisioner name nobody has installed the policies.
func policiesMissing(s *scope) situation {
	namespace := s.installOwn("exit 1")
	s.startOwn(namespace)
	_, err := shared.admin.CoreV1().PersistentVolumeClaims(s.name).Create(s.Context(), newClaim(s.name, "data", namespace, "64Mi"), metav1.CreateOptions{})
	s.ok(err)
	return ofOwn(namespace, "data")
}

// deletionsStopped has an attempt that is to be undone, since a property changed, and may not be.
func deletionsStopped(s *scope) situation {
	const insecure = "--insecure-without-policies"
	namespace := s.installOwn("exit 1", insecure)
	configMaps := shared.admin.CoreV1().ConfigMaps(namespace)
	_, err := configMaps.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: contract.StopDeletes}, Data: map[string]string{"reason": "restoring a backup"}}, metav1.CreateOptions{})
	s.ok(err)
	s.startOwn(namespace, insecure)
	claim, err := shared.admin.CoreV1().PersistentVolumeClaims(s.name).Create(s.Context(), newClaim(s.name, "data", namespace, "64Mi"), metav1.CreateOptions{})
	s.ok(err)
	s.told(patient, claim.UID, "ProvisionerFailed", "*")
	_, err = configMaps.Patch(s.Context(), "config", types.MergePatchType, []byte(`{"data":{"zone":"east"}}`), metav1.PatchOptions{})
	s.ok(err)
	return ofOwn(namespace, "data")
}

// overLimit has three volumes of which the dispatcher thinks that they are a day old, where two may go within an hour.
func overLimit(s *scope) situation {
	namespace := s.installOwn("exit 1", "--insecure-without-policies")
	_, err := shared.admin.CoreV1().ConfigMaps(namespace).Patch(s.Context(), "config", types.MergePatchType, []byte(`{"data":{"delete-limit":"2"}}`), metav1.PatchOptions{})
	s.ok(err)
	for range 3 {
		s.releasedVolume(podspec.VolumeName(string(uuid.NewUUID())), ownProvisioner(namespace), namespace, map[string]string{})
	}
	s.startAhead(namespace, time.Hour)
	var held string
	s.wait(patient, "DeletionLimit", func() string {
		list := all(shared.volumes, func(v *corev1.PersistentVolume) bool {
			return v.Spec.StorageClassName == namespace && untold(v.UID, "DeletionLimit", "*") == ""
		})
		if len(list) == 0 {
			return "none"
		}
		held = list[0].Name
		return ""
	})
	return ofOwn(namespace, held)
}

// orphan has a volume that waits since yesterday, as the dispatcher thinks, because its record is not valid.
func orphan(s *scope) situation {
	namespace := s.installOwn("exit 1", "--insecure-without-policies")
	v := s.releasedVolume(podspec.VolumeName(string(uuid.NewUUID())), ownProvisioner(namespace), namespace, map[string]string{contract.AnnIdentity: `{"properties":{"server":"10.0.0.9"}}`})
	s.startAhead(namespace, 5*time.Second)
	s.told(patient, v.UID, "OrphanFound", "*")
	return ofOwn(namespace, v.Name)
}

// ConfigMaps: what is wrong with the claim's class.

func configOutdated(s *scope) situation {
	class := s.inForce("silver", setting{})
	c := class.claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	s.told(patient, class.edit(map[string]string{"timeout": "soon"}), "ConfigOutdated", "*")
	return of(c)
}

func configDuplicate(s *scope) situation {
	class := s.inForce("silver", setting{data: map[string]string{"timeout": "soon"}}) // a faulty one is not yet in force
	s.told(patient, class.edit(nil), "ConfigInvalid", "*")
	s.told(patient, class.makeConfigMap(class.id+"-second", class.data), "ConfigDuplicate", "*")
	return of(class.claim("data"))
}

func classNotFound(s *scope) situation {
	class := s.inForce("silver", setting{})
	class.removeStorageClass()
	s.told(patient, class.edit(nil), "ClassNotFound", "*")
	return of(class.claim("data"))
}

func classOfAnother(s *scope) situation {
	class := s.inForce("silver", setting{})
	class.removeStorageClass()
	_, err := shared.admin.StorageV1().StorageClasses().Create(s.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class.name}, Provisioner: "csi.example.com"}, metav1.CreateOptions{})
	s.ok(err)
	s.told(patient, class.edit(nil), "ClassOfOtherProvisioner", "*")
	c := class.claim("data")
	return of(c)
}

// configNotUsed has a class that has a ConfigMap, and uses that of the class gold.
func configNotUsed(s *scope) situation {
	gold := s.inForce("gold", setting{})
	silver := s.inForce("silver", setting{terms: storagev1.StorageClass{Parameters: map[string]string{contract.ParameterConfigFromClass: gold.name}}})
	s.ok(gold.patchAllowList(s.Context(), map[string]any{"storageClasses": gold.name + "," + silver.name}))
	s.told(patient, silver.edit(nil), "ConfigNotUsed", "*")
	c := silver.claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	return of(c)
}

func literalToken(s *scope) situation {
	class := s.inForce("silver", setting{data: map[string]string{"service-token": "23092390532lksf90kwelklfw"}})
	c := class.claim("data")
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	return of(c)
}
