package podspec

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

func nodeSelectorOf(config *configmaps.Config) map[string]string {
	selector := map[string]string{corev1.LabelOSStable: "linux"}
	maps.Copy(selector, config.NodeSelector)
	return selector
}

// lostNodeSeconds is how long a pod stays on a node that stopped answering, instead of Kubernetes' five minutes: an
// attempt on a lost node blocks the next one.
const lostNodeSeconds = int64(60)

func tolerationsOf(config *configmaps.Config) []corev1.Toleration {
	seconds := lostNodeSeconds
	tolerations := append([]corev1.Toleration{}, config.Tolerations...)
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerations = append(tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds})
	}
	return tolerations
}

// affinityOf sends the pod where the storage is or must be. The node is matched by its name and goes through the
// scheduler: spec.nodeName would skip taints and resources, and a hostname label may differ from the name.
func affinityOf(a Attempt) *corev1.Affinity {
	var terms []corev1.NodeSelectorTerm
	switch {
	case a.Request.Operation != contract.Provision && a.Volume != nil && a.Volume.Spec.NodeAffinity != nil && a.Volume.Spec.NodeAffinity.Required != nil:
		terms = a.Volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	case a.Node != "":
		terms = []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{a.Node}}}}}
	default:
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}
