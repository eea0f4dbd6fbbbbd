package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

// scenes are a state for each reason of docs/events.md. The claim waits before.
var scenes = map[podspec.Reason]func(w *world){
	events.ReasonSucceeded: func(w *world) {
		w.bound()
		w.tellClaim(false, events.ReasonSucceeded, "pod prov-"+uid+"-0 made volume pvc-"+uid)
	},
	podspec.ReasonFailed: func(w *world) {
		w.pod("prov-0 failed kept", 60)
		says(w.pod("prov-3 failed", 20), "the backend is at lunch")
		w.tellClaim(true, podspec.ReasonFailed, "the backend is at lunch (pod flex-provisioners/prov-"+uid+"-3)")
	},
	podspec.ReasonRefused:  func(w *world) { says(w.pod("prov-0 refused", 20), "pool west is full") },
	podspec.ReasonNotHere:  func(w *world) { says(w.pod("prov-0 nothere", 20), "this node has no disks") },
	podspec.ReasonTryAgain: func(w *world) { says(w.pod("prov-6 busy", 20), "a snapshot is being taken") },
	events.ReasonNoVolume:  func(w *world) { w.pod("prov-2 done", 20) },
	podspec.ReasonOutOfMemory: func(w *world) {
		w.pod("prov-0 killed", 20).Status.ContainerStatuses[0].State.Terminated.Reason = "OOMKilled"
	},
	podspec.ReasonDeadline: func(w *world) {
		pod, seconds := w.pod("prov-0 killed", 20), int64(600)
		pod.Spec.ActiveDeadlineSeconds, pod.Status.Reason = &seconds, "DeadlineExceeded"
	},
	podspec.ReasonEvicted:   func(w *world) { w.pod("prov-0 evicted", 20) },
	podspec.ReasonImagePull: func(w *world) { w.pod("prov-0 pulling", 20) },
	podspec.ReasonPodConfig: func(w *world) {
		pod := w.pod("prov-0 pending", 20)
		w.tell("Pod", pod.Name, pod.UID, true, "FailedMount", `MountVolume.SetUp failed for volume "secret-0": secret "pool" not found`)
	},
	podspec.ReasonMount: func(w *world) {
		pod := w.pod("prov-0 pending", 20)
		w.tell("Pod", pod.Name, pod.UID, true, "FailedMount", `MountVolume.SetUp failed for volume "exports" : mount failed: exit status 32
Mounting command: mount
Mounting arguments: -t nfs 10.0.0.1:/srv /var/lib/kubelet/pods/x
Output: mount.nfs: Connection refused
`)
		w.tell("Pod", pod.Name, pod.UID, true, "FailedMount", "Unable to attach or mount volumes: unmounted volumes=[exports]: timed out waiting for the condition")
	},
	events.ReasonRunsLong: func(w *world) {
		w.runsUntil(w.pod("prov-0 running", 32))
		w.tellClaim(false, events.ReasonRunsLong, "the pod still runs; it ends at 12:09:28Z at the latest (timeout 10m)")
	},
	podspec.ReasonStart: func(w *world) {
		w.pod("prov-0 pulling", 20).Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: "CreateContainerError", Message: "no such file: /provision"}
	},
	podspec.ReasonUnschedulable: func(w *world) { w.pod("prov-0 unschedulable", 20) },
	events.ReasonNodeLost:       func(w *world) { w.pod("prov-0 running lost", 300) },
	events.ReasonStartTimeout:   func(w *world) { w.pod("prov-0 pulling old", 0) },
	events.ReasonPodRefused: func(w *world) {
		w.waits(true, events.ReasonPodRefused, "create pod flex-provisioners/prov-"+uid+"-0: exceeded quota: pods")
	},
	events.ReasonExpanded: func(w *world) {
		w.bound()
		w.tellClaim(false, events.ReasonExpanded, "pod exp-"+uid+"-0 expanded volume pvc-"+uid+" to 1Gi")
	},
	events.ReasonExpansionRefused: func(w *world) {
		w.bound()
		w.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		w.claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute))}}
	},
	events.ReasonConcurrency: func(w *world) {
		w.config.Data["max-concurrent"] = "1"
		w.waits(false, events.ReasonConcurrency,
			"waiting for other provisioner pods of StorageClass silver to end: 1 of at most 1 (max-concurrent) are running or starting")
	},
	events.ReasonCloneWaits: func(w *world) {
		w.class.Parameters = map[string]string{"smartclone": "true"}
		w.claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "original"}
	},
	events.ReasonClaimRefused: func(w *world) {
		w.config.Data["access-modes"] = "ReadWriteMany"
		w.claim.Spec.Selector = &metav1.LabelSelector{}
	},
	events.ReasonMountNotBound: func(w *world) { w.config.Data["mount-claims"] = "exports:/export" },
	events.ReasonConfigMissing: func(w *world) { w.config = nil },
	events.ReasonPoliciesMissing: func(w *world) {
		w.compared = true
		w.waits(true, events.ReasonPoliciesMissing,
			"ValidatingAdmissionPolicy flex-allow-list does not exist: apply the installation again")
	},
	events.ReasonVolumeMended: func(w *world) {
		w.bound()
		w.tellClaim(true, events.ReasonVolumeMended, "volume pvc-"+uid+" was mended, its provisioner made it so, or somebody changed it since: finalizer is missing")
	},
	events.ReasonVolumeMismatch: func(w *world) { w.volume("small"); w.pod("prov-0 running", 20) },
	events.ReasonVolumeGoing:    func(w *world) { deleted(w.bound()) },
	events.ReasonNotOurs: func(w *world) {
		v := w.volume("released")
		v.Name, v.Spec.ClaimRef.UID = "silver-1", "another"
	},
	events.ReasonUndo: func(w *world) {
		w.pod("prov-0 failed", 20)
		w.config.Data["zone"] = "east"
	},
	events.ReasonStrayDelete: func(w *world) {
		w.bound()
		w.tellVolume(true, events.ReasonStrayDelete, "pod del-"+uid+"-0 was ordered to remove what is left of an earlier attempt, and volume pvc-"+uid+" was created beside it: check the volume's data")
	},
	events.ReasonUndone: func(w *world) {
		w.tellClaim(false, events.ReasonUndone, "what earlier attempts had made was removed")
	},
	events.ReasonStopped: func(w *world) {
		w.claim = nil
		w.volume("released")
		w.more = append(w.more, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: contract.StopDeletes}, Data: map[string]string{"reason": "restoring a backup"}})
	},
	events.ReasonHeld: func(w *world) { w.claim = nil; w.volume("released restored") },
	events.ReasonCopied: func(w *world) {
		w.claim = nil
		w.volume("released")
		copying := w.pod("prov-0 running", 20)
		copying.Name = "prov-99999999-2222-4333-8444-555555555555-0"
		copying.Annotations[contract.AnnClaim] = "team-a/copy"
		copying.Annotations[contract.AnnRequest] = `{"operation":"provision","source":{"namespace":"team-a","name":"data","volumeName":"pvc-` + uid + `"}}`
	},
	events.ReasonLimit: func(w *world) {
		w.claim = nil
		w.volume("released old")
		w.tellVolume(true, events.ReasonLimit, "storage waits to be removed: more than 20 volumes of class silver that are older than a day would be removed within an hour")
	},
	events.ReasonRecord: func(w *world) { w.claim = nil; w.volume("released forged") },
	events.ReasonStorageMoved: func(w *world) {
		w.claim = nil
		w.volume("released placed")
	},
	events.ReasonLeft: func(w *world) {
		w.claim = nil
		w.tellVolume(true, events.ReasonLeft, "volume pvc-"+uid+" was removed before its storage")
	},
	events.ReasonGivenUp: func(w *world) {
		w.claim = nil
		w.tellVolume(true, events.ReasonGivenUp, "the volume is deleted without its storage, local:/disks/pvc-"+uid+"@node1: no Node with kubernetes.io/hostname In (node1) has "+
			"existed since 2026-11-14T12:00:00Z (give-up-after); if its disk comes back, remove the storage by hand")
	},
	events.ReasonAttachWaits: func(w *world) {
		w.bound()
		w.attachment("node node1: its CSINode has no driver dispatcher.flex-provisioner.io: see that flex-node runs there")
	},
	events.ReasonAttachRefused: func(w *world) {
		w.bound()
		const refused = "node node1: class silver attaches no volumes: its ConfigMap silver has neither the scripts \"attach\" and " +
			"\"detach\" nor attachments: \"true\""
		w.attachment(refused)
		w.tellVolume(true, events.ReasonAttachRefused, refused)
	},
	events.ReasonStillAttached: func(w *world) {
		w.claim = nil
		w.volume("released")
		w.attachment("")
	},
	events.ReasonOrphan: func(w *world) {
		w.bound()
		w.tellVolume(true, events.ReasonOrphan, "the volume lacks its finalizer: kubectl patch pv pvc-"+uid)
	},
	events.ReasonConfigInvalid: func(w *world) { w.config.Data["timeout"] = "soon" },
	events.ReasonConfigOutdated: func(w *world) {
		good, faults := configmaps.Parse(w.config)
		if len(faults) > 0 {
			w.t.Fatal(faults)
		}
		revision, err := configmaps.NewRevision(w.config, good, 1)
		if err != nil {
			w.t.Fatal(err)
		}
		w.more = append(w.more, revision)
		w.config.ResourceVersion = "2"
		w.config.Data["timeout"] = "soon"
	},
	events.ReasonConfigDuplicate: func(w *world) {
		second := w.config.DeepCopy()
		second.Name, second.UID = "silver-old", "second"
		w.more = append(w.more, second)
	},
	events.ReasonClassNotFound: func(w *world) { w.class = nil },
	events.ReasonClassMismatch: func(w *world) { w.class.Provisioner = "csi.example.com" },
	events.ReasonConfigUnused: func(w *world) {
		w.class.Parameters = map[string]string{contract.ParameterConfigFromClass: "gold"}
	},
	events.ReasonLiteralToken: func(w *world) { w.config.Data["service-token"] = "secret" },
	events.ReasonLog: func(w *world) {
		w.pod("prov-1 failed", 20)
		w.tell("ConfigMap", "silver", "config", true, events.ReasonLog, "pod prov-"+uid+"-0 for claim team-a/data: cannot reach 10.0.0.1")
	},
}

// TestReasons: what why and status say in a state of each reason.
func TestReasons(t *testing.T) {
	for _, reason := range events.Reasons() {
		t.Run(string(reason), func(t *testing.T) {
			w := newWorld(t)
			name := "pvc-" + uid
			snapshot := snapshotScenes(w, reason)
			scene := scenes[reason]
			switch {
			case snapshot != "":
			case scene == nil:
				t.Fatalf("no scene has reason %s: write one", reason)
			default:
				scene(w)
			}
			switch {
			case snapshot != "":
				name = snapshot
			case reason == events.ReasonNotOurs:
				name = "silver-1"
			case w.claim != nil:
				name = "data"
			}
			why, code := w.run("", "why", name)
			status, _ := w.run("", "status", "-A")
			text := fmt.Sprintf("$ kubectl flex why %s\n%s$ echo $?\n%d\n$ kubectl flex status -A\n%s", name, why, code, status)
			golden.Compare(t, "testdata/reasons.txtar", string(reason), text)
			if !strings.Contains(why, string(reason)) {
				t.Errorf("%s is not told", reason)
			}
		})
	}
}

// TestStates: states that no reason of the dispatcher tells.
func TestStates(t *testing.T) {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	for name, scene := range map[string]func(w *world){
		"waits-for-consumer": func(w *world) { w.class.VolumeBindingMode = &wait; w.claim.Annotations = nil },
		"not-handed-over":    func(w *world) { w.claim.Annotations = nil },
		"not-handed-over-yet": func(w *world) {
			w.claim.Annotations, w.claim.CreationTimestamp = nil, metav1.NewTime(noon.Add(-29*time.Second))
		},
		"not-handed-over-since-the-class": func(w *world) {
			w.claim.Annotations, w.class.CreationTimestamp = nil, metav1.NewTime(noon.Add(-30*time.Second))
		},
		"tenant-not-handed-over": func(w *world) { w.claim.Annotations, w.tenant = nil, true },
		"asks-for-an-absent-volume": func(w *world) {
			w.claim.Annotations, w.claim.Spec.VolumeName = nil, "nosuch"
		},
		"tenant-asks-for-a-volume": func(w *world) {
			w.claim.Annotations, w.claim.Spec.VolumeName, w.tenant = nil, "nosuch", true
		},
		"no-class":          func(w *world) { w.class, w.claim.Annotations = nil, nil },
		"of-nobody":         func(w *world) { w.class, w.claim.Annotations, w.config = nil, nil, nil },
		"running":           func(w *world) { w.pod("prov-0 running", 20) },
		"new":               func(*world) {},
		"starting":          func(w *world) { w.pod("prov-0 pending", 5) },
		"running-until":     func(w *world) { w.runsUntil(w.pod("prov-0 running", 32)) },
		"running-after-one": func(w *world) { says(w.pod("prov-0 failed kept", 60), "no quota"); w.pod("prov-1 running", 20) },
		"running-after-three": func(w *world) {
			says(w.pod("prov-0 failed kept", 60), "no quota")
			w.waits(true, podspec.ReasonFailed, "the quota of 3 volumes is used (pod flex-provisioners/prov-"+uid+"-2)")
			w.runsUntil(w.pod("prov-3 running", 0))
		},
		"starting-after-three": func(w *world) {
			w.waits(true, podspec.ReasonFailed, "the quota of 3 volumes is used (pod flex-provisioners/prov-"+uid+"-2)")
			w.pod("prov-3 pending", 0)
		},
		"running-after-nobody-knows": func(w *world) { w.pod("prov-3 running", 20) },
		"delete-running-after-three": func(w *world) {
			w.claim = nil
			w.volume("released")
			w.tellVolume(true, podspec.ReasonTryAgain, "/export/.silver is not there: the storage is not mounted at /export, or somebody removed the file (pod flex-provisioners/del-"+uid+"-2)")
			w.pod("del-3 running", 0)
		},
		"starting-after-two-of-which-one-is-known": func(w *world) {
			w.pod("prov-0 failed kept", 60)
			w.pod("prov-2 pending", 0)
		},
		"deleted-while-it-ran":     func(w *world) { w.pod("prov-0 killed deleting", 20); w.pod("prov-1 running", 0) },
		"claim-gone-while-it-runs": func(w *world) { w.claim = nil; w.runsUntil(w.pod("prov-0 running", 20)) },
		"node-not-ready": func(w *world) {
			w.pod("prov-0 running", 20).Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		},
		"no-scheduler": func(w *world) {
			pod := w.pod("prov-0 pending", 20)
			pod.Spec.NodeName, pod.Status.ContainerStatuses = "", nil
		},
		"no-node-allowed":   func(w *world) { zoned(w) },
		"nodes-not-read":    func(w *world) { zoned(w); w.forbid("nodes") },
		"a-node-is-allowed": func(w *world) { zoned(w).Labels["zone"] = "west" },
		"refused-export": func(w *world) {
			says(w.pod("prov-0 failed", 20), "create persistentvolume pvc-"+uid+": forbidden: ValidatingAdmissionPolicy 'p' denied request: spec.nfs is "+
				"10.0.0.9:/x, which is not below silver.nfsExports (10.0.0.1:/srv) of ConfigMap flex-system/flex-pv-policy")
		},
		"refused-name": func(w *world) {
			says(w.pod("prov-0 failed", 20), "forbidden: ValidatingAdmissionPolicy 'p' denied request: this pod may create only PersistentVolume pvc-"+uid)
		},
		"refused-type": func(w *world) {
			says(w.pod("prov-0 failed", 20), "forbidden: ValidatingAdmissionPolicy 'p' denied request: volume source local is not in "+
				"silver.volumeTypes of ConfigMap flex-system/flex-pv-policy")
		},
		"refused-privilege-by-a-container": func(w *world) {
			says(w.pod("prov-0 failed", 20), " denied request: root is not in silver.privileges of ConfigMap flex-system/flex-pv-policy")
		},
		"may-not-create-volumes": func(w *world) {
			w.unbound = true
			says(w.pod("prov-0 failed", 20), `persistentvolumes is forbidden: User "system:serviceaccount:flex-provisioners:silver" cannot `+
				`create resource "persistentvolumes" in API group "" at the cluster scope`)
		},
		"misfit-that-is-bound": func(w *world) { w.bound().Spec.StorageClassName = "gold" },
		"misfit-removed": func(w *world) {
			w.pod("prov-0 done kept", 60)
			w.pod("del-0 done misfit kept", 50)
			w.waits(true, events.ReasonVolumeMismatch, "volume pvc-"+uid+" does not fit the claim: spec.accessModes lacks "+
				"ReadWriteOnce (pod flex-provisioners/prov-"+uid+"-0)")
		},
		"misfit-removed-next-runs": func(w *world) {
			w.pod("prov-0 done kept", 60)
			w.pod("del-0 done misfit kept", 50)
			w.waits(true, events.ReasonVolumeMismatch, "volume pvc-"+uid+" does not fit the claim: spec.accessModes lacks "+
				"ReadWriteOnce (pod flex-provisioners/prov-"+uid+"-0)")
			w.pod("prov-2 running", 0)
		},
		"forged-failure": func(w *world) {
			w.tellClaim(true, podspec.ReasonFailed, "give me root (pod flex-provisioners/prov-"+uid+"-2)")
			w.pod("prov-3 running", 0)
		},
		"queue":               queue,
		"queue-after-failure": func(w *world) { queue(w); says(w.pod("prov-0 failed retry", 60), "no quota") },
		"no-dispatcher":       func(w *world) { w.renewed(noon.Add(-time.Hour)) },
		"lost-at-once":        func(w *world) { w.bound(); w.more = nil },
		"mislabelled":         func(w *world) { w.config.Labels["type"] = "provisioner-confg" },
		"mislabelled-class":   func(w *world) { w.config.Name, w.config.Labels["storage-class"] = "try", "sliver" },
		"misnamed-plugin":     func(w *world) { w.config.Data["plugin-name"] = "flex-provisioner.io/dispatch" },
		"grant-removed":       func(w *world) { delete(w.allowed.Data, "silver.volumeTypes"); w.pod("prov-0 running", 20) },
		"misspelled-class": func(w *world) {
			w.claim.Annotations, w.claim.Spec.StorageClassName = nil, new("slver")
		},
		"kubelet-grows": func(w *world) {
			v := w.bound()
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/srv"}}
			v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
			w.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
			w.claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
				corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
		},
		"rescheduled": func(w *world) {
			w.class.VolumeBindingMode = &wait
			w.waits(true, podspec.ReasonUnschedulable, "no node takes the pod: 0/3 nodes are available: 1 Insufficient cpu (pod flex-provisioners/prov-"+uid+"-0)")
		},
		"node-refuses": func(w *world) {
			w.class.VolumeBindingMode = &wait
			w.claim.Annotations["volume.kubernetes.io/selected-node"] = "node1"
			for _, words := range []string{"prov-0 nothere", "prov-5 nothere"} {
				pod := w.pod(words, 20)
				says(pod, "no room on node1")
				pod.Annotations[contract.AnnSettled] = "true"
			}
		},
		"node-gone": func(w *world) {
			w.claim = nil
			w.volume("released")
			on := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node3"}}
			w.pod("del-0 unschedulable", 20).Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{on}}}}}}
		},
		"in-use": func(w *world) {
			w.bound()
			w.claim.DeletionTimestamp, w.claim.Finalizers = &metav1.Time{Time: noon.Add(-time.Hour)}, []string{"kubernetes.io/pvc-protection"}
			for name, phase := range map[string]corev1.PodPhase{"web": corev1.PodRunning, "done": corev1.PodSucceeded} {
				w.more = append(w.more, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: name}, Status: corev1.PodStatus{Phase: phase},
					Spec: corev1.PodSpec{NodeName: "node1", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}})
			}
		},
		"delete-failed": func(w *world) {
			w.claim = nil
			w.volume("released")
			says(w.pod("del-5 failed", 20), "the export is mounted elsewhere")
		},
		"expanding": func(w *world) {
			w.bound()
			w.config.Data["expandable"] = "true"
			w.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
			w.pod("exp-0 running", 20)
		},
		"undo-of-a-gone-claim": func(w *world) {
			gone := w.claim
			w.claim = nil
			w.pod("prov-2 failed", 60)
			says(w.pod("del-5 failed undo", 20), "the export is mounted elsewhere")
			again := gone.DeepCopy() // a claim of that name that has another UID
			again.UID = "99999999-2222-4333-8444-555555555555"
			w.more = append(w.more, again)
		},
		"retained":   func(w *world) { w.claim = nil; w.volume("released retain") },
		"of-another": func(w *world) { w.class.Provisioner, w.claim.Annotations = "csi.example.com", nil },
		"bound-by-hand": func(w *world) {
			w.claim.Spec.VolumeName, w.claim.Status.Phase = "by-hand", corev1.ClaimBound
			v := w.volume("bound bare")
			v.Name = "by-hand"
		},
		"restored": func(w *world) { w.handedOver("bound restored") },
		"handed-over-expanding": func(w *world) {
			w.handedOver("bound")
			w.config.Data["expandable"] = "true"
			w.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
			w.pod("exp-0 running", 20)
		},
		"handed-over-refused": func(w *world) {
			w.handedOver("bound")
			w.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		},
		"handed-over-released": func(w *world) {
			w.handedOver("released")
			w.claim = nil
			says(w.pod("del-5 failed", 20), "the export is mounted elsewhere")
		},
		"given-away": func(w *world) {
			to := w.claim.DeepCopy()
			w.handedOver("bound")
			w.claim.Name = "filled"
			w.more[0].(*corev1.PersistentVolume).Spec.ClaimRef.Name = "filled"
			w.more = append(w.more, w.claim)
			to.Spec.VolumeName, to.Status.Phase = "pvc-"+uid, corev1.ClaimLost
			w.claim = to
		},
		"lost-record": func(w *world) { w.bound().Annotations = nil },
		"lost-record-in-part": func(w *world) {
			v := w.bound()
			v.Annotations = map[string]string{contract.AnnIdentity: "{}", contract.AnnRecord: strings.Repeat("0a", 32)}
		},
		"lost-record-retained-expanding": func(w *world) {
			w.bound()
			v := w.more[0].(*corev1.PersistentVolume)
			v.Annotations, v.Spec.PersistentVolumeReclaimPolicy = nil, corev1.PersistentVolumeReclaimRetain
			w.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		},
		"lost-record-failed": func(w *world) {
			w.claim = nil
			v := w.volume("released bare")
			v.Status.Phase, v.Status.Message = corev1.VolumeFailed, "error getting deleter volume plugin for volume \"pvc-"+uid+"\": no deletable volume plugin matched"
		},
		"failed": func(w *world) {
			w.claim = nil
			v := w.volume("released retain")
			v.Status.Phase, v.Status.Message = corev1.VolumeFailed, "error getting deleter volume plugin for volume \"pvc-"+uid+"\": no deletable volume plugin matched"
		},
		"lost": func(w *world) {
			w.claim.Spec.VolumeName, w.claim.Status.Phase = "pvc-"+uid, corev1.ClaimLost
		},
		"tenant-lost": func(w *world) {
			w.tenant = true
			w.claim.UID, w.claim.Spec.VolumeName, w.claim.Status.Phase = another, "pvc-"+uid, corev1.ClaimLost
		},
		"tenant-handed-over": func(w *world) { w.handedOver("bound"); w.tenant = true },
		"tenant-bound":       func(w *world) { w.bound(); w.tenant = true },
		"tenant-waits":       func(w *world) { w.tenant = true },
		"tenant-failed": func(w *world) {
			w.tenant = true
			w.tellClaim(true, podspec.ReasonFailed, "the backend is at lunch (pod flex-provisioners/prov-"+uid+"-3)")
		},
		"tenant-of-another": func(w *world) {
			w.tenant = true
			w.claim.Annotations["volume.kubernetes.io/storage-provisioner"] = "csi.example.com"
		},
		"forged-event": func(w *world) {
			w.tellClaim(true, events.ReasonPodRefused, "of another tenant")
			w.more[len(w.more)-1].(*corev1.Event).Namespace = "team-b"
		},
		"forged-refusal": func(w *world) {
			w.tellClaim(true, events.ReasonPodRefused,
				"create pod flex-provisioners/prov-"+uid+"-0: not granted: add privileged to silver.privileges")
		},
		"forged-log": func(w *world) {
			w.tell("ConfigMap", "silver", "config", true, events.ReasonPodRefused,
				"pod prov-"+uid+"-0: not granted: add privileged to silver.privileges")
		},
		"forged-orphan": func(w *world) {
			w.tellClaim(true, events.ReasonOrphan, "the volume lacks its finalizer: kubectl delete namespace flex-system")
		},
		"forged-policies": func(w *world) {
			w.tellClaim(true, events.ReasonPoliciesMissing, "ValidatingAdmissionPolicy flex-allow-list does not exist: apply it from team-a")
		},
		"tenant-hostile-reason": func(w *world) {
			w.tenant = true
			w.tellClaim(true, "\x1b[31mRed", "of a tenant")
		},
		"hostile": func(w *world) {
			says(w.pod("prov-0 failed", 20), "\x1b[2J\x1b]0;owned\x07\u202egood news\n2026-11-21 12:00:00Z  Kubernetes has bound it"+strings.Repeat(" long", 2000))
			w.tell("PersistentVolumeClaim", "data", uid, true, "Evil\nReason", "first\nsecond \x1b[31mred")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			scene(w)
			subject := "data"
			if w.claim == nil {
				subject = "pvc-" + uid
			}
			if name == "undo-of-a-gone-claim" {
				subject = "del-" + uid + "-5"
			}
			why, whyCode := w.run("", "why", subject)
			status, code := w.run("", "status", subject, "-o", "wide")
			whole, _ := w.run("", "status")
			text := fmt.Sprintf("$ kubectl flex why %s\n%s$ echo $?\n%d\n$ kubectl flex status %s -o wide\n%s$ echo $?\n%d\n$ kubectl flex status\n%s",
				subject, why, whyCode, subject, status, code, whole)
			golden.Compare(t, "testdata/states.txtar", name, text)
			if all, _ := w.run("", "status", "-A"); strings.Contains(all, "of another tenant") {
				t.Errorf("an event of another namespace is believed:\n%s", all)
			}
			if strings.ContainsAny(text, "\x1b\x07\u202e") {
				t.Error("what a terminal obeys was printed")
			}
		})
	}
}

// TestReasonsStay: with all events gone, and for who may read nothing but claims, why says by the claim's status what keeps the claim
// waiting. What a later attempt was made of says nothing any more.
func TestReasonsStay(t *testing.T) {
	const quota = "create pod flex-provisioners/prov-" + uid + "-0: exceeded quota: pods"
	told := func(w *world, reason podspec.Reason, message string, ago time.Duration) {
		w.claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: contract.ConditionWaiting, Status: corev1.ConditionTrue, Reason: string(reason), Message: message,
			LastProbeTime: metav1.NewTime(noon.Add(-ago)), LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
	}
	for _, c := range []struct {
		name  string
		scene func(w *world)
		want  []string
	}{
		{"only the dispatcher knows", func(w *world) { told(w, events.ReasonPodRefused, quota, time.Minute) }, []string{"ProvisionerPodRefused", quota}},
		{"waits for others", func(w *world) { told(w, events.ReasonConcurrency, "waiting for others", time.Minute) }, []string{"ConcurrencyLimitReached", "waiting for others"}},
		{"a tenant", func(w *world) {
			w.tenant = true
			told(w, events.ReasonConfigMissing, "no ConfigMap", time.Minute)
		}, []string{"ProvisionerConfigMissing", "no ConfigMap"}},
		{"an attempt was made since", func(w *world) {
			told(w, events.ReasonPodRefused, quota, time.Minute)
			w.pod("prov-0 running", 20)
		}, []string{"PodWorks"}},
	} {
		w := newWorld(t)
		c.scene(w)
		why, _ := w.run("", "why", "data")
		for _, want := range c.want {
			if !strings.Contains(why, want) {
				t.Errorf("%s: it does not say %s:\n%s", c.name, want, why)
			}
		}
	}
}

// TestNodeNotReady: a kubelet whose runtime is away says so on its node alone.
func TestNodeNotReady(t *testing.T) {
	const want = "ProvisionerNodeLost: node node1 is not ready (container runtime is down), and does not say whether the pod still runs"
	w := newWorld(t)
	w.pod("prov-0 running", 20)
	w.more = append(w.more, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "container runtime is down"}}}})
	if why, _ := w.run("", "why", "data"); !strings.Contains(why, want) {
		t.Errorf("it does not say %s:\n%s", want, why)
	}
}

// TestOldConfig: a pod that runs keeps the ConfigMap that it was made with. Whoever corrects that is told how to end the pod.
func TestOldConfig(t *testing.T) {
	const want = "; it has the ConfigMap as it was before its last change, to end it: kubectl -n flex-provisioners delete pod prov-" + uid + "-0"
	for _, changed := range []bool{false, true} {
		w := newWorld(t)
		w.pod("prov-0 running", 20)
		if changed {
			w.config.Data["zone"] = "east"
		}
		if why, _ := w.run("", "why", "data"); strings.Contains(why, want) != changed {
			t.Errorf("the ConfigMap changed: %t, and it says:\n%s", changed, why)
		}
	}
}

// TestConsumer: why says what keeps the pod that uses a claim from a node.
func TestConsumer(t *testing.T) {
	scheduled := func(status corev1.ConditionStatus, message string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: status, Message: message}}
	}
	named := corev1.Volume{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}
	for want, pod := range map[string]corev1.Pod{
		"no pod that uses the claim has a node yet\n": { // that of an earlier claim of the name has ended
			Spec: corev1.PodSpec{Volumes: []corev1.Volume{named}, NodeName: "node1"}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}},
		"pod web uses the claim, and no node takes the pod: 0/3 nodes are available": {Spec: corev1.PodSpec{Volumes: []corev1.Volume{named}},
			Status: corev1.PodStatus{Conditions: scheduled(corev1.ConditionFalse, "0/3 nodes are available")}},
		"pod web uses the claim, and has scheduling gates: example.com/quota": {Spec: corev1.PodSpec{Volumes: []corev1.Volume{named},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/quota"}}}},
		"pod web uses the claim, and the scheduler has said nothing of it for 1m0s": {Spec: corev1.PodSpec{Volumes: []corev1.Volume{named}}},
		"pod web uses the claim, and has its node node1 by spec.nodeName, so that the scheduler never chooses one for the claim": {
			Spec:   corev1.PodSpec{Volumes: []corev1.Volume{named}, NodeName: "node1"},
			Status: corev1.PodStatus{Conditions: scheduled(corev1.ConditionTrue, "")}},
		"pod web uses the claim, and the scheduler has not chosen a node for the claim yet": {Spec: corev1.PodSpec{Volumes: []corev1.Volume{named}},
			Status: corev1.PodStatus{Conditions: scheduled(corev1.ConditionTrue, "")}},
	} {
		w := newWorld(t)
		w.class.VolumeBindingMode, w.claim.Annotations = new(storagev1.VolumeBindingWaitForFirstConsumer), nil
		pod.ObjectMeta = metav1.ObjectMeta{Namespace: "team-a", Name: "web", CreationTimestamp: metav1.NewTime(noon.Add(-time.Minute))}
		w.more = append(w.more, &pod)
		if why, _ := w.run("", "why", "data"); !strings.Contains(why, "Cause: WaitForFirstConsumer: "+want) {
			t.Errorf("it does not say %s:\n%s", want, why)
		}
	}
}

// deleted is a volume that somebody deleted, which its finalizers keep.
func deleted(v *corev1.PersistentVolume) {
	v.Finalizers = append(v.Finalizers, "kubernetes.io/pv-protection")
	v.DeletionTimestamp = &metav1.Time{Time: noon.Add(-time.Minute)}
}

// zoned is a node, which has no label that the class asks for.
func zoned(w *world) *corev1.Node {
	w.class.VolumeBindingMode, w.claim.Annotations = new(storagev1.VolumeBindingWaitForFirstConsumer), nil
	w.class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
		{Key: "zone", Values: []string{"west", "east"}}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"zone": "north"}}}
	w.more = append(w.more, node)

	return node
}

// queue is a class that is full, and two older claims that wait.
func queue(w *world) {
	w.config.Data["max-concurrent"] = "1"
	busy := w.pod("prov-0 running", 60)
	busy.Name = "prov-" + another + "-0"
	for i := range 2 {
		older := w.claim.DeepCopy()
		older.Name, older.UID = fmt.Sprint("older-", i), types.UID(fmt.Sprint("88888888-2222-4333-8444-55555555555", i))
		older.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
		w.more = append(w.more, older)
	}
}

// runsUntil gives a pod its start and the deadline of ten minutes.
func (w *world) runsUntil(pod *corev1.Pod) {
	seconds := int64(600)
	pod.Spec.ActiveDeadlineSeconds, pod.Status.StartTime = &seconds, &pod.CreationTimestamp
}
