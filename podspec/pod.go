package podspec

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Attempt is the input from which a provisioner pod is built.
type Attempt struct {
	Config  *configmaps.Config
	Request contract.Request
	// Volume is the Skeleton for a provision, the whole object for a delete or expansion, and nil for an undo.
	Volume *corev1.PersistentVolume
	// Source, where not nil, is the volume that the snapshot to restore is of. Of a node-local class the pod runs where
	// that is, or was.
	Source *corev1.PersistentVolume
	// Node, where not empty, is the node that the scheduler selected for the consumer, or a node where an earlier
	// attempt may have left node-local storage. Of a node-local class the pod runs on this node alone, else preferably.
	Node string
}

// Cluster is what all pods of a dispatcher have in common.
type Cluster struct {
	// Namespace of the pods, the ConfigMaps and the Secrets.
	Namespace string
	// NamespaceUID is the namespace's UID, or empty. Then pods have no owner.
	NamespaceUID types.UID
	// KubeAPI is the API server's URL as pods reach it.
	KubeAPI string
	// FlexctlImage holds flexctl at its root, for pods that run inline scripts.
	FlexctlImage string
	// ImageVolumes reports whether nodes can mount an image as a volume (Kubernetes 1.35 and containerd 2.1 or newer).
	// Elsewhere an init container copies flexctl, which takes about a second more for each pod.
	ImageVolumes bool
}

// FlexctlImage is the default of Cluster.FlexctlImage. Images of a checkout have such names.
const FlexctlImage = "registry.invalid/flex-provisioner/flexctl:dev"

// ImageVolumes reports whether an API server of this version, such as "v1.35.2", has image volumes.
func ImageVolumes(serverVersion string) (bool, error) {
	parsed, err := version.ParseGeneric(serverVersion)
	if err != nil {
		return false, fmt.Errorf("read the API server's version %q: %w", serverVersion, err)
	}

	return parsed.AtLeast(version.MajorMinor(1, 35)), nil
}

// maxAnnotations is the API server's limit on the size of all annotations of an object.
const maxAnnotations = 256 << 10

// Build makes the pod of an attempt. It returns an error if a property or parameter cannot be an environment variable,
// or if the request is too large for the annotations of a pod.
func Build(a Attempt, c Cluster) (*corev1.Pod, error) {
	// Properties of a ConfigMap are checked already, but those of a volume's identity may be older than a rule.
	if faults := configmaps.CheckIdentity(a.Request.Properties, a.Request.Parameters); len(faults) > 0 {
		return nil, fmt.Errorf("build pod for claim %s/%s: %w",
			a.Request.Claim.Namespace, a.Request.Claim.Name, faults.ToAggregate())
	}

	annotations, err := annotationsOf(a)
	if err != nil {
		return nil, fmt.Errorf("build pod for claim %s/%s: %w", a.Request.Claim.Namespace, a.Request.Claim.Name, err)
	}

	a.Config = mounting(a.Config, a.Request.Mounts)
	volumes, mounts := volumesOf(a, c)

	timeout := int64(a.Config.Timeout.Seconds())
	grace := int64(30)
	no := false

	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        Name(a.Request.Operation, a.Request.KeyUID(), a.Request.Attempt),
			Namespace:   c.Namespace,
			Labels:      labelsOf(a),
			Annotations: annotations,
			Finalizers:  []string{contract.PodFinalizer},

			OwnerReferences: ownersOf(c),
		},
		Spec: corev1.PodSpec{
			ServiceAccountName:            a.Config.ServiceAccountName,
			AutomountServiceAccountToken:  &no,
			EnableServiceLinks:            &no,
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         &timeout,
			TerminationGracePeriodSeconds: &grace,
			NodeSelector:                  nodeSelectorOf(a.Config),
			Affinity:                      affinityOf(a),
			Tolerations:                   tolerationsOf(a),
			PriorityClassName:             priorityClassOf(a),
			HostNetwork:                   a.Config.HostNetwork,
			DNSPolicy:                     dnsPolicyOf(a.Config),
			SecurityContext:               podSecurity(a.Config),
			Volumes:                       volumes,
			Containers: []corev1.Container{{
				Name:                     ContainerName,
				Image:                    a.Config.Image,
				ImagePullPolicy:          a.Config.ImagePullPolicy,
				Command:                  commandOf(a, c),
				Env:                      envOf(a, c),
				Resources:                a.Config.Resources,
				VolumeMounts:             mounts,
				VolumeDevices:            devicesOf(a.Config),
				SecurityContext:          containerSecurity(a.Config),
				TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
	}

	for _, name := range a.Config.ImagePullSecrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}

	if needsFlexctl(a) && !c.ImageVolumes {
		pod.Spec.InitContainers = []corev1.Container{flexctlCopier(c)}
	}

	return pod, nil
}

// ownersOf makes the namespace the pod's controller. Whoever drains a node takes a pod with a controller for one that
// is made again elsewhere, as the next attempt is. Any other owner may be deleted before the namespace is, and the
// garbage collector would delete the pods with it.
func ownersOf(c Cluster) []metav1.OwnerReference {
	if c.NamespaceUID == "" {
		return nil
	}

	yes := true
	owner := metav1.OwnerReference{
		APIVersion: "v1", Kind: "Namespace", Name: c.Namespace, UID: c.NamespaceUID, Controller: &yes,
	}

	return []metav1.OwnerReference{owner}
}

// safeToEvict tells a cluster's autoscaler that it may end the pod, although the pod has an emptyDir and a controller
// of a kind that the autoscaler does not know. The next attempt finds what this one has made.
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// ContainerName is the name of the provisioner's container.
const ContainerName = "provisioner"

// labelsOf sets the dispatcher's labels last, so that no label of the Config can replace them. A Config has none of
// their names.
func labelsOf(a Attempt) map[string]string {
	labels := maps.Clone(a.Config.PodLabels)
	if labels == nil {
		labels = map[string]string{}
	}

	labels[contract.LabelOperation] = string(a.Request.Operation)
	labels[contract.LabelClaimUID] = a.Request.KeyUID()
	labels[contract.LabelAttempt] = strconv.Itoa(a.Request.Attempt)
	labels[contract.LabelClassHash] = ClassHash(a.Request.StorageClass)

	return labels
}

// dnsPolicyOf lets a pod in the network of its node resolve the names of Services. Kubernetes' default for it is the
// node's DNS.
func dnsPolicyOf(config *configmaps.Config) corev1.DNSPolicy {
	if config.HostNetwork {
		return corev1.DNSClusterFirstWithHostNet
	}

	return ""
}

// annotationsOf puts the request into the pod's annotations, which the kubelet shows as files. So an attempt needs no
// ConfigMap, and its record does not depend on another object.
func annotationsOf(a Attempt) (map[string]string, error) {
	request, err := json.Marshal(a.Request)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}

	annotations := map[string]string{safeToEvict: "true"}
	maps.Copy(annotations, a.Config.PodAnnotations)
	annotations[contract.AnnClaim] = a.Request.Claim.Namespace + "/" + a.Request.Claim.Name
	annotations[contract.AnnClass] = a.Request.StorageClass
	annotations[contract.AnnConfig] = ConfigStamp(a.Config)
	annotations[contract.AnnRequest] = string(request)

	if a.Volume != nil {
		volume, err := volumeFile(a.Volume)
		if err != nil {
			return nil, fmt.Errorf("encode volume %s: %w", a.Volume.Name, err)
		}

		annotations[contract.AnnVolume] = volume
		annotations[contract.AnnVolumeUID] = string(a.Volume.UID)
	}

	if inline(a) {
		annotations[contract.AnnScript] = script(a)
	}

	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
	}

	if size > maxAnnotations {
		return nil, fmt.Errorf("request, volume, script and pod-annotations are %d bytes as annotations, the API "+
			"server takes %d: shorten the properties, parameters, scripts or pod-annotations", size, maxAnnotations)
	}

	return annotations, nil
}

// volumeFile is the volume as YAML without status and managedFields. Its spec comes last, so that a provisioner without
// flexctl can append the source.
func volumeFile(volume *corev1.PersistentVolume) (string, error) {
	volume = volume.DeepCopy()
	volume.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	volume.ManagedFields = nil
	delete(volume.Annotations, Verified)
	delete(volume.Annotations, SourceText)
	delete(volume.Annotations, corev1.LastAppliedConfigAnnotation) // a second copy of the volume

	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(volume)
	if err != nil {
		return "", err
	}

	delete(fields, "status")
	if metadata := fields["metadata"].(map[string]any); metadata["creationTimestamp"] == nil {
		delete(metadata, "creationTimestamp")
	}

	file, err := yaml.Marshal(fields)

	return string(file), err
}

// ConfigStamp is the value of contract.AnnConfig: the ConfigMap's name, version and digest.
func ConfigStamp(config *configmaps.Config) string {
	return config.Name + "/" + config.ResourceVersion + "@" + config.Digest
}

// RequestOf is the request of a pod.
func RequestOf(pod *corev1.Pod) (contract.Request, error) {
	var request contract.Request
	if err := json.Unmarshal([]byte(pod.Annotations[contract.AnnRequest]), &request); err != nil {
		return request, fmt.Errorf("read annotation %s of pod %s/%s: %w",
			contract.AnnRequest, pod.Namespace, pod.Name, err)
	}

	return request, nil
}
