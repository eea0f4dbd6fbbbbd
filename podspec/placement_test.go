package podspec

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// What a class allows bounds where node-local storage comes to be, and not where it is removed.
func TestAllowedTopologies(t *testing.T) {
	const name = `"matchFields":[{"key":"metadata.name","operator":"In","values":["node1"]}]`
	zone := []map[string][]string{{"zone": {"west"}}}
	local := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: matchNodeName("node1")}}}}}}
	for _, c := range []struct {
		what    string
		op      contract.Operation
		network bool
		node    string
		volume  *corev1.PersistentVolume
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
		{what: "undo", op: contract.Delete, allowed: zone, node: "node1", want: "[{" + name + "}]"},
		{what: "delete", op: contract.Delete, allowed: zone, volume: local, want: "[{" + name + "}]"},
	} {
		got := "none"
		affinity := affinityOf(Attempt{Config: &configmaps.Config{NodeLocal: !c.network}, Node: c.node, Volume: c.volume,
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
