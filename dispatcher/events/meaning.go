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

// MeaningOf is the meaning of a reason of the dispatcher's events. ok is false for other reasons.
func MeaningOf(reason podspec.Reason) (m Meaning, ok bool) {
	m, ok = meanings[reason]
	return m, ok
}

var link = regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`)

// Plain is Markdown of a meaning as plain text, for a terminal. Links become the names of the documents.
func Plain(markdown string) string {
	return strings.ReplaceAll(link.ReplaceAllStringFunc(markdown, func(l string) string {
		target := link.FindStringSubmatch(l)[2]
		return "docs/" + target
	}), "`", "")
}

// meanings has every reason. docs/events.md is compared with it.
var meanings = map[podspec.Reason]Meaning{
	ReasonSucceeded: {On: "claim",
		Means: "A pod created the volume, and the volume fits the claim. While other claims of the class wait, only claims that had a Warning get this event, because each event is one more write. The claim's status says that it is bound.",
		Do:    "nothing."},
	podspec.ReasonFailed: {Warning: true, On: "claim, volume or pod",
		Means: "The container exited with a code that has no other meaning. The message is the container's own. Without one it says what the exit code means, and what the provisioner printed last. On volumes and pods, whose events administrators read, these are the last lines of the log. On a claim it says in which ConfigMap's events they are (`ProvisionerLog`). It is tried again with growing delays.",
		Do:    "read the message, and correct the storage or the provisioner."},
	podspec.ReasonRefused: {Warning: true, On: "claim, volume or pod",
		Means: "Exit code 64: the request can never work, and nothing was made. It is tried again after 5 minutes, or when the ConfigMap changes.",
		Do:    "change what the message names."},
	podspec.ReasonNotHere: {Warning: true, On: "claim, volume or pod",
		Means: "Exit code 69: not on this node, and nothing was made. If the scheduler chose the claim's node, it chooses another one. Any other claim is tried again with growing delays.",
		Do:    "nothing, or let `node-selector` name the nodes that have what the provisioner needs."},
	podspec.ReasonTryAgain: {Warning: true, On: "claim, volume or pod",
		Means: "Exit code 75: nothing is wrong, and the storage asks for another attempt. It follows after 15 s at most.",
		Do:    "nothing, unless it never ends."},
	ReasonNoVolume: {Warning: true, On: "claim",
		Means: "Exit code 0, but there is no volume: the provisioner breaks the contract. It is tried again with growing delays, since storage may exist.",
		Do:    "correct the provisioner ([writing-a-provisioner.md](writing-a-provisioner.md))."},
	podspec.ReasonOutOfMemory: {Warning: true, On: "claim, volume or pod",
		Means: "The container was OOMKilled.",
		Do:    "raise the memory limit in the ConfigMap's key `resources`."},
	podspec.ReasonDeadline: {Warning: true, On: "claim, volume or pod",
		Means: "The pod ran longer than the ConfigMap's key `timeout`.",
		Do:    "find out from its log what it waited for, or raise `timeout`."},
	podspec.ReasonEvicted: {Warning: true, On: "claim, volume or pod",
		Means: "The node or somebody ended the pod: eviction, drain, preemption, shutdown, a lost node. It is tried again after a second.",
		Do:    "nothing."},
	podspec.ReasonImagePull: {Warning: true, On: "claim, volume or pod",
		Means: "The image cannot be pulled. The message says why.",
		Do:    "correct `image`, `image-pull-secrets` or the registry."},
	podspec.ReasonPodConfig: {Warning: true, On: "claim, volume or pod",
		Means: "Something that the pod mounts is missing, most often a Secret or a claim that the ConfigMap names.",
		Do:    "create it in the namespace `flex-provisioners`, or correct the ConfigMap."},
	podspec.ReasonStart: {Warning: true, On: "claim, volume or pod",
		Means: "The container cannot be started: the program is missing or not executable, or a security setting prevents it.",
		Do:    "correct the image, or `run-as-user`."},
	podspec.ReasonUnschedulable: {Warning: true, On: "claim, volume or pod",
		Means: "The pod is unschedulable. The message is the scheduler's. If the scheduler chose the claim's node and the pod does not run for 30 s, the scheduler chooses again.",
		Do:    "correct `node-selector`, `tolerations`, `resources`, or the nodes."},
	ReasonNodeLost: {Warning: true, On: "claim, volume or pod",
		Means: "The pod was deleted, by an administrator or because its node is not reachable, and the node does not say that it has ended. The pod may still run, so no other pod is created for the claim or volume, and the pod counts for `max-concurrent`.",
		Do:    "bring the node back, or delete the Node if it never comes back."},
	ReasonStartTimeout: {Warning: true, On: "claim, volume or pod",
		Means: "The pod did not start within the ConfigMap's key `start-timeout` and was deleted. The next one follows.",
		Do:    "correct what the message names."},
	ReasonPodRefused: {Warning: true, On: "claim, volume, pod or ConfigMap",
		Means: "The API server refused the pod, or the request is too large for one: a quota, Pod Security, a policy, a namespace that is being deleted. " +
			"If the ConfigMap asks for a privilege that its ServiceAccount is not granted, the message names the privilege and the line that grants it, and an event on the ConfigMap says the same.",
		Do: "what the message says. A cluster administrator adds such a line to `flex-pv-policy`, or the ConfigMap asks for less."},
	ReasonExpanded: {On: "claim",
		Means: "A pod expanded the storage, and the volume has the new size. If the node has to do the last step (`local`, `csi`), the claim's status is `NodeResizePending` until a pod uses it.",
		Do:    "nothing, or start a pod."},
	ReasonExpansionRefused: {Warning: true, On: "claim",
		Means: "The class cannot expand, the size is outside its `claim-sizes`, or the volume is a device with a file system that nobody would expand (`iscsi`, `fc`). No pod is created, and the storage stays as it is. A corrected ConfigMap is tried at once.",
		Do:    "what the message says. An administrator who expanded storage and file system by hand writes the size into the volume's `spec.capacity`. The claim follows."},
	ReasonConcurrency: {On: "claim, volume or pod",
		Means: "As many pods of the class are running or starting as the ConfigMap's key `max-concurrent` allows. The claim waits for its turn, and so does a volume whose storage is to be removed. The namespace with the fewest pods goes first. Namespaces with equally many take turns. Within a namespace it is first come, first served. The event comes once for each wait, after 10 s, and a tenth of a second later for each claim that goes first.",
		Do:    "nothing, or raise `max-concurrent`."},
	ReasonCloneWaits: {Warning: true, On: "claim",
		Means: "The claim asks to be a clone of a claim that does not exist or is not bound. It goes on when that claim is bound.",
		Do:    "bind or create the original."},
	ReasonClaimRefused: {Warning: true, On: "claim",
		Means: "The claim asks for what its class does not offer, or the class's parameters have names that are not allowed. The message names each field.",
		Do:    "create a new claim, since most fields of a claim cannot be changed, or correct the class."},
	ReasonConfigMissing: {Warning: true, On: "claim, volume or pod",
		Means: "The class has no valid ConfigMap, or there is no such StorageClass. The message names the namespace in which the ConfigMap is looked for, and its labels. If the StorageClass has the parameter `flex-provisioner.io/config-from-class`, the message names it and what is wrong with the class that it names. A volume whose storage is to be removed waits too, because only the ConfigMap names the image.",
		Do:    "create or correct the ConfigMap or the StorageClass. Everything that waits goes on at once."},
	ReasonPoliciesMissing: {Warning: true, On: "claim, volume or pod",
		Means: "The admission policies that keep a provisioner from creating other volumes than its own are missing, not as shipped, or not enforced. No pod is created meanwhile. The message names the policy, and the path of what differs.",
		Do:    "apply your installation again (`deploy/base` has them), and put rules of your own into a policy of your own. To do without, start the dispatcher with `--insecure-without-policies`."},
	ReasonVolumeMended: {Warning: true, On: "claim",
		Means: "A pod created a volume that lacked the annotations or the finalizer by which its storage is removed one day, or that had other annotations than the dispatcher gave it, or another reclaim policy than its class. The dispatcher repaired it. After an upgrade from a version without `flex-provisioner.io/record`, pods that were running then cause it once. Where somebody undoes the repair, it is made again every 10 s.",
		Do:    "let the provisioner use `flexctl create-pv` or the whole `volume.yaml`."},
	ReasonVolumeMismatch: {Warning: true, On: "claim",
		Means: "A pod created a volume that Kubernetes will not bind: too small, or of another class, mode or claim. Unless the volume is bound to something, its storage is removed and the claim is tried again.",
		Do:    "correct the provisioner."},
	ReasonNotOurs: {Warning: true, On: "volume",
		Means: "The volume names this provisioner, but its name is not `pvc-` and a claim's UID. So no provisioner pod created it.",
		Do:    "remove its storage and its finalizer by hand, and delete it."},
	ReasonUndo: {On: "claim",
		Means: "Properties of the class changed after an attempt that may have made storage. That storage is removed by the old properties before the new ones are used.",
		Do:    "nothing."},
	ReasonStrayDelete: {Warning: true, On: "volume",
		Means: "A pod that removes what an earlier attempt left ran while the volume existed. A dispatcher that was no longer the leader ordered it. The dispatcher stops such a pod at once.",
		Do:    "check the volume's data."},
	ReasonUndone: {On: "claim",
		Means: "That storage has been removed.",
		Do:    "nothing."},
	ReasonStopped: {Warning: true, On: "volume, claim, pod or ConfigMap",
		Means: "An administrator stopped all deletions: the ConfigMap `stop-deletes` exists in the provisioners' namespace.",
		Do:    "let deletions go on when all is well: `kubectl flex stop-deletes off` ([restore.md](restore.md))."},
	ReasonHeld: {Warning: true, On: "volume or claim",
		Means: "The volume is to be deleted, but looks as if somebody still needed its storage: it was restored from a backup, or was given to another claim, or a claim asks for it. On a claim it means that the claim's class has another provisioner now. The volume of that provisioner may use what an earlier attempt made.",
		Do:    "what the message says, or make the volume Retain."},
	ReasonLimit: {Warning: true, On: "volume",
		Means: "More volumes of the class that are older than a day would be removed within an hour than `--delete-limit` or the ConfigMap's `delete-limit` allows.",
		Do:    "find out who deleted them. Then allow it, as the message says, or make the volumes Retain."},
	ReasonRecord: {Warning: true, On: "volume or claim",
		Means: "The storage of a volume is to be removed or expanded, but the dispatcher did not sign the volume's annotation `flex-provisioner.io/identity`, and the annotation differs from the class's properties and parameters or cannot be used. An earlier version created the volume, the key of the dispatcher was lost, or somebody changed the volume.",
		Do:    "compare the annotation with the class, then run one of the two commands in the message ([operations.md](operations.md#records-of-volumes))."},
	ReasonLeft: {Warning: true, On: "volume",
		Means: "The volume's object is gone although no pod removed its storage: somebody removed its finalizer.",
		Do:    "run `kubectl flex audit`, and remove the storage by hand if nobody needs it."},
	ReasonOrphan: {Warning: true, On: "volume or pod",
		Means: "The dispatcher's hourly audit found something that nobody needs, or a volume without its finalizer.",
		Do:    "look at it, then run the command in the message. `kubectl flex audit` sees more."},
	ReasonConfigInvalid: {Warning: true, On: "ConfigMap",
		Means: "The ConfigMap has faults. The message has all of them. The last valid version stays in force.",
		Do:    "correct them ([config-reference.md](config-reference.md))."},
	ReasonConfigOutdated: {Warning: true, On: "ConfigMap",
		Means: "The class runs on an older version of its ConfigMap, since the present one has faults. It is said again every hour.",
		Do:    "correct the faults that `ConfigInvalid` names, or write the old version back."},
	ReasonConfigDuplicate: {Warning: true, On: "ConfigMap",
		Means: "Several ConfigMaps are for one class. The last valid one stays in force.",
		Do:    "delete all but one."},
	ReasonClassNotFound: {Warning: true, On: "ConfigMap",
		Means: "The StorageClass of the label does not exist, and no other StorageClass names it by `flex-provisioner.io/config-from-class`.",
		Do:    "create it, or correct the label."},
	ReasonClassMismatch: {Warning: true, On: "ConfigMap",
		Means: "The StorageClass names another provisioner, so its claims never reach this dispatcher.",
		Do:    "correct the StorageClass, or the ConfigMap's `plugin-name`."},
	ReasonConfigUnused: {Warning: true, On: "ConfigMap",
		Means: "The StorageClass of the label has the parameter `flex-provisioner.io/config-from-class`, and so another class's ConfigMap.",
		Do:    "delete this one, or create the StorageClass again without the parameter."},
	ReasonLiteralToken: {Warning: true, On: "ConfigMap",
		Means: "The ConfigMap has a `service-token`, which is not used: pods get a token of `service-account-name` that ends with them. Everybody who reads the ConfigMap sees the literal one.",
		Do:    "revoke it, and remove the key."},
	ReasonLog: {Warning: true, On: "ConfigMap",
		Means: "The end of the log of a failed pod that left no message, where the failure itself is told on a claim. Users see it only where the class says `show-logs: \"true\"`.",
		Do:    "read it."},
}

// Reasons are all reasons of the dispatcher's events, by name.
func Reasons() []podspec.Reason { return slices.Sorted(maps.Keys(meanings)) }
