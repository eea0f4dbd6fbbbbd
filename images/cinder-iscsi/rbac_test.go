package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
)

// rbac.yaml grants what the provisioner does, and nothing else.
func TestRBAC(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var granted []string
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				granted = append(granted, verb+" "+strings.Join(rule.Resources, ","))
			}
		}
	}
	verbs := map[string]string{"POST secrets": "create secrets", "PUT secrets": "update secrets", "DELETE secrets": "delete secrets",
		"GET nodes": "list nodes", "POST persistentvolumes": ""}
	var used []string
	s := newStage(t)
	s.cluster.SetFault(func(int, string) apiserver.Fault { return apiserver.Fault{} })
	s.provision(t.Context()).want(t, 0, "")
	s.provision(t.Context()).want(t, 0, "") // finds the Secret
	s.delete(t.Context()).want(t, 0, "")
	for _, call := range s.cluster.Calls() {
		verb, known := verbs[call]
		if !known {
			t.Errorf("call %s", call)
		}
		if verb != "" && !slices.Contains(used, verb) {
			used = append(used, verb)
		}
	}
	slices.Sort(granted)
	slices.Sort(used)
	if !slices.Equal(granted, used) {
		t.Errorf("granted %q, used %q", granted, used)
	}
}
