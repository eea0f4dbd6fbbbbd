package configmaps

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// maxRevision is the limit in bytes on a saved ConfigMap.
	maxRevision = 1 << 20
	// maxRevisionPrefix leaves room for the digest after the ConfigMap's name.
	maxRevisionPrefix = 200
)

// RevisionName is the name of the ControllerRevision that saves this version of a ConfigMap. It begins with the
// ConfigMap's name. It is another name for another ConfigMap of that name, for other data, and for another class.
func RevisionName(cm *corev1.ConfigMap, config *Config) string {
	prefix := strings.TrimRight(cm.Name[:min(len(cm.Name), maxRevisionPrefix)], ".-")
	content := map[string]string{"uid": string(cm.UID), "class": config.StorageClass, "data": config.Digest}

	return prefix + "-" + digest(content)
}

// NewRevision makes the ControllerRevision that saves the version of a ConfigMap that was parsed into config. It is
// deleted with the ConfigMap. It has no service-token. number has to be higher than that of each earlier revision. A
// ConfigMap of more than 1 MiB as JSON is an error.
func NewRevision(cm *corev1.ConfigMap, config *Config, number int64) (*appsv1.ControllerRevision, error) {
	labels := map[string]string{LabelType: cm.Labels[LabelType]}
	saved := corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: cm.ResourceVersion, Labels: labels},
		Data:       withoutToken(cm.Data),
	}
	if label, found := cm.Labels[keyStorageClass]; found {
		labels[keyStorageClass] = label
	}

	var data bytes.Buffer
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false) // scripts are full of < and >
	if err := encoder.Encode(saved); err != nil {
		return nil, fmt.Errorf("encode ConfigMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}

	if data.Len() > maxRevision {
		return nil, fmt.Errorf("ConfigMap %s/%s has %d bytes as JSON; of at most %d a version is kept",
			cm.Namespace, cm.Name, data.Len(), maxRevision)
	}

	yes := true
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: cm.Name, UID: cm.UID, Controller: &yes}

	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cm.Namespace, Name: RevisionName(cm, config),
			Labels:          map[string]string{LabelType: TypeProvisioner},
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Data:     runtime.RawExtension{Raw: bytes.TrimSpace(data.Bytes())},
		Revision: number,
	}, nil
}

// RevisionsOf lists the saved versions of a ConfigMap, the latest first.
func RevisionsOf(all []*appsv1.ControllerRevision, cm *corev1.ConfigMap) []*appsv1.ControllerRevision {
	var list []*appsv1.ControllerRevision
	for _, revision := range all {
		if owner := metav1.GetControllerOf(revision); owner != nil && owner.UID == cm.UID {
			list = append(list, revision)
		}
	}

	slices.SortFunc(list, func(a, b *appsv1.ControllerRevision) int { return cmp.Compare(b.Revision, a.Revision) })

	return list
}

// versionPattern matches a resource version.
var versionPattern = regexp.MustCompile(`^[0-9]{1,20}$`)

// ParseRevision parses the saved version of a ConfigMap by the rules of Parse. A revision of another ConfigMap is an
// error, even if that had the same name.
func ParseRevision(revision *appsv1.ControllerRevision, cm *corev1.ConfigMap) (*Config, error) {
	if owner := metav1.GetControllerOf(revision); owner == nil || owner.UID != cm.UID || cm.UID == "" {
		return nil, fmt.Errorf("ControllerRevision %s/%s is not of ConfigMap %s",
			revision.Namespace, revision.Name, cm.Name)
	}

	var saved corev1.ConfigMap
	if err := json.Unmarshal(revision.Data.Raw, &saved); err != nil {
		return nil, fmt.Errorf("decode ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}

	if !versionPattern.MatchString(saved.ResourceVersion) {
		return nil, fmt.Errorf("ControllerRevision %s/%s: data: metadata.resourceVersion is none",
			revision.Namespace, revision.Name)
	}

	saved.ObjectMeta = metav1.ObjectMeta{
		Namespace: cm.Namespace, Name: cm.Name, UID: cm.UID,
		ResourceVersion: saved.ResourceVersion, Labels: saved.Labels,
	}

	config, faults := Parse(&saved)
	if len(faults) > 0 {
		kept := fmt.Errorf("ControllerRevision %s/%s keeps a version with faults", revision.Namespace, revision.Name)
		return nil, errors.Join(kept, faults.ToAggregate())
	}

	return config, nil
}
