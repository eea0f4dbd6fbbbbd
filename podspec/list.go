package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// List makes the pod that lists the storage of a class. Dispatchers ignore this pod: it is no record of an attempt, and
// has no claim, no finalizer and a generated name. node, where not empty, is the node that it has to run on.
func List(config *configmaps.Config, parameters map[string]string, node string, c Cluster) (*corev1.Pod, error) {
	pod, err := Build(Attempt{Config: config, Node: node, Request: contract.Request{
		Operation: contract.List, StorageClass: config.StorageClass, TimeoutSeconds: int64(config.Timeout.Seconds()),
		ServiceAccount: config.ServiceAccountName,
		Identity:       contract.Identity{Properties: config.Properties, Parameters: parameters},
	}}, c)
	if err != nil {
		return nil, fmt.Errorf("list class %s: %w", config.StorageClass, err)
	}

	pod.Name, pod.GenerateName, pod.Finalizers = "", "list-"+ClassHash(config.StorageClass)+"-", nil
	delete(pod.Labels, contract.LabelClaimUID)
	delete(pod.Labels, contract.LabelAttempt)
	delete(pod.Annotations, contract.AnnClaim)

	return pod, nil
}
