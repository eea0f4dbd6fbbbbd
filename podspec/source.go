package podspec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// SourceText is an annotation that keeps MountSource on a volume in memory whose source was dropped. Its name is not
// valid in the API, so no volume from the API server has it.
const SourceText = "source as text"

// maxSource is the longest source that is written out. A longer one is a hash.
const maxSource = 512

// MountSource is the source of a claim's volume as a text that is equal for the same storage alone:
// "nfs://10.0.0.1/srv". What has no short form is a hash of its source. A volume of a node has its node affinity in the
// text. No text holds a secret.
func MountSource(v *corev1.PersistentVolume) string {
	if text, found := v.Annotations[SourceText]; found {
		return text
	}

	text := sourceText(v)
	if len(text) > maxSource || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		kind, _, _ := strings.Cut(text, ":")
		return kind + ":" + hashOf(text)
	}

	return text
}

func sourceText(v *corev1.PersistentVolume) string {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.NFS != nil:
		return contract.NFSSource(s.NFS.Server, s.NFS.Path)
	case s.CSI != nil:
		return "csi:" + s.CSI.Driver + "/" + s.CSI.VolumeHandle + attributesText(s.CSI.VolumeAttributes)
	case s.Local != nil:
		return "local:" + s.Local.Path + nodesText(v)
	case s.HostPath != nil:
		return "hostPath:" + s.HostPath.Path + nodesText(v)
	case s.ISCSI != nil:
		return "iscsi://" + s.ISCSI.TargetPortal + "/" + s.ISCSI.IQN + "/" + strconv.Itoa(int(s.ISCSI.Lun))
	default:
		return "hash:" + hashOf(s)
	}
}

// attributesText tells volumes apart whose handle is a name that somebody chose, and whose place is in their
// attributes. The identity of the program that made a volume says nothing of its place.
func attributesText(attributes map[string]string) string {
	place := map[string]string{}
	for key, value := range attributes {
		if key != "storage.kubernetes.io/csiProvisionerIdentity" {
			place[key] = value
		}
	}

	if len(place) == 0 {
		return ""
	}

	return "#" + hashOf(place)
}

// nodesText says on which nodes a directory or disk is: "@node1", or a hash.
func nodesText(v *corev1.PersistentVolume) string {
	affinity := v.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return ""
	}

	hostname, only := hostnameOf(affinity.Required.NodeSelectorTerms)
	if !only {
		return "@" + hashOf(affinity.Required)
	}

	return "@" + hostname
}

// hostnameOf is the host name that the terms match. only is false where they match anything else.
func hostnameOf(terms []corev1.NodeSelectorTerm) (name string, only bool) {
	if len(terms) != 1 || len(terms[0].MatchFields) > 0 || len(terms[0].MatchExpressions) != 1 {
		return "", false
	}

	e := terms[0].MatchExpressions[0]
	if e.Key != corev1.LabelHostname || e.Operator != corev1.NodeSelectorOpIn || len(e.Values) != 1 {
		return "", false
	}

	return e.Values[0], true
}

// hashOf has 16 hexadecimal digits.
func hashOf(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // texts, numbers and lists of them
	}

	sum := sha256.Sum256(data)

	return hex.EncodeToString(sum[:8])
}
