package contract

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Operation is what a pod is to do.
type Operation string

// The operations.
const (
	Provision Operation = "provision"
	Delete    Operation = "delete"
	// Expand is requested only of classes whose ConfigMap says that they support it.
	Expand Operation = "expand"
	// List is requested by the audit, of classes whose ConfigMap says that their image supports it. The pod prints Storage.Line for
	// each volume on the backend, if possible only for those of this cluster. The request has no claim and no volume.
	List Operation = "list"
	// Snapshot takes a snapshot of a volume, and DeleteSnapshot removes one. They are requested only of classes whose ConfigMap
	// says that they support it. Request.Snapshot names the snapshot.
	Snapshot       Operation = "snapshot"
	DeleteSnapshot Operation = "delete-snapshot"
	// Attach lets one node reach a volume, and Detach takes the volume away from it. They are requested only of classes whose
	// ConfigMap says that they support it. Request.Attachment names the node, which need not exist any more.
	Attach Operation = "attach"
	Detach Operation = "detach"
)

// Request is the content of RequestFile, as JSON. Fields are only ever added.
type Request struct {
	Operation Operation `json:"operation"`
	// Attempt counts from 0.
	Attempt int `json:"attempt"`
	// VolumeName is the PersistentVolume's name, pvc-<claim UID>, and should be the storage's name on the backend.
	VolumeName string `json:"volumeName"`
	Claim      Claim  `json:"claim"`
	// StorageClass is the class's name.
	StorageClass string `json:"storageClass"`
	// SizeBytes is for provision the requested capacity, for expand the size that the storage is to have at least, and for delete
	// the volume's capacity. It is 0 in an undo that does not know it.
	SizeBytes int64 `json:"sizeBytes"`
	// CurrentSizeBytes is for expand the volume's capacity, which is less than SizeBytes, and else 0. The storage may be larger
	// already, after an attempt whose outcome was lost.
	CurrentSizeBytes int64 `json:"currentSizeBytes,omitempty"`
	// AccessModes are ReadWriteOnce, ReadOnlyMany, ReadWriteMany and ReadWriteOncePod.
	AccessModes []string `json:"accessModes,omitempty"`
	// VolumeMode is Filesystem or Block.
	VolumeMode string `json:"volumeMode,omitempty"`
	// SelectedNode is the node that the scheduler chose for a claim with volumeBindingMode WaitForFirstConsumer. It is empty where
	// a node-local class restores a snapshot that is on certain nodes.
	SelectedNode string `json:"selectedNode,omitempty"`
	// NodeHostname is for provision the label kubernetes.io/hostname of the node that the pod has to run on, where that differs from
	// the node's name. A PersistentVolume selects its node by that label. It is empty where the label is the name, or the pod may
	// run on any node.
	NodeHostname string `json:"nodeHostname,omitempty"`
	// Username and Groups are those of the claim's creator, empty where no admission policy vouches for them. Where a
	// controller creates the claim, they are that controller's.
	Username string   `json:"username,omitempty"`
	Groups   []string `json:"groups,omitempty"`
	// TimeoutSeconds is how long the pod may run, from when the kubelet accepts it.
	TimeoutSeconds int64 `json:"timeoutSeconds"`
	// ServiceAccount is the pod's.
	ServiceAccount string `json:"serviceAccount"`
	// Source is what the volume is to be a clone of, nil for an empty volume. Only classes with the parameter
	// ParameterSmartClone get one, and only of a bound claim in the claim's own namespace.
	Source *Source `json:"source,omitempty"`
	// Snapshot is the snapshot to take or to remove, nil for every other operation. VolumeName is then the volume that it is of. It
	// is empty for the removal of a snapshot of which no record says so: an administrator made its object by hand.
	Snapshot *SnapshotRequest `json:"snapshot,omitempty"`
	// Attachment is the node that is to reach the volume, or no longer, nil for every other operation.
	Attachment *AttachmentRequest `json:"attachment,omitempty"`
	// AllowedTopologies are the class's. The volume has to be reachable from the nodes that match one of these terms. A term
	// matches a node whose label of each key has one of the values. Empty means all nodes.
	AllowedTopologies []map[string][]string `json:"allowedTopologies,omitempty"`
	// Location is where the storage is, as an earlier attempt for the claim or the volume's provision reported it; see LocationLine. It
	// is empty where none did. A provisioner that works elsewhere, by other credentials or in another file system, would not find
	// the storage, and must fail.
	Location string `json:"location,omitempty"`
	// Mounts are what the pod has mounted. A pod that deletes or expands has what the volume's provision had. Nil means that this is
	// not known, which was so before the contract had the field.
	Mounts []Mount `json:"mounts,omitzero"`
	// Identity is what finds the storage again.
	Identity
}

// Source is what a new volume begins with: the data of a bound claim, or a snapshot.
type Source struct {
	// Namespace and Name are those of the claim, or of the VolumeSnapshot.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// VolumeName is the claim's PersistentVolume, or the one that the snapshot is of, which need not exist any more. It is empty for a
	// snapshot of which no record says so.
	VolumeName string `json:"volumeName"`
	// Snapshot is the snapshot's name on the backend, as SnapshotRequest.Name; empty for a clone.
	Snapshot string `json:"snapshot,omitempty"`
}

// SnapshotRequest is a snapshot on the backend, and the object that it is for.
type SnapshotRequest struct {
	// Name is snap-<UID of the VolumeSnapshot>, and has to be the snapshot's name on the backend. It is another name for a snapshot
	// that existed before its object, which an administrator made by hand: letters, digits, ".", "_" and "-", at most 253.
	Name string `json:"name"`
	// Namespace and VolumeSnapshot name the VolumeSnapshot, UID is the one in the names of its pods.
	Namespace      string `json:"namespace"`
	VolumeSnapshot string `json:"volumeSnapshot"`
	UID            string `json:"uid"`
}

// AttachmentRequest is a VolumeAttachment: one volume on one node.
type AttachmentRequest struct {
	// Name and UID are those of the VolumeAttachment.
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Node is the name of the node. Kubernetes has no other name for it that lasts.
	Node string `json:"node"`
	// Connector is what the node says of itself, as ParseConnector reads it. It is empty for a detach if no attempt to attach
	// had one: nothing was attached then.
	Connector string `json:"connector,omitempty"`
}

// KeyUID is what the names of the request's pods have in common: the claim's UID, or for a snapshot that of SnapshotRequest. For an
// attachment it is AttachmentKey.
func (r Request) KeyUID() string {
	switch {
	case r.Snapshot != nil:
		return r.Snapshot.UID
	case r.Attachment != nil:
		return AttachmentKey(r.Claim.UID, r.Attachment.UID)
	}
	return r.Claim.UID
}

// AttachmentKey is the UID of the claim that a volume was made for, and the first 8 digits of a VolumeAttachment's. Admission policies
// read from the name of a pod which volume it is for, and which attachment of that volume.
func AttachmentKey(claimUID, attachmentUID string) string {
	return claimUID + "-" + attachmentUID[:min(8, len(attachmentUID))]
}

// Claim names the claim that a volume is for.
type Claim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Identity is what finds the storage of a volume again. It is frozen at provision. A delete uses it, whatever the ConfigMap and the
// StorageClass say by then.
type Identity struct {
	// Properties are the keys of the ConfigMap that are not reserved, by the names they have there.
	Properties map[string]string `json:"properties,omitempty"`
	// Parameters are the StorageClass's, without those that begin with Prefix.
	Parameters map[string]string `json:"parameters,omitempty"`
	// ClaimLabels and ClaimAnnotations are those of the claim that the class's ConfigMap names, as they were at
	// provision. One that the claim lacks is empty. The author of the claim wrote them: they are data alone.
	ClaimLabels      map[string]string `json:"claimLabels,omitempty"`
	ClaimAnnotations map[string]string `json:"claimAnnotations,omitempty"`
}

// MaxClaimText is the limit in bytes on a claim's annotation that a provisioner gets. Volumes keep it.
const MaxClaimText = 256

// ClaimTextEnvName is the environment name of a label or annotation of a claim, with the prefix ClaimLabelEnv or
// ClaimAnnotationEnv. No property can have such a name.
func ClaimTextEnvName(prefix, name string) string {
	legal := func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}
	return prefix + strings.Map(legal, strings.ToUpper(name))
}

// Prefixes of the environment names of a claim's labels and annotations.
const (
	ClaimLabelEnv      = "FLEX_PVC_LABEL_"
	ClaimAnnotationEnv = "FLEX_PVC_ANNOTATION_"
)

// EnvVar is one environment variable of a provisioner.
type EnvVar struct{ Name, Value string }

// Env is the environment of a request without properties and parameters, in a fixed order. FLEX_NODE is not in it,
// since only the kubelet knows the node. kubeAPI is the API server's URL as pods reach it.
func (r Request) Env(kubeAPI string) []EnvVar {
	source, sourceSnapshot, snapshot := "", "", ""
	if r.Source != nil {
		source, sourceSnapshot = r.Source.VolumeName, r.Source.Snapshot
	}
	if r.Snapshot != nil {
		snapshot = r.Snapshot.Name
	}
	env := []EnvVar{
		{"FLEX_OPERATION", string(r.Operation)},
		{"FLEX_ATTEMPT", strconv.Itoa(r.Attempt)},
		{"FLEX_PV_NAME", r.VolumeName},
		{"FLEX_PVC_NAMESPACE", r.Claim.Namespace},
		{"FLEX_PVC_NAME", r.Claim.Name},
		{"FLEX_PVC_UID", r.Claim.UID},
		{"FLEX_STORAGE_CLASS", r.StorageClass},
		{"FLEX_SIZE_BYTES", strconv.FormatInt(r.SizeBytes, 10)},
		{"FLEX_CURRENT_SIZE_BYTES", strconv.FormatInt(r.CurrentSizeBytes, 10)},
		{"FLEX_ACCESS_MODES", strings.Join(r.AccessModes, ",")},
		{"FLEX_VOLUME_MODE", r.VolumeMode},
		{"FLEX_SELECTED_NODE", r.SelectedNode},
		{"FLEX_NODE_HOSTNAME", r.NodeHostname},
		{"FLEX_SOURCE_PV_NAME", source},
		{"FLEX_SOURCE_SNAPSHOT", sourceSnapshot},
		{"FLEX_SNAPSHOT_NAME", snapshot},
		{"FLEX_USERNAME", r.Username},
		{"FLEX_GROUPS", strings.Join(r.Groups, ",")},
		{"FLEX_TIMEOUT_SECONDS", strconv.FormatInt(r.TimeoutSeconds, 10)},
		{"FLEX_SERVICE_ACCOUNT", r.ServiceAccount},
		{"FLEX_TOKEN_FILE", TokenFile},
		{"FLEX_KUBE_API", kubeAPI},
	}
	if r.Attachment != nil {
		env = append(env, EnvVar{"FLEX_ATTACH_NODE", r.Attachment.Node}, EnvVar{"FLEX_CONNECTOR", r.Attachment.Connector})
	}
	for _, name := range slices.Sorted(maps.Keys(r.ClaimLabels)) {
		env = append(env, EnvVar{ClaimTextEnvName(ClaimLabelEnv, name), r.ClaimLabels[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(r.ClaimAnnotations)) {
		env = append(env, EnvVar{ClaimTextEnvName(ClaimAnnotationEnv, name), r.ClaimAnnotations[name]})
	}
	return env
}

// EnvName is the environment name of a property or parameter: upper case, with every '-' and '.' turned into '_'. It is empty for a
// parameter with a '/' in its name, which is in the request alone. configmaps.CheckName checks whether the name is allowed.
func EnvName(key string) string {
	if strings.Contains(key, "/") {
		return ""
	}
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(key))
}
