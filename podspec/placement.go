package podspec

import (
	"maps"
	"slices"

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

// affinityOf sends the pod where the storage is or must be. Node-local storage comes to be where the pod runs, so that
// its pod keeps to the class's allowedTopologies. The scheduler heeds them for claims that wait for their first consumer,
// but the claim's author can write which node it selected. Of network storage the consumer's node is a wish: the class may
// let its pods run on other nodes alone, by its node-selector or by what they mount.
func affinityOf(a Attempt) *corev1.Affinity {
	provision := a.Request.Operation == contract.Provision
	var terms []corev1.NodeSelectorTerm
	switch {
	case !provision && a.Volume != nil && a.Volume.Spec.NodeAffinity != nil && a.Volume.Spec.NodeAffinity.Required != nil:
		terms = a.Volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	case provision && a.Config.NodeLocal && len(a.Request.AllowedTopologies) > 0:
		for _, topology := range a.Request.AllowedTopologies {
			terms = append(terms, termOf(topology, a.Node))
		}
	case provision && !a.Config.NodeLocal && a.Node != "":
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: named(a.Node)}}}}}
	case a.Node != "":
		terms = []corev1.NodeSelectorTerm{{MatchFields: named(a.Node)}}
	default:
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
}

// termOf matches the nodes of a topology, of which node is the only one where it is not empty. Kubernetes says that a
// topology without labels matches no node, as a term without requirements does.
func termOf(topology map[string][]string, node string) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for _, key := range slices.Sorted(maps.Keys(topology)) {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: topology[key]})
	}
	if node != "" && len(topology) > 0 {
		term.MatchFields = named(node)
	}
	return term
}

// named matches a node by its name and goes through the scheduler: spec.nodeName would skip taints and resources, and a
// hostname label may differ from the name.
func named(node string) []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}
}
