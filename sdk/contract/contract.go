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
	// StopDeletes is the name of a ConfigMap in the provisioners' namespace. While it exists, no storage is removed. The events of
	// volumes that wait for this show its key reason, if it has one.
	StopDeletes = "stop-deletes"
)

// SnapshotDriver is the driver of VolumeSnapshotClasses and VolumeSnapshotContents that a dispatcher of the provisioner name serves:
// dispatcher.flex-provisioner.io for ProvisionerName. The name of a driver can have no slash.
func SnapshotDriver(provisioner string) string {
	domain, name, found := strings.Cut(provisioner, "/")
	if !found {
		return provisioner
	}
	return name + "." + domain
}

// LeaseName is the name of the Lease by which the dispatchers of one provisioner name elect their leader. Dispatchers of another
// provisioner name have another Lease.
func LeaseName(provisioner string) string {
	if provisioner == ProvisionerName {
		return "flex-provisioner"
	}
	return "flex-provisioner-" + strings.NewReplacer("/", "-", ".", "-").Replace(provisioner)
}

// Prefix is the prefix of every label and annotation of the project, but for those of clones.
const Prefix = "flex-provisioner.io/"

// Labels of provisioner pods.
const (
	LabelOperation = Prefix + "operation"
	LabelClaimUID  = Prefix + "claim-uid"
	LabelAttempt   = Prefix + "attempt"
	// LabelClassHash is a hash of the class's name. A name has up to 253 characters, the value of a label up to 63.
	LabelClassHash = Prefix + "class-hash"
)

// Annotations of pods, which are the record of an attempt.
const (
	// AnnClaim is the claim, as namespace/name.
	AnnClaim = Prefix + "claim"
	// AnnClass is the full name of the storage class.
	AnnClass = Prefix + "storage-class"
	// AnnConfig is the ConfigMap that the attempt was built from, as name/resourceVersion@digest. Volumes have it too.
	AnnConfig = Prefix + "config"
	// AnnRequest is the Request as JSON. The pod reads it as RequestFile.
	AnnRequest = Prefix + "request"
	// AnnVolume is the PersistentVolume as YAML. For provision it is a skeleton that lacks only its source, for delete and
	// expand the whole object, and for snapshots the whole object as it was when the snapshot was asked for. The pod reads it as
	// VolumeFile. A VolumeSnapshotContent has it too, as JSON: it is the record of where the snapshot is.
	AnnVolume = Prefix + "volume"
	// AnnScript is the inline script of the operation. The pod reads it as ScriptFile.
	AnnScript = Prefix + "script"
	// AnnVolumeUID is the UID of the volume that a delete or expand pod is for, empty for an undo.
	AnnVolumeUID = Prefix + "volume-uid"
	// AnnVolumeSeen is the UID of the volume that was seen while a provisioning pod had not been acted on, or the name of
	// one that somebody deleted before.
	AnnVolumeSeen = Prefix + "volume-seen"
	// AnnSuspect marks a provision pod whose predecessor may have left storage behind. So the undo does not depend on whether this pod
	// ran. Where the value is a time, the storage system may carry out an earlier request until then.
	AnnSuspect = Prefix + "suspect"
	// AnnNode is the one node that a pod of a node-local class may run on, where there is one. The node may have storage of an
	// earlier attempt, whether this pod runs there or not.
	AnnNode = Prefix + "node"
	// AnnSettled marks a pod whose outcome has been acted on, but whose name must not be free yet. The dispatcher's decisions ignore
	// the pod. Its finalizer keeps the object, whoever deletes it.
	AnnSettled = Prefix + "settled"
	// AnnRetry, if "true", ends the backoff after this failed pod. An administrator sets it. The pod of the next attempt does not
	// inherit it.
	AnnRetry = Prefix + "retry"
	// AnnUndo marks a delete pod for a volume that could not serve its claim. The volume is removed, whatever happens to the claim
	// and whatever the reclaim policy is.
	AnnUndo = Prefix + "undo"
	// AnnUndoes lists, separated by commas, the UIDs of the provision pods that had ended when this delete pod was created. The
	// delete may have missed storage that another pod made.
	AnnUndoes = Prefix + "undoes"
)

// ConditionWaiting is the type of the condition in a claim's status by which the dispatcher says why the claim waits.
const ConditionWaiting = Prefix + "Waiting"

// Annotations of volumes, which are what a later delete needs. AnnConfig is one of them.
const (
	// AnnClaimUID is the UID of the claim that the volume was made for: the CLAIM_UUID of the design.
	AnnClaimUID = Prefix + "claim-uid"
	// AnnIdentity is the Identity of the storage as JSON, frozen at provision.
	AnnIdentity = Prefix + "identity"
	// AnnMadeBefore is the time, in RFC 3339, after which no pod of the attempt can have created the volume. A volume that was
	// created later is a copy: somebody restored it from a backup, perhaps beside the original.
	AnnMadeBefore = Prefix + "made-before"
	// AnnMounts are the Mounts of the pod that made the volume, as JSON: where the storage is. Later pods mount the same. Volumes of
	// before have none, and their pods mount what the ConfigMap says.
	AnnMounts = Prefix + "mounts"
	// AnnLocation is the location that the provisioner reported; see LocationLine. A provisioner writes it, and it is only ever
	// compared, by the provisioner: it reaches later pods as Request.Location.
	AnnLocation = Prefix + "location"
	// AnnRecord is the dispatcher's signature over AnnIdentity, AnnMounts, AnnConfig, AnnMadeBefore and the volume's name, class and
	// provisioner: an HMAC-SHA256 of 64 hexadecimal digits. The skeleton has it, and the provisioner passes it on. An
	// administrator may replace it by RecordTrusted.
	AnnRecord = Prefix + "record"
	// AnnNodeGone is since when the dispatcher has found no Node that has the storage of the volume, as UID/TIME with the volume's UID
	// and RFC 3339. With another UID it counts for nothing: it was restored with the volume.
	AnnNodeGone = Prefix + "node-gone"
	// AnnAdoptedFrom marks a volume of another provisioner that an administrator gave to a class of the dispatcher. Its value is what
	// the volume had before, as JSON, for the command that gives it back. The claim of such a volume may be of another
	// class. The claim has it too, with the former provisioner: by it the policy on the dispatcher knows that the claim's
	// status is the dispatcher's.
	AnnAdoptedFrom = Prefix + "adopted-from"
	// AnnAllowDelete, if "true", allows the dispatcher to remove storage that it would not remove without an administrator's
	// consent.
	AnnAllowDelete = Prefix + "allow-delete"
)

// Annotations of claims that say who created them. An admission policy sets them. They count only where that policy is in force.
const (
	AnnCreatedBy       = Prefix + "created-by"
	AnnCreatedByUID    = Prefix + "created-by-uid"
	AnnCreatedByGroups = Prefix + "created-by-groups"
)

// RecordTrusted is the value of AnnRecord by which an administrator vouches for AnnIdentity without the dispatcher's signature: on
// volumes of earlier versions, or after the dispatcher's key was lost. The admission policies refuse it from provisioner pods.
const RecordTrusted = "trusted"

// Clones, by the names that standalone-cinder gave them.
const (
	// AnnCloneRequest names, on a claim, the bound claim whose data the volume is to begin with: a name, or namespace/name with
	// the claim's own namespace. A spec.dataSource of kind PersistentVolumeClaim asks for the same.
	AnnCloneRequest = "k8s.io/CloneRequest"
	// AnnCloneOf is the source, as namespace/name, on a claim whose volume is a clone.
	AnnCloneOf = "k8s.io/CloneOf"
	// ParameterSmartClone is the StorageClass parameter that allows clones if it is "true". The class's provisioner uses
	// Request.Source.
	ParameterSmartClone = "smartclone"
)

// Parameters of a StorageClass. Provisioners see no parameter that begins with Prefix.
const (
	// ParameterFSType names the file system of new volumes, as for CSI's provisioners. The kubelet makes it on volumes of volumeMode
	// Filesystem whose source has an fsType.
	ParameterFSType = "csi.storage.k8s.io/fstype"
	// ParameterConfigFromClass names the class whose ConfigMap serves this class too. A class that names itself has its own
	// ConfigMap, which also serves its copies, since they have the same parameter.
	ParameterConfigFromClass = Prefix + "config-from-class"
)

// PodFinalizer keeps a pod until its outcome has been acted on. Evictions, drains and the pod garbage collector delete pods, and the
// pod is the only record that an attempt was started. While a claim waits, its first and its newest pod keep the finalizer
// longer, so that their names stay in use; see AnnSettled.
const PodFinalizer = Prefix + "outcome-recorded"

// VolumeFinalizer is the finalizer of sig-storage-lib-external-provisioner. The library takes a PersistentVolume that is deleted without
// it for one whose storage is gone. So a volume has to have it from its first write.
const VolumeFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// Annotations and finalizers of snapshots. The dispatcher does for VolumeSnapshotContents of its driver what the sidecar
// csi-snapshotter does for those of CSI drivers. A VolumeSnapshotContent has AnnVolume and AnnRecord, which signs it. One that was
// made by hand has to have AnnClass before its snapshot is restored or removed.
const (
	// ContentFinalizer keeps a VolumeSnapshotContent until its snapshot was removed, or is to be kept.
	ContentFinalizer = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
	// SnapshotFinalizer keeps a VolumeSnapshot while it may be restored. The snapshot-controller places it first of all, before
	// there is a content.
	SnapshotFinalizer = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	// AnnBeingCreated marks a VolumeSnapshotContent whose snapshot may exist in part.
	AnnBeingCreated = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
	// AnnBeingDeleted marks a VolumeSnapshotContent whose VolumeSnapshot was deleted. The snapshot-controller places it.
	AnnBeingDeleted = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	// AnnModeChange, if "true", allows to restore a snapshot to a volume of the other volume mode. An administrator sets it.
	AnnModeChange = "snapshot.storage.kubernetes.io/allow-volume-mode-change"
)

// AttachmentFinalizer keeps a VolumeAttachment, once a pod may have attached its volume, until a pod has detached it. AnnConnector comes
// with it: what the node says of itself, which a detach needs when the node is gone.
const (
	AttachmentFinalizer = Prefix + "attachment"
	AnnConnector        = Prefix + "connector"
)

// AttributeStager is the attribute of a volume of flex-node that says which of its stagers stages the volume. StagerLoop needs nobody to
// attach the volume. Every other one needs what an attach publishes.
const (
	AttributeStager = "stager"
	StagerLoop      = "loop"
)

// ProvisionedBy is the annotation that names a volume's provisioner to Kubernetes and to sig-storage-lib-external-provisioner. Nobody
// deletes a volume without it. It has to be there before the volume is released.
const ProvisionedBy = "pv.kubernetes.io/provisioned-by"

// Files inside the pod.
const (
	// RequestDir holds RequestFile, VolumeFile and ScriptFile.
	RequestDir  = "/etc/flex-provisioner"
	RequestFile = RequestDir + "/request.json"
	// VolumeFile is YAML. For provision its spec comes last and lacks only the volume source. So a source that is indented by
	// two spaces and appended completes it.
	VolumeFile = RequestDir + "/volume.yaml"
	ScriptFile = RequestDir + "/script"
	// TokenDir is where Kubernetes clients find their token, ca.crt and namespace.
	TokenDir  = "/var/run/secrets/kubernetes.io/serviceaccount"
	TokenFile = TokenDir + "/token"
	CAFile    = TokenDir + "/ca.crt"
	// SecretsDir holds a directory for each Secret that the ConfigMap names, with a file for each key.
	SecretsDir = "/var/run/secrets/flex-provisioner"
	// BinDir holds flexctl in pods that run inline scripts, and is on their PATH.
	BinDir = "/opt/flex-provisioner"
	// TerminationFile takes the message that the claim's event shows, as one line of at most MaxMessage bytes. It may have a
	// LocationLine beside the message.
	TerminationFile = "/dev/termination-log"
)

// Exit codes of a provisioner.
const (
	// ExitDone says that the volume exists (provision), that the storage is gone (delete), or that the storage has at least the
	// requested size (expand).
	ExitDone = 0
	// ExitRefused says that the request can never succeed, and that nothing was made or changed. It is retried seldom, or when
	// the ConfigMap changes.
	ExitRefused = 64
	// ExitNotHere says that this node cannot serve the request, and that nothing was made. The claim is scheduled again where its
	// class allows it.
	ExitNotHere = 69
	// ExitTryAgain says that nothing is wrong, and that the request is to be retried soon.
	ExitTryAgain = 75
	// After any other code the request is retried with backoff. Storage may exist in part.
)

// MaxMessage is the limit in bytes on what users see of a container's message. The limit of an event's message is 1024.
const MaxMessage = 512
