package podspec

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func onNode(v *corev1.PersistentVolume, source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	v = v.DeepCopy()
	v.Spec.PersistentVolumeSource = source

	return v
}

// What a class allows, and where the data to copy is, bounds where node-local storage comes to be, and not where it is removed.
func TestAffinity(t *testing.T) {
	const name = `"matchFields":[{"key":"metadata.name","operator":"In","values":["node1"]}]`
	const label = `"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["a"]}]`
	zone := []map[string][]string{{"zone": {"west"}}}
	here := onNodes(corev1.PersistentVolumeSource{}, corev1.LabelHostname, "a")
	local := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: matchNodeName("node1")}}}}}}
	for _, c := range []struct {
		what    string
		op      contract.Operation
		network bool
		node    string
		volume  *corev1.PersistentVolume
		source  *corev1.PersistentVolume
		allowed []map[string][]string
		want    string // the terms
	}{
		{what: "any node", op: contract.Provision, want: "none"},
		{what: "network storage", op: contract.Provision, network: true, allowed: zone, want: "none"},
		{what: "network storage, and a node that was selected", op: contract.Provision, network: true, node: "node1", want: "prefers {" + name + "}"},
		{what: "no node", op: contract.Provision, allowed: zone, want: `[{"matchExpressions":[{"key":"zone","operator":"In","values":["west"]}]}]`},
		{what: "a node that was selected", op: contract.Provision, allowed: zone, node: "node1",
			want: `[{"matchExpressions":[{"key":"zone","operator":"In","values":["west"]}],` + name + `}]`},
		{what: "nothing is allowed", op: contract.Provision, allowed: []map[string][]string{{}}, node: "node1", want: `[{}]`},
		{what: "data to copy that is on a node", op: contract.Provision, source: here, want: "[{" + label + "}]"},
		{what: "data to copy that is on a node, where storage may be", op: contract.Provision, source: here, node: "node1", want: "[{" + label + "," + name + "}]"},
		{what: "data to copy that is on a node of a topology", op: contract.Provision, source: here, allowed: zone,
			want: `[{"matchExpressions":[{"key":"zone","operator":"In","values":["west"]},{"key":"kubernetes.io/hostname","operator":"In","values":["a"]}]}]`},
		{what: "data to copy that is on a node, and nothing is allowed", op: contract.Provision, source: here, allowed: []map[string][]string{{}}, want: "[{}]"},
		{what: "data to copy that any node reaches", op: contract.Provision, network: true, source: here, node: "node1", want: "prefers {" + name + "}"},
		{what: "data to copy without nodes", op: contract.Provision, source: onNodes(corev1.PersistentVolumeSource{}), node: "node1", want: "[{" + name + "}]"},
		{what: "undo", op: contract.Delete, allowed: zone, node: "node1", want: "[{" + name + "}]"},
		{what: "delete", op: contract.Delete, allowed: zone, volume: local, want: "[{" + name + "}]"},
		{what: "delete of network storage", op: contract.Delete, network: true, volume: local, want: "prefers {" + name + "}"},
		{what: "delete of a local volume of a class that does not say so", op: contract.Delete, network: true,
			volume: onNode(local, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}), want: "[{" + name + "}]"},
		{what: "expansion of a hostPath volume", op: contract.Expand, network: true,
			volume: onNode(local, corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), want: "[{" + name + "}]"},
	} {
		got := "none"
		affinity := affinityOf(Attempt{Config: &configmaps.Config{NodeLocal: !c.network}, Node: c.node, Volume: c.volume, Source: c.source,
			Request: contract.Request{Operation: c.op, AllowedTopologies: c.allowed}})
		if affinity != nil {
			required, preferred := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			var terms any
			if required != nil {
				terms, got = required.NodeSelectorTerms, ""
			} else {
				terms, got = preferred[0].Preference, "prefers "
			}

			data, err := json.Marshal(terms)
			if err != nil {
				t.Fatal(err)
			}

			got += string(data)
		}

		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestDespite: what keeps other pods off a node keeps no pod off that removes storage there: a cordon, and where the class
// asks for it a lack of disk, memory or processes. A kubelet that lacks these admits a pod by its priority alone.
func TestDespite(t *testing.T) {
	local := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: matchNodeName("node1")}}}}}}
	anywhere := &corev1.PersistentVolume{}
	const cordon, pressed = "node.kubernetes.io/unschedulable", " node.kubernetes.io/disk-pressure node.kubernetes.io/memory-pressure node.kubernetes.io/pid-pressure"
	for _, c := range []struct {
		what     string
		op       contract.Operation
		network  bool
		pressure bool
		node     string
		volume   *corev1.PersistentVolume
		want     string // the tolerations, and the PriorityClass
	}{
		{what: "provision", op: contract.Provision, pressure: true, node: "node1", want: " storage"},
		{what: "expand", op: contract.Expand, pressure: true, volume: local, want: " storage"},
		{what: "delete", op: contract.Delete, volume: local, want: cordon + " storage"},
		{what: "delete under pressure", op: contract.Delete, pressure: true, volume: local, want: cordon + pressed + " system-node-critical"},
		{what: "undo", op: contract.Delete, node: "node1", want: cordon + " storage"},
		{what: "undo of nobody knows which node", op: contract.Delete, pressure: true, want: " storage"},
		{what: "delete of what every node reaches", op: contract.Delete, pressure: true, volume: anywhere, want: " storage"},
		{what: "delete of network storage", op: contract.Delete, network: true, pressure: true, volume: local, want: " storage"},
		{what: "delete of a local volume of a class that does not say so", op: contract.Delete, network: true,
			volume: onNode(local, corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}), want: cordon + " storage"},
	} {
		config := &configmaps.Config{NodeLocal: !c.network, DeleteUnderPressure: c.pressure, PriorityClassName: "storage"}
		a := Attempt{Config: config, Node: c.node, Volume: c.volume, Request: contract.Request{Operation: c.op}}
		var keys []string
		for _, toleration := range tolerationsOf(a) {
			if toleration.Effect == corev1.TaintEffectNoSchedule && toleration.Operator == corev1.TolerationOpExists {
				keys = append(keys, toleration.Key)
			}
		}

		if got := strings.Join(keys, " ") + " " + priorityClassOf(a); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestLargestVolumeFits: a volume that is as large as the policy flex-pv-by-provisioner-pod lets a pod make it, with
// large properties, goes into the annotations of the pod that deletes it.
func TestLargestVolumeFits(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	identity := contract.Identity{Properties: map[string]string{}}
	for i := range 8 {
		identity.Properties["property-"+strconv.Itoa(i)] = long(1980)
	}

	frozen, err := json.Marshal(identity)
	if err != nil {
		t.Fatal(err)
	}

	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", Labels: map[string]string{},
		Annotations: map[string]string{contract.AnnIdentity: string(frozen)}}}
	for i := range 4 {
		v.Annotations["example.com/"+strconv.Itoa(i)] = long(4096 - 13)
	}

	for i := range 32 {
		v.Labels["example.com/"+strconv.Itoa(i)+long(50)] = long(63)
	}

	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: long(1024),
		VolumeAttributes: map[string]string{}}
	for i := range 4 {
		v.Spec.CSI.VolumeAttributes[strconv.Itoa(i)] = long(4095)
	}

	values := make([]string, 256)
	for i := range values {
		values[i] = long(63)
	}

	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: values}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}}}}
	config := &configmaps.Config{StorageClass: "x", Image: "example.com/x", ServiceAccountName: "x"}
	_, err = Build(Attempt{Config: config, Volume: v, Request: contract.Request{
		Operation: contract.Delete, VolumeName: v.Name, StorageClass: "x", Identity: identity,
		Claim: contract.Claim{Namespace: "team", Name: "data", UID: "1"}}}, Cluster{})
	if err != nil {
		t.Error(err)
	}
}

// TestRequiredNodes: a pod has to run on the nodes that all of its terms name.
func TestRequiredNodes(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	byLabel := func(list ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: list}
	}
	byField := corev1.NodeSelectorTerm{MatchFields: matchNodeName("b")}
	for name, c := range map[string]struct {
		affinity *corev1.Affinity
		want     string
	}{
		"no affinity":         {nil, ""},
		"preferred":           {preferring([]corev1.NodeSelectorTerm{byField}), ""},
		"by its name":         {requiring([]corev1.NodeSelectorTerm{byField}), "b"},
		"by its label":        {requiring([]corev1.NodeSelectorTerm{byLabel(in("zone", "x"), in(corev1.LabelHostname, "a"))}), "a"},
		"one of two":          {requiring([]corev1.NodeSelectorTerm{byField, byLabel(in(corev1.LabelHostname, "a"))}), "b a"},
		"or any of a zone":    {requiring([]corev1.NodeSelectorTerm{byField, byLabel(in("zone", "x"))}), ""},
		"another than a node": {requiring([]corev1.NodeSelectorTerm{byLabel(corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"a"}})}), ""},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: c.affinity}}
		if got := strings.Join(RequiredNodes(pod), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestOnlyNode: one of several nodes is not the only one.
func TestOnlyNode(t *testing.T) {
	named := func(nodes ...string) *corev1.Affinity {
		var terms []corev1.NodeSelectorTerm
		for _, node := range nodes {
			terms = append(terms, corev1.NodeSelectorTerm{MatchFields: matchNodeName(node)})
		}

		return requiring(terms)
	}
	for name, c := range map[string]struct {
		affinity *corev1.Affinity
		selector map[string]string
		want     string
	}{
		"any":          {nil, map[string]string{corev1.LabelOSStable: "linux"}, ""},
		"by affinity":  {named("a"), nil, "a"},
		"one of two":   {named("a", "b"), nil, ""},
		"by its label": {nil, map[string]string{corev1.LabelHostname: "c"}, "c"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Affinity: c.affinity, NodeSelector: c.selector}}
		if got := OnlyNode(pod); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestUntolerated: the taints that keep a pod off a node, and no others.
func TestUntolerated(t *testing.T) {
	seconds := int64(60)
	for name, c := range map[string]struct {
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		want        string
	}{
		"none":      {nil, nil, ""},
		"preferred": {[]corev1.Taint{{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule}}, nil, ""},
		"two": {[]corev1.Taint{{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoExecute}},
			nil, "a=x:NoSchedule b:NoExecute"},
		"one is tolerated": {[]corev1.Taint{{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoExecute}},
			[]corev1.Toleration{{Key: "a", Value: "x"}}, "b:NoExecute"},
		"all are tolerated": {[]corev1.Taint{{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule}},
			[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, ""},
		"another value": {[]corev1.Taint{{Key: "a", Value: "x", Effect: corev1.TaintEffectNoSchedule}},
			[]corev1.Toleration{{Key: "a", Value: "y"}}, "a=x:NoSchedule"},
		"an unreachable node": {[]corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}, {Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}},
			[]corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds}},
			"node.kubernetes.io/unreachable:NoSchedule"},
	} {
		pod, node := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.tolerations}}, &corev1.Node{Spec: corev1.NodeSpec{Taints: c.taints}}
		if got := strings.Join(Untolerated(pod, node), " "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestNodeLocal: only where all terms name nodes, and require labels alone, somebody can tell whether a node has the storage.
func TestNodeLocal(t *testing.T) {
	requires := func(key string, operator corev1.NodeSelectorOperator, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	}
	hostname := func(values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: requires(corev1.LabelHostname, corev1.NodeSelectorOpIn, values...)}
	}
	for _, c := range []struct {
		name    string
		network bool
		terms   []corev1.NodeSelectorTerm
		want    string
	}{
		{name: "a node", terms: []corev1.NodeSelectorTerm{hostname("node1")}, want: "[node1] [kubernetes.io/hostname in (node1)]"},
		{name: "some nodes", terms: []corev1.NodeSelectorTerm{hostname("node1", "node2"), hostname("node3")},
			want: "[node1 node2 node3] [kubernetes.io/hostname in (node1,node2) kubernetes.io/hostname in (node3)]"},
		{name: "over the network", network: true, terms: []corev1.NodeSelectorTerm{hostname("node1")}, want: "[] []"},
		{name: "any node", want: "[] []"},
		{name: "a zone", terms: []corev1.NodeSelectorTerm{{MatchExpressions: requires(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "a")}}, want: "[] []"},
		{name: "a node, or a zone", terms: []corev1.NodeSelectorTerm{hostname("node1"),
			{MatchExpressions: requires(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, "a")}}, want: "[] []"},
		{name: "all nodes but one", terms: []corev1.NodeSelectorTerm{{MatchExpressions: requires(corev1.LabelHostname, corev1.NodeSelectorOpNotIn, "node1")}}, want: "[] []"},
		{name: "a field", terms: []corev1.NodeSelectorTerm{{MatchFields: requires(fieldName, corev1.NodeSelectorOpIn, "node1")}}, want: "[] []"},
		{name: "a comparison", terms: []corev1.NodeSelectorTerm{{MatchExpressions: append(requires("disks", corev1.NodeSelectorOpGt, "1"),
			hostname("node1").MatchExpressions...)}}, want: "[] []"},
	} {
		v := &corev1.PersistentVolume{}
		if len(c.terms) > 0 {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: c.terms}}
		}

		names, selectors, ok := NodeLocal(&configmaps.Config{NodeLocal: !c.network}, v)
		if got := fmt.Sprint(names, selectors); got != c.want || ok != (c.want != "[] []") {
			t.Errorf("%s: %s %t, want %s", c.name, got, ok, c.want)
		}
	}
}
