package podspec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func nodeSelectorOf(config *configmaps.Config) map[string]string {
	selector := map[string]string{corev1.LabelOSStable: "linux"}
	maps.Copy(selector, config.NodeSelector)

	return selector
}

// lostNodeSeconds is how long a pod stays on a node that is not ready or unreachable. Kubernetes' default is five
// minutes, but an attempt on a lost node blocks the next one.
const lostNodeSeconds = int64(60)

// pressureTaints keep pods off a node that lacks memory, disk or processes.
var pressureTaints = []string{
	corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure, corev1.TaintNodePIDPressure,
}

// nodeCritical is the PriorityClass of pods that a kubelet admits while its node is under pressure. A toleration alone
// would only have the kubelet refuse the pod.
const nodeCritical = "system-node-critical"

// tolerationsOf lets a pod run that removes storage of one node, although the node is cordoned: nothing else can remove
// it, and it makes room. While the node is under pressure it takes a PriorityClass, too.
func tolerationsOf(a Attempt) []corev1.Toleration {
	seconds := lostNodeSeconds
	tolerations := append([]corev1.Toleration{}, a.Config.Tolerations...)

	var despite []string
	if a.deletesOnNode() {
		despite = append(despite, corev1.TaintNodeUnschedulable)
	}

	if a.critical() {
		despite = append(despite, pressureTaints...)
	}

	for _, key := range despite {
		tolerations = append(tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}

	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerations = append(tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}

	return tolerations
}

// deletesOnNode reports whether the pod removes storage that is on one node, and is bound to that node.
func (a Attempt) deletesOnNode() bool {
	_, placed := nodesOf(a.Volume)
	local := a.Config.NodeLocal || a.Volume != nil && isLocal(a.Volume)
	bound := placed || a.Node != ""

	removes := a.Request.Operation == contract.Delete || a.Request.Operation == contract.DeleteSnapshot

	return removes && local && bound
}

// critical reports whether the pod may remove storage of its node while the node is under pressure.
func (a Attempt) critical() bool { return a.Config.DeleteUnderPressure && a.deletesOnNode() }

func priorityClassOf(a Attempt) string {
	if a.critical() {
		return nodeCritical
	}

	return a.Config.PriorityClassName
}

// RequiredTerms says which nodes a pod has to run on, by the requirements of its node affinity; empty for any.
func RequiredTerms(pod *corev1.Pod) string { return termsText(requiredTerms(pod)) }

// NodesOf says which nodes have a volume's storage, by the requirements of its node affinity; empty for any. The cache
// keeps no node affinity of volumes.
func NodesOf(v *corev1.PersistentVolume) string {
	terms, _ := nodesOf(v)
	return termsText(terms)
}

func termsText(terms []corev1.NodeSelectorTerm) string {
	var alternatives []string
	for _, term := range terms {
		var all []string
		for _, r := range slices.Concat(term.MatchFields, term.MatchExpressions) {
			all = append(all, fmt.Sprintf("%s %s (%s)", r.Key, r.Operator, strings.Join(r.Values, ", ")))
		}

		alternatives = append(alternatives, strings.Join(all, " and "))
	}

	return Clip(OneLine(strings.Join(alternatives, " or ")), MaxEvent/4)
}

// affinityOf puts the pod on a node that has the storage or is to have it. A volume of another type than local and
// hostPath is reached over the network: its nodes are only preferred, since a provisioner wrote them, and a pod that no
// node meets would keep the storage for ever.
//
// Node-local storage is made where the pod runs, so its pod is bound to the class's allowedTopologies. The scheduler
// obeys them for claims with WaitForFirstConsumer, but the claim's author can write the annotation with the selected
// node. For network storage the consumer's node is only preferred: the class's node-selector or mounts may not allow
// it.
func affinityOf(a Attempt) *corev1.Affinity {
	if a.Request.Operation == contract.Provision {
		return provisionAffinity(a)
	}

	terms, placed := nodesOf(a.Volume)
	switch {
	case placed && !a.Config.NodeLocal && !isLocal(a.Volume):
		return preferring(terms)
	case placed:
		return requiring(terms)
	case a.Node != "":
		return requiring([]corev1.NodeSelectorTerm{{MatchFields: matchNodeName(a.Node)}})
	}

	return nil
}

// provisionAffinity binds the pod of a node-local class to nodes that are in the class's allowedTopologies, have the
// snapshot to restore, and are the node that was selected. A snapshot that is on a node cannot be copied elsewhere. So
// its nodes come before the consumer's: once the volume exists, the scheduler moves the consumer to it.
func provisionAffinity(a Attempt) *corev1.Affinity {
	var node, terms []corev1.NodeSelectorTerm
	if a.Node != "" {
		node = []corev1.NodeSelectorTerm{{MatchFields: matchNodeName(a.Node)}}
	}

	for _, topology := range a.Request.AllowedTopologies {
		terms = append(terms, termOf(topology))
	}

	source, _ := nodesOf(a.Source)
	terms = both(both(terms, source), node)
	switch {
	case a.Config.NodeLocal && len(terms) > 0:
		return requiring(terms)
	case !a.Config.NodeLocal && len(node) > 0:
		return preferring(node)
	}

	return nil
}

// both are the terms that match the nodes which terms of one and of the other match. No terms match every node, and a
// term without requirements matches none.
func both(one, other []corev1.NodeSelectorTerm) (terms []corev1.NodeSelectorTerm) {
	if len(one) == 0 || len(other) == 0 {
		return slices.Concat(one, other)
	}

	for _, a := range one {
		for _, b := range other {
			term := corev1.NodeSelectorTerm{}
			if !matchesNone(a) && !matchesNone(b) {
				term.MatchExpressions = slices.Concat(a.MatchExpressions, b.MatchExpressions)
				term.MatchFields = slices.Concat(a.MatchFields, b.MatchFields)
			}

			terms = append(terms, term)
		}
	}

	return terms
}

func matchesNone(term corev1.NodeSelectorTerm) bool {
	return len(term.MatchExpressions)+len(term.MatchFields) == 0
}

// Hostname is the label kubernetes.io/hostname by which a volume selects its only node, empty where it does not.
func Hostname(v *corev1.PersistentVolume) string {
	terms, _ := nodesOf(v)
	if len(terms) != 1 {
		return ""
	}

	for _, r := range terms[0].MatchExpressions {
		if r.Key == corev1.LabelHostname && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}

	return ""
}

// Placed reports whether a volume requires nodes.
func Placed(v *corev1.PersistentVolume) bool {
	_, placed := nodesOf(v)
	return placed
}

// nodesOf are the terms of a volume's required node affinity. placed reports whether it has one.
func nodesOf(v *corev1.PersistentVolume) (terms []corev1.NodeSelectorTerm, placed bool) {
	if v == nil || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil, false
	}

	return v.Spec.NodeAffinity.Required.NodeSelectorTerms, true
}

// isLocal reports whether a volume is a directory or disk of a node.
func isLocal(v *corev1.PersistentVolume) bool { return v.Spec.Local != nil || v.Spec.HostPath != nil }

// RequiredNodes are the nodes that a pod has to run on, empty where it may run on others, or where that depends on
// other labels than their names.
func RequiredNodes(pod *corev1.Pod) []string { return namedNodes(requiredTerms(pod)) }

// OnlyNode is the node that a pod has to run on, by its name or its label; empty where others may take the pod.
func OnlyNode(pod *corev1.Pod) string {
	names := RequiredNodes(pod)
	if len(names) == 1 {
		return names[0]
	}

	return pod.Spec.NodeSelector[corev1.LabelHostname]
}

// Untolerated are the taints for which a node does not take a pod, as kubectl writes them.
func Untolerated(pod *corev1.Pod, node *corev1.Node) (taints []string) {
	for _, taint := range node.Spec.Taints {
		tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Logger{}, &taint, true)
		})

		if !tolerated && taint.Effect != corev1.TaintEffectPreferNoSchedule {
			taints = append(taints, taint.ToString())
		}
	}

	return taints
}

// namedNodes are the values by which the terms name nodes, empty unless each of them does.
func namedNodes(terms []corev1.NodeSelectorTerm) (names []string) {
	for _, term := range terms {
		before := len(names)
		for _, r := range slices.Concat(term.MatchFields, term.MatchExpressions) {
			named := r.Key == fieldName || r.Key == corev1.LabelHostname
			if named && r.Operator == corev1.NodeSelectorOpIn && len(names) == before {
				names = append(names, r.Values...)
			}
		}

		if len(names) == before {
			return nil
		}
	}

	return names
}

// requiredTerms are those of a pod's required node affinity.
func requiredTerms(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil {
		return nil
	}

	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return nil
	}

	return required.NodeSelectorTerms
}

// NodeLocal says which nodes have the storage of a volume, if it is on nodes that its node affinity names: the values
// by which it does, and for each of its terms a selector of the labels of nodes. Of other nodes nobody can tell
// whether they had the storage. So ok is false for terms that name no node, and for those that require more than
// labels.
func NodeLocal(
	config *configmaps.Config, v *corev1.PersistentVolume,
) (names []string, selectors []labels.Selector, ok bool) {
	terms, placed := nodesOf(v)
	local := config.NodeLocal || isLocal(v)
	names = namedNodes(terms)
	if !placed || !local || len(names) == 0 {
		return nil, nil, false
	}

	for _, term := range terms {
		selector, err := selectorOf(term)
		if err != nil {
			return nil, nil, false
		}

		selectors = append(selectors, selector)
	}

	return names, selectors, true
}

// selectorOf is the selector of the labels that a term requires. A requirement of a node's fields is an error, as are
// comparisons of numbers.
func selectorOf(term corev1.NodeSelectorTerm) (labels.Selector, error) {
	if len(term.MatchFields) > 0 {
		return nil, errors.New("the term requires more than labels")
	}

	selector := &metav1.LabelSelector{}
	for _, r := range term.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator), Values: r.Values})
	}

	return metav1.LabelSelectorAsSelector(selector)
}

// fieldName is the field of a node that has its name.
const fieldName = "metadata.name"

// requiring allows only the nodes that one of the terms matches.
func requiring(terms []corev1.NodeSelectorTerm) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// preferring prefers the nodes that one of the terms matches.
func preferring(terms []corev1.NodeSelectorTerm) *corev1.Affinity {
	var preferred []corev1.PreferredSchedulingTerm
	for _, term := range terms {
		preferred = append(preferred, corev1.PreferredSchedulingTerm{Weight: 100, Preference: term})
	}

	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: preferred,
	}}
}

// termOf matches the nodes of a topology. In Kubernetes a topology without labels matches no node, as a term without
// requirements does.
func termOf(topology map[string][]string) corev1.NodeSelectorTerm {
	var term corev1.NodeSelectorTerm
	for _, key := range slices.Sorted(maps.Keys(topology)) {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: topology[key]})
	}

	return term
}

// matchNodeName matches a node by its name. It leaves the choice to the scheduler: spec.nodeName would skip taints and
// resources. The label kubernetes.io/hostname may differ from the name.
func matchNodeName(node string) []corev1.NodeSelectorRequirement {
	byName := corev1.NodeSelectorRequirement{
		Key: fieldName, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
	}

	return []corev1.NodeSelectorRequirement{byName}
}
