package docs

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/deploy/policies"
)

// writes are the verbs that admission policies see, with their operations. Of reads and impersonation, admission sees
// nothing.
var writes = map[string]admissionv1.OperationType{
	"create": admissionv1.Create, "update": admissionv1.Update, "patch": admissionv1.Update,
	"delete": admissionv1.Delete, "deletecollection": admissionv1.Delete,
}

// TestDispatcherRole: docs/security.md says of each verb of the dispatcher's roles what holds it. A write is held by
// policies that match it, so that a role which grows without a policy fails here. What no policy sees is accepted, with
// what it is good for.
func TestDispatcherRole(t *testing.T) {
	rules := matched(t)
	var documented []string
	for _, row := range table(t, section(t, "docs/security.md", "## What a stolen token of the dispatcher can do")) {
		where, resource, verbs, heldBy := row[0], plain(row[1]), row[2], plain(row[3])
		if left := row[4]; left == "" {
			t.Errorf("%s: the table does not say what is left", resource)
		}
		for verb := range strings.SplitSeq(verbs, ", ") {
			documented = append(documented, where+": "+verb+" "+resource)
			kind, _, _ := strings.Cut(resource, " ")
			if fault := fault(rules, kind, verb, heldBy); fault != "" {
				t.Errorf("%s %s %s: %s", where, verb, resource, fault)
			}
		}
	}
	same(t, "docs/security.md", documented, granted(t))
}

// plain is a cell without the marks of code.
func plain(cell string) string { return strings.ReplaceAll(cell, "`", "") }

// fault is what is wrong with a cell that says who holds a verb.
func fault(rules map[string][]string, kind, verb, heldBy string) string {
	operation, written := writes[verb]
	if !written {
		if heldBy != "no policy" {
			return "admission does not see it: want no policy, have " + heldBy
		}
		return ""
	}
	for policy := range strings.SplitSeq(heldBy, ", ") {
		if slices.Contains(rules[policy], string(operation)+" "+kind) {
			return ""
		}
	}
	return "none of " + heldBy + " matches " + string(operation)
}

// granted are the verbs of the dispatcher's roles, as the table has them.
func granted(t *testing.T) (list []string) {
	t.Helper()
	for document := range strings.SplitSeq(read(t, "deploy/base/rbac-dispatcher.yaml"), "\n---\n") {
		var role rbacv1.Role // a ClusterRole has no namespace, and is the same otherwise
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		where := role.Namespace
		if role.Kind == "ClusterRole" {
			where = "everywhere"
		}
		for _, rule := range role.Rules {
			for _, verb := range rule.Verbs {
				for _, resource := range resourcesOf(rule) {
					list = append(list, where+": "+verb+" "+resource)
				}
			}
		}
	}
	return list
}

// resourcesOf are a rule's resources with their group, and its names.
func resourcesOf(rule rbacv1.PolicyRule) (list []string) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			list = append(list, strings.Join(append([]string{kindOf(group, resource)}, rule.ResourceNames...), " "))
		}
	}
	return list
}

func kindOf(group, resource string) string {
	if group == "" {
		return resource
	}
	name, sub, found := strings.Cut(resource, "/")
	if found {
		sub = "/" + sub
	}
	return name + "." + group + sub
}

// matched are the operations with their resources that each shipped policy sees.
func matched(t *testing.T) map[string][]string {
	t.Helper()
	files, err := policies.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]string{}
	for _, file := range files {
		for document := range strings.SplitSeq(read(t, "deploy/policies/"+file.Name()), "\n---\n") {
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
				t.Fatal(err)
			}
			if policy.Kind != "ValidatingAdmissionPolicy" {
				continue
			}
			for _, rule := range policy.Spec.MatchConstraints.ResourceRules {
				for _, operation := range rule.Operations {
					for _, resource := range rule.Resources {
						rules[policy.Name] = append(rules[policy.Name], string(operation)+" "+kindOf(rule.APIGroups[0], resource))
					}
				}
			}
		}
	}
	return rules
}
