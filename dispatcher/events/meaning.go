package events

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Meaning explains a reason, in Markdown as docs/events.md has it.
type Meaning struct {
	// Warning is the type of its events, else Normal.
	Warning bool
	// On are the objects of its events: "claim, volume or pod".
	On string
	// Means is what happened, and what follows by itself.
	Means string
	// Do is what a person does about it.
	Do string
}

// MeaningOf returns the meaning of a reason of the dispatcher's events. ok is false for other reasons.
func MeaningOf(reason podspec.Reason) (m Meaning, ok bool) {
	m, ok = meanings[reason]
	return m, ok
}

var link = regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`)

// Plain returns the Markdown of a meaning as plain text, for a terminal. Links become the names of the documents.
func Plain(markdown string) string {
	return strings.ReplaceAll(link.ReplaceAllStringFunc(markdown, func(l string) string {
		target := link.FindStringSubmatch(l)[2]
		return "docs/" + target
	}), "`", "")
}

// meanings has every reason. docs/events.md is compared with it.
var meanings = map[podspec.Reason]Meaning{
	ReasonSucceeded: {On: "claim",
		Means: "A pod created the volume, and the volume fits the claim. While other claims of the class wait, " +
			"only claims that had a Warning get this event, because each event is one more write. The claim's status " +
			"shows that the claim is bound.",
		Do: "nothing."},
	podspec.ReasonFailed: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The container exited with an error code for which there is no other event. The message comes " +
			"from the container. If the container left none, the message explains the exit code. On a volume or a " +
			"pod, it then also has the last lines of the log. On a claim, it names the ConfigMap with these lines in " +
			"its events (`ProvisionerLog`). The operation is retried with growing delays.",
		Do: "read the message, and correct the storage or the provisioner."},
	podspec.ReasonRefused: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "Exit code 64: the request can never succeed, and nothing was made. The operation is retried " +
			"after 5 minutes, or when the ConfigMap changes.",
		Do: "change what the message names."},
	podspec.ReasonNotHere: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "Exit code 69: the provisioner cannot run on this node, and nothing was made. If the scheduler " +
			"selected the claim's node, it is asked for another one. It does not know why, and may select the same " +
			"node again. The operation is retried with growing delays.",
		Do: "nothing, or set `node-selector` to the nodes that have what the provisioner needs. If the scheduler " +
			"selects the node again, keep the pod that uses the claim off the node, or use a " +
			"provisioner name for which the scheduler heeds refusals " +
			"([operations.md](operations.md#nodes-that-refuse-a-class))."},
	podspec.ReasonTryAgain: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "Exit code 75: the storage is busy, or cannot be reached, and needs another attempt. The operation " +
			"is retried after 15 s at most.",
		Do: "read the message. If the retries do not end, make the storage reachable."},
	ReasonNoVolume: {Warning: true, On: "claim",
		Means: "Exit code 0, but there is no volume: the provisioner breaks the contract. The operation is " +
			"retried with growing delays, because storage may exist.",
		Do: "correct the provisioner ([writing-a-provisioner.md](writing-a-provisioner.md))."},
	podspec.ReasonOutOfMemory: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The container was OOMKilled.",
		Do:    "raise the memory limit in the ConfigMap's key `resources`."},
	podspec.ReasonDeadline: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The pod ran longer than the ConfigMap's key `timeout`.",
		Do:    "find out from the pod's log what it waited for, or raise `timeout`."},
	podspec.ReasonEvicted: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The pod was ended from outside: by somebody who deleted it, an eviction, a drain, preemption, a " +
			"shutdown or a lost node. The operation is retried with growing delays.",
		Do: "nothing, unless it is repeated: then give the pod what the message names, such as more ephemeral " +
			"storage in `resources`."},
	podspec.ReasonImagePull: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The image cannot be pulled. The message has the cause.",
		Do:    "correct `image`, `image-pull-secrets` or the registry."},
	podspec.ReasonPodConfig: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "Something that the pod mounts is missing, most often a Secret or a claim that the ConfigMap names.",
		Do:    "create the missing object in the namespace `flex-provisioners`, or correct the ConfigMap."},
	podspec.ReasonMount: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The pod's node cannot mount what the ConfigMap's keys `mount-claims`, `devices` or `host-path` name. " +
			"The message is the kubelet's. The kubelet goes on trying.",
		Do: "make the storage that the message names reachable from the node: the server, its export, the directory."},
	podspec.ReasonStart: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The container cannot be started: the program is missing or not executable, or a security setting " +
			"prevents it.",
		Do: "correct the image, or `run-as-user`."},
	podspec.ReasonUnschedulable: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The pod is unschedulable. The message comes from the scheduler, or says that the scheduler has been " +
			"silent for 10 s. It names the taints of a node that alone can take the pod. If the scheduler selected " +
			"the claim's node and the pod does not run for 30 s, the scheduler selects a node again.",
		Do: "correct `node-selector`, `tolerations`, `resources`, or the nodes. If the pod that uses the claim fills " +
			"its node, leave room there for the provisioner's pod. To remove storage from a node that lacks disk or " +
			"memory, set `delete-under-pressure`. If storage is on a node that never comes back, give it up " +
			"([operations.md](operations.md#when-something-is-stuck))."},
	ReasonNodeLost: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The pod's node does not say whether the pod starts, runs, or after somebody deleted it has ended: " +
			"the node is not ready, or its kubelet does not work. The pod may still run. So no other pod is created " +
			"for the claim or volume, and the pod counts towards `max-concurrent`.",
		Do: "bring the node back, or delete the Node if it never comes back."},
	ReasonGivenUp: {Warning: true, On: "volume",
		Means: "The node with the volume's storage has been gone for the time in the ConfigMap's key " +
			"`give-up-after`. So the dispatcher deleted the volume, and no pod removed its storage. The message says " +
			"what was given up, and where.",
		Do: "nothing, or remove the storage by hand if the node's disks come back."},
	ReasonRunsLong: {On: "claim, volume, snapshot, content or pod",
		Means: "The container has run for 30 s. The message has the time at which the pod ends at the latest, by " +
			"the ConfigMap's key `timeout`.",
		Do: "nothing, or find out from the pod's log what it waits for."},
	ReasonStartTimeout: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The pod did not start within the time in the ConfigMap's key `start-timeout`, and was deleted. " +
			"Another pod is created.",
		Do: "correct what the message names."},
	ReasonPodRefused: {Warning: true, On: "claim, volume, pod or ConfigMap",
		Means: "The API server refused the pod, because of a ServiceAccount that does not exist, a quota, a " +
			"LimitRange, Pod Security, a policy or a namespace that is being deleted. Or the request is too large " +
			"for a pod. If the ConfigMap asks for a privilege that its ServiceAccount is not granted, the message " +
			"names the privilege and the line that grants it. An event on the ConfigMap reports the same. If the " +
			"API server does not answer, or answers with a temporary error, the event is recorded only after 10 s " +
			"of this.",
		Do: "follow the message: create what it misses, raise the quota or the limit, or let the ConfigMap ask for " +
			"less. If it names a line, a cluster administrator adds the line to `flex-pv-policy`."},
	ReasonExpanded: {On: "claim",
		Means: "A pod expanded the storage, and the volume has the new size. If the node has to do the last step " +
			"(`local`, `csi`), the claim's status is `NodeResizePending` until a pod uses the claim.",
		Do: "nothing, or start a pod that uses the claim."},
	ReasonExpansionRefused: {Warning: true, On: "claim",
		Means: "The class cannot expand, the size is outside its `claim-sizes`, the volume is a device with a " +
			"file system that Kubernetes does not expand (`iscsi`, `fc`), or no provisioner pod created the volume. " +
			"No pod is created, and the storage stays as it is. When the ConfigMap is corrected, the expansion is " +
			"retried at once.",
		Do: "follow the message. An administrator who expanded the storage and the file system by hand writes " +
			"the size into the volume's `spec.capacity`. Then the dispatcher updates the claim."},
	ReasonConcurrency: {On: "claim, volume, snapshot, content or pod",
		Means: "The class has as many pods that run or start as the ConfigMap's key `max-concurrent` allows. So " +
			"the next provision, deletion or expansion of the class waits for its turn. The namespace with the " +
			"fewest pods goes first. Namespaces with the same number of pods take turns. Within a namespace, the " +
			"order is first come, first served. The event is recorded after 10 s, plus a tenth of a second for each " +
			"claim that goes first.",
		Do: "nothing, or raise `max-concurrent`."},
	ReasonCloneWaits: {Warning: true, On: "claim",
		Means: "The claim asks for a clone of another claim, which does not exist or is not bound. Provisioning " +
			"continues when that claim is bound.",
		Do: "create the original claim, or wait until it is bound."},
	ReasonClaimRefused: {Warning: true, On: "claim",
		Means: "The claim asks for what its class does not offer, or the class's parameters have names that are " +
			"not allowed. The message names each field.",
		Do: "create a new claim, since most fields of a claim cannot be changed, or correct the class."},
	ReasonConfigMissing: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The class has no valid ConfigMap, or the StorageClass does not exist. The message names the " +
			"namespace and the labels that the ConfigMap has to have. If the StorageClass has the parameter " +
			"`flex-provisioner.io/config-from-class`, the message names the parameter, and what is wrong with the " +
			"class to which it refers. The removal of storage waits too, because only the ConfigMap names the image.",
		Do: "create or correct the ConfigMap or the StorageClass. Everything that waits continues at once."},
	ReasonMountNotBound: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "A claim that the class's ConfigMap mounts into its pods (`mount-claims` or `devices`) does not " +
			"exist or is not bound. No pod is created until it is bound, so that the record of each volume says " +
			"where its storage is. A claim whose class has the volumeBindingMode WaitForFirstConsumer is an " +
			"exception: the pod is its first consumer.",
		Do: "create the claim in the namespace `flex-provisioners`, find out why it is not bound, or correct " +
			"the ConfigMap."},
	ReasonPoliciesMissing: {Warning: true, On: "claim, volume, snapshot, content or pod",
		Means: "The admission policies that restrict a provisioner to its own volume are missing, differ from " +
			"the shipped ones, or are not enforced. No pod is created until they are in force. The message names the " +
			"policy, and the path of the field that differs.",
		Do: "apply your installation again (`deploy/base` has the policies), and put your own rules into a " +
			"separate policy. To run without the policies, start the dispatcher with `--insecure-without-policies`."},
	ReasonVolumeMended: {Warning: true, On: "claim",
		Means: "A pod created a volume that differs from what the dispatcher asked for. The volume lacked the " +
			"annotations or the finalizer that a deletion needs, or it had other annotations, or another reclaim " +
			"policy than its class. The dispatcher repaired the volume, but for the policy Retain, which an " +
			"administrator may have set. After an upgrade from a version without `flex-provisioner.io/record`, pods " +
			"that ran during the upgrade cause this event once. If somebody reverts the repair, the dispatcher " +
			"repeats it every 10 s.",
		Do: "change the provisioner to use `flexctl create-pv` or the whole `volume.yaml`."},
	ReasonVolumeMismatch: {Warning: true, On: "claim",
		Means: "A pod created a volume that does not fit the claim, because the volume is too small, or of another " +
			"class, mode or claim. Its storage is removed, and provisioning is retried. But Kubernetes binds a " +
			"volume of another class all the same, by its `spec.claimRef`. A volume that is bound stays, as the " +
			"message says.",
		Do: "correct the provisioner. If the volume is bound, delete the claim, and create it again."},
	ReasonVolumeGoing: {Warning: true, On: "claim",
		Means: "Somebody deleted the volume of a claim that is in use. Kubernetes keeps the volume until its last " +
			"finalizer is removed, which happens when the claim is deleted. Then the reclaim policy says what " +
			"becomes of the storage. A deletion cannot be taken back.",
		Do: "copy the data to another claim. To keep the storage, set the volume's reclaim policy to Retain."},
	ReasonNotOurs: {Warning: true, On: "volume",
		Means: "The volume names this provisioner, but its name is not `pvc-` followed by a claim's UID. So no " +
			"provisioner pod created it.",
		Do: "remove its storage by hand, and delete it."},
	ReasonUndo: {On: "claim or pod",
		Means: "Properties of the class, or what it mounts, changed after an attempt that may have made storage. " +
			"That storage is removed with the old properties and mounts before the new ones are used. Or the claim " +
			"was deleted while its pod runs: the storage is removed once the pod has ended.",
		Do: "nothing."},
	ReasonStrayDelete: {Warning: true, On: "volume",
		Means: "A pod that removes storage ran while the volume was in use. Either a dispatcher that was no " +
			"longer the leader created the pod for an earlier attempt, or somebody retained or freed the volume, or " +
			"gave it to a claim, after its removal had begun. Such a pod is stopped at once if the volume is bound " +
			"to a claim.",
		Do: "check the volume's data."},
	ReasonUndone: {On: "claim",
		Means: "The storage of the earlier attempts has been removed.",
		Do:    "nothing."},
	ReasonStopped: {Warning: true, On: "volume, content, claim, pod or ConfigMap",
		Means: "An administrator stopped all deletions: the ConfigMap `stop-deletes` exists in the provisioners' " +
			"namespace.",
		Do: "allow deletions again when they are safe: `kubectl flex stop-deletes off` ([restore.md](restore.md))."},
	ReasonHeld: {Warning: true, On: "volume, content, claim or pod",
		Means: "Storage is to be removed, but nothing proves that nobody needs it ([removal.md](removal.md)). " +
			"For example, the volume was restored from a backup, its claim exists, or a claim asks for it. On a " +
			"claim or a pod, the event is about what an attempt may have made: its volume belongs to another " +
			"provisioner now, or somebody deleted the volume and may have kept the storage.",
		Do: "follow the message, or set the volume's reclaim policy to Retain."},
	ReasonCopied: {Warning: true, On: "volume or content",
		Means: "The volume's claim is deleted while a pod copies the volume into a clone or a snapshot, or the " +
			"VolumeSnapshot while a pod restores the snapshot. The storage is removed once the pod has ended.",
		Do: "nothing, unless the pod does not end."},
	ReasonLimit: {Warning: true, On: "volume or content",
		Means: "The number of the class's volumes or snapshots that are older than a day and would be removed within " +
			"an hour exceeds `--delete-limit` or the ConfigMap's `delete-limit`.",
		Do: "find out who deleted them. Then allow the deletions as the message describes, or set the " +
			"policy of the volumes or contents to Retain."},
	ReasonRecord: {Warning: true, On: "volume, claim, snapshot or content",
		Means: "The storage of a volume is to be removed or expanded, but the dispatcher did not sign the " +
			"volume's annotation `flex-provisioner.io/identity`. The annotation also differs from the class's " +
			"properties and parameters, or cannot be used. Either an earlier version created the volume, or the " +
			"dispatcher's key was lost, or somebody changed the volume. Or the volume has lost its annotations, for " +
			"instance in a backup: without `pv.kubernetes.io/provisioned-by`, nobody expands the volume, and " +
			"Kubernetes marks it Failed once its claim is gone.",
		Do: "compare the annotation with the class, then run one of the commands in the message " +
			"([operations.md](operations.md#records-of-volumes))."},
	ReasonStorageMoved: {Warning: true, On: "volume, claim or pod",
		Means: "The record of a volume, or of an earlier attempt, says which claim its pod had mounted, and of " +
			"which storage. Now that claim does not exist, is not bound, or is bound to other storage. A pod would " +
			"look in the wrong place, so none is created: nothing is removed or expanded. The message names " +
			"both places.",
		Do: "bring back the claim with the storage that the message names. If the storage was moved to where " +
			"the class looks now, run the command in the message " +
			"([operations.md](operations.md#pointing-a-class-elsewhere))."},
	ReasonLeft: {Warning: true, On: "volume, content or pod",
		Means: "The volume, or the VolumeSnapshotContent, is deleted, but no pod removed its storage, because " +
			"somebody removed the finalizer. Or a content stays although its VolumeSnapshot is gone.",
		Do: "run `kubectl flex audit`, and remove the storage by hand if nobody needs it."},
	ReasonSnapshotWaits: {Warning: true, On: "snapshot or content",
		Means: "The snapshot is not taken yet. The message says what it waits for: the claim, or the " +
			"snapshot-controller.",
		Do: "do what the message says. `kubectl get pods -A` shows whether the snapshot-controller runs."},
	ReasonSnapshotRefused: {Warning: true, On: "snapshot or content",
		Means: "The snapshot cannot be taken or removed as things are: the class has no snapshots, or the volume, or " +
			"the VolumeSnapshotClass, is not fit for it, or the VolumeSnapshot was deleted before a pod took the " +
			"snapshot.",
		Do: "change what the message names, or create the VolumeSnapshot again."},
	ReasonSnapshotNotReady: {Warning: true, On: "claim",
		Means: "The claim asks to be restored from a VolumeSnapshot that does not exist, or is not ready. Its volume " +
			"is made once that is ready.",
		Do: "`kubectl flex why volumesnapshot/NAME` says what the snapshot waits for."},
	ReasonSnapshotTaken: {On: "snapshot or content",
		Means: "A pod took the snapshot. Only the dispatcher's log has this.",
		Do:    "nothing."},
	ReasonAttachWaits: {Warning: true, On: "volume",
		Means: "A node cannot reach the volume yet, or still can. The message names the node, and what that waits " +
			"for. Kubernetes shows it on the pods that use the volume, as FailedAttachVolume.",
		Do: "do what the message says. The attempt follows by itself."},
	ReasonAttachRefused: {Warning: true, On: "volume",
		Means: "No pod lets the node reach the volume as things are: the class attaches no volumes, or the volume is " +
			"not one that pods attach.",
		Do: "change what the message names."},
	ReasonStillAttached: {Warning: true, On: "volume",
		Means: "The claim is deleted, and a node still has the volume, so its storage is not removed. Kubernetes " +
			"detaches a volume when its last pod on the node is gone.",
		Do: "if the node is lost for good, taint it with `node.kubernetes.io/out-of-service`, as Kubernetes asks " +
			"for ([node.md](node.md#upgrade-reboot-removal))."},
	ReasonOrphan: {Warning: true, On: "volume, content or pod",
		Means: "The dispatcher's hourly audit found something that nobody needs, a volume without its finalizer, " +
			"or a content that cannot be served.",
		Do: "examine the object, then run the command in the message. `kubectl flex audit` finds more."},
	ReasonConfigInvalid: {Warning: true, On: "ConfigMap",
		Means: "The ConfigMap has faults. The message lists all of them. The last valid version stays in force.",
		Do:    "correct the faults ([config-reference.md](config-reference.md))."},
	ReasonConfigOutdated: {Warning: true, On: "ConfigMap",
		Means: "The class runs on an older version of its ConfigMap, because the current version has faults. The " +
			"event is recorded again every hour.",
		Do: "correct the faults that `ConfigInvalid` names, or restore the old version."},
	ReasonConfigDuplicate: {Warning: true, On: "ConfigMap",
		Means: "Several ConfigMaps are for one class. The last valid one stays in force.",
		Do:    "delete all but one."},
	ReasonClassNotFound: {Warning: true, On: "ConfigMap",
		Means: "The StorageClass in the ConfigMap's label does not exist, and no other StorageClass refers to it " +
			"by `flex-provisioner.io/config-from-class`.",
		Do: "create the StorageClass, or correct the label."},
	ReasonClassMismatch: {Warning: true, On: "ConfigMap",
		Means: "The StorageClass names another provisioner, so its claims never reach this dispatcher.",
		Do:    "correct the StorageClass, or the ConfigMap's `plugin-name`."},
	ReasonConfigUnused: {Warning: true, On: "ConfigMap",
		Means: "The StorageClass in the ConfigMap's label has the parameter " +
			"`flex-provisioner.io/config-from-class`, so it uses the ConfigMap of another class.",
		Do: "delete this ConfigMap, or create the StorageClass again without the parameter."},
	ReasonLiteralToken: {Warning: true, On: "ConfigMap",
		Means: "The ConfigMap has a `service-token`, which is not used. Pods get a token of " +
			"`service-account-name` that expires with the pod. Everybody who can read the ConfigMap sees the " +
			"literal token.",
		Do: "revoke the token, and remove the key."},
	ReasonLog: {Warning: true, On: "ConfigMap",
		Means: "The message is the end of the log of a failed pod, which left no message of its own. An event on " +
			"the claim reports the failure itself. Users see the log only if the ConfigMap has `show-logs: \"true\"`.",
		Do: "read the log."},
}

// Reasons returns all reasons of the dispatcher's events, sorted by name.
func Reasons() []podspec.Reason { return slices.Sorted(maps.Keys(meanings)) }
