package inspect

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
)

// noTopology is the cause of claims whose class allows volumes on no node that there is. Without the nodes, it is not
// known.
func (o *Objects) noTopology(class *storagev1.StorageClass) (c Cause, none bool) {
	if !restricted(class) || len(o.Nodes) == 0 || slices.ContainsFunc(o.Nodes, func(n *corev1.Node) bool { return allows(class, n) }) {
		return c, false
	}

	return explain(reasonTopology, fmt.Sprintf("no node of %d has %s, which the allowedTopologies of StorageClass %s ask for",
		len(o.Nodes), topologies(class), class.Name), true), true
}

// restricted reports whether the scheduler goes by the class's allowedTopologies.
func restricted(class *storagev1.StorageClass) bool {
	return class != nil && len(class.AllowedTopologies) > 0 && class.VolumeBindingMode != nil &&
		*class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// Restricted reports whether nodes decide about one of the classes that are the dispatcher's.
func (o *Objects) Restricted(list []*storagev1.StorageClass) bool {
	return slices.ContainsFunc(list, func(class *storagev1.StorageClass) bool {
		return classes.Ours(class, o.Dispatcher.Provisioner) && restricted(class)
	})
}

func allows(class *storagev1.StorageClass, node *corev1.Node) bool {
	return slices.ContainsFunc(class.AllowedTopologies, func(term corev1.TopologySelectorTerm) bool {
		lacks := slices.ContainsFunc(term.MatchLabelExpressions, func(r corev1.TopologySelectorLabelRequirement) bool {
			value, has := node.Labels[r.Key]
			return !has || !slices.Contains(r.Values, value)
		})

		return len(term.MatchLabelExpressions) > 0 && !lacks
	})
}

// topologies are the labels that the class asks for.
func topologies(class *storagev1.StorageClass) string {
	var terms []string
	for _, term := range class.AllowedTopologies {
		var labels []string
		for _, r := range term.MatchLabelExpressions {
			labels = append(labels, fmt.Sprintf("%s=%s", r.Key, strings.Join(r.Values, "|")))
		}

		terms = append(terms, strings.Join(labels, " and "))
	}

	return strings.Join(terms, ", or ")
}
