package contract

import "strings"

// Names of the project's fixed objects.
const (
	// ProvisionerName is the StorageClass's provisioner, the ConfigMap's plugin-name and the value of
	// pv.kubernetes.io/provisioned-by, unless the dispatcher was started with another name. It must not begin with
	// kubernetes.io/: kube-controller-manager reserves that prefix and would never annotate the claim.
	ProvisionerName = "flex-provisioner.io/dispatcher"
	// SystemNamespace is where the dispatcher runs.
	SystemNamespace = "flex-system"
	// ProvisionersNamespace holds the provisioner ConfigMaps, their Secrets and ServiceAccounts, and the pods.
	ProvisionersNamespace = "flex-provisioners"
	// StopDeletes is the name of a ConfigMap in the provisioners' namespace. While it exists no storage is removed. Its
	// key reason, if there is one, is shown to all who wait.
	StopDeletes = "stop-deletes"
)

// LeaseName is the name of the Lease that dispatchers of a provisioner name share. Those of other names live beside them. The Lease of
// ProvisionerName has a short one.
func LeaseName(provisioner string) string {
	if provisioner == ProvisionerName {
		return "flex-provisioner"
	}
	return "flex-provisioner-" + strings.NewReplacer("/", "-", ".", "-").Replace(provisioner)
}

// Prefix begins every label and annotation of the project.
const Prefix = "flex-provisioner.io/"

// Labels of provisioner pods.
const (
	LabelOperation = Prefix + "operation"
	LabelClaimUID  = Prefix + "claim-uid"
	LabelAttempt   = Prefix + "attempt"
	// LabelClassHash is a hash of the class's name, because names reach 253 characters and label values 63.
	LabelClassHash = Prefix + "class-hash"
)

// Annotations. Those on pods are the attempt's record; those on volumes are what a later delete needs.
const (
	// AnnClaim is namespace/name of the claim, on pods.
	AnnClaim = Prefix + "claim"
	// AnnClass is the full name of the storage class, on pods.
	AnnClass = Prefix + "storage-class"
	// AnnConfig is ConfigMap name/resourceVersion@digest that an attempt was built from, on pods and volumes.
	AnnConfig = Prefix + "config"
	// AnnRequest is the Request as JSON, on pods; the pod reads it as RequestFile.
	AnnRequest = Prefix + "request"
	// AnnVolume is on pods the PersistentVolume as YAML: for provision a skeleton that lacks only its source, for
	// delete and expand the whole object. The pod reads it as VolumeFile.
	AnnVolume = Prefix + "volume"
	// AnnScript is the inline script of the operation, on pods; the pod reads it as ScriptFile.
	AnnScript = Prefix + "script"
	// AnnVolumeUID is on delete and expand pods the UID of the volume they are for, empty for an undo.
	AnnVolumeUID = Prefix + "volume-uid"
	// AnnSuspect is on provision pods that follow one which may have left storage behind, so that its removal does not
	// depend on whether this pod ran. A time says until when a storage system may do what was asked for before.
	AnnSuspect = Prefix + "suspect"
	// AnnNode is on pods of classes whose storage is node-local the one node that they may run on, where there is one: it
	// may have storage from before, whether this pod ever gets there or not.
	AnnNode = Prefix + "node"
	// AnnSettled is on pods whose outcome has been acted on and whose name must not be free yet: it keeps them out of what
	// is decided, and their finalizer keeps them, whoever deletes them.
	AnnSettled = Prefix + "settled"
	// AnnRetry is on failed pods an administrator's word, "true", that the next attempt need not wait for its time. It counts for this
	// one pod: the next attempt's has it not.
	AnnRetry = Prefix + "retry"
	// ConditionWaiting is the type of a condition in a claim's status, by which the dispatcher says why the claim waits.
	ConditionWaiting = Prefix + "Waiting"
	// AnnUndo is on delete pods of a volume that could not serve its claim: their removal is carried through whatever
	// becomes of the claim and the reclaim policy.
	AnnUndo = Prefix + "undo"
	// AnnUndoes is on delete pods the UIDs of the provision pods that had ended when it was ordered, between commas. What another one
	// made, it may have missed.
	AnnUndoes = Prefix + "undoes"
	// AnnClaimUID is on volumes the UID of the claim they were made for: the CLAIM_UUID of the design.
	AnnClaimUID = Prefix + "claim-uid"
	// AnnIdentity is on volumes the Identity of the storage as JSON, frozen at provision.
	AnnIdentity = Prefix + "identity"
	// AnnMadeBefore is on volumes the time, in RFC 3339, after which no pod of the attempt can have created them. A volume
	// that was created later is a copy: somebody restored it from a backup, perhaps beside the original.
	AnnMadeBefore = Prefix + "made-before"
	// AnnRecord is on volumes the dispatcher's signature over AnnIdentity, AnnConfig, AnnMadeBefore and the volume's name, class
	// and provisioner: an HMAC-SHA256 of 64 hexadecimal digits. The skeleton has it, and the provisioner passes it on. An
	// administrator may replace it by RecordTrusted.
	AnnRecord = Prefix + "record"
	// AnnAdoptedFrom is on volumes of another provisioner that an administrator gave to a class of the dispatcher what they had before,
	// as JSON, which the command that gives them back reads. To the dispatcher it says that the claim may be of another class.
	AnnAdoptedFrom = Prefix + "adopted-from"
	// AnnAllowDelete is on volumes an administrator's word, "true", that the storage may be removed although the dispatcher
	// has reason to ask first.
	AnnAllowDelete = Prefix + "allow-delete"
	// AnnCreatedBy, AnnCreatedByUID and AnnCreatedByGroups are on claims who created them, stamped by an admission
	// policy and believed only where that policy is in force.
	AnnCreatedBy       = Prefix + "created-by"
	AnnCreatedByUID    = Prefix + "created-by-uid"
	AnnCreatedByGroups = Prefix + "created-by-groups"
)

// RecordTrusted is an administrator's word in AnnRecord that AnnIdentity is right although the dispatcher did not sign it: on
// volumes of earlier versions, or after the dispatcher's key was lost. The admission policies refuse it from provisioner pods.
const RecordTrusted = "trusted"

// Clones, by the names that standalone-cinder gave them.
const (
	// AnnCloneRequest is on a claim the bound claim whose data it is to begin with: a name, or namespace/name with the
	// claim's own namespace. A spec.dataSource of kind PersistentVolumeClaim asks for the same.
	AnnCloneRequest = "k8s.io/CloneRequest"
	// AnnCloneOf is the answer, namespace/name, on claims whose volume is a clone.
	AnnCloneOf = "k8s.io/CloneOf"
	// ParameterFSType is the StorageClass parameter by which CSI's provisioners are told the file system of new volumes. The kubelet
	// makes it on volumes of volumeMode Filesystem whose source has a file system's name.
	ParameterFSType = "csi.storage.k8s.io/fstype"
	// ParameterConfigFromClass is the StorageClass parameter that names the class whose ConfigMap serves this one too. A class that
	// names itself has its own, and copies of it have the same. Provisioners see no parameter that begins with Prefix.
	ParameterConfigFromClass = Prefix + "config-from-class"
	// ParameterSmartClone is the StorageClass parameter that allows clones where it is "true": its provisioner heeds
	// Request.Source.
	ParameterSmartClone = "smartclone"
)

// PodFinalizer keeps a pod until its outcome has been acted on. Evictions, drains and the pod garbage collector delete
// pods, and with the pod the only record that an attempt was started would be gone. While a claim waits, its first pod and
// its newest have it longer, for their names; see AnnSettled.
const PodFinalizer = Prefix + "outcome-recorded"

// VolumeFinalizer is sig-storage-lib's: a PersistentVolume that is being deleted without it counts as cleaned up
// already, so a volume has to carry it from its first write.
const VolumeFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// ProvisionedBy is the annotation by which Kubernetes and sig-storage-lib know whose volume it is. A volume without it
// is never deleted by anybody, and repairing it after the release is too late.
const ProvisionedBy = "pv.kubernetes.io/provisioned-by"

// Files inside the pod.
const (
	// RequestDir holds RequestFile, VolumeFile and ScriptFile.
	RequestDir  = "/etc/flex-provisioner"
	RequestFile = RequestDir + "/request.json"
	// VolumeFile is YAML. For provision its spec comes last and lacks only the volume source, so that appending a source
	// indented by two spaces makes it complete.
	VolumeFile = RequestDir + "/volume.yaml"
	ScriptFile = RequestDir + "/script"
	// TokenDir is where Kubernetes clients look for their identity: token, ca.crt and namespace.
	TokenDir  = "/var/run/secrets/kubernetes.io/serviceaccount"
	TokenFile = TokenDir + "/token"
	CAFile    = TokenDir + "/ca.crt"
	// SecretsDir holds one directory for each Secret that the ConfigMap names, one file for each key of it.
	SecretsDir = "/var/run/secrets/flex-provisioner"
	// BinDir holds flexctl in pods that run inline scripts, and is on their PATH.
	BinDir = "/opt/flex-provisioner"
	// TerminationFile takes the text that the claim's event shows: one line, at most MaxMessage bytes are used. A LocationLine may
	// stand beside it.
	TerminationFile = "/dev/termination-log"
)

// Exit codes of a provisioner.
const (
	// ExitDone: the volume exists (provision), the storage is gone (delete), or it has at least the size asked for (expand).
	ExitDone = 0
	// ExitRefused: this request can never work, and nothing was made or changed. Tried again slowly, or when the ConfigMap
	// changes.
	ExitRefused = 64
	// ExitNotHere: not on this node, and nothing was made. The claim is scheduled anew where its class allows it.
	ExitNotHere = 69
	// ExitTryAgain: nothing is wrong, try again soon.
	ExitTryAgain = 75
	// Every other code: try again with growing delays; storage may half exist.
)

// MaxMessage bounds in bytes what of a container's message is shown to users. The limit of an event is 1024.
const MaxMessage = 512
