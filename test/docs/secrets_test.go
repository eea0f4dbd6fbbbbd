package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestNobodyReadsSecrets: docs/security.md says who may read Secrets. Who may patch one reads it too: a patch can copy
// a value to a place where the API server's validation quotes it.
func TestNobodyReadsSecrets(t *testing.T) {
	readers := map[string]string{"flex-provisioner-admin": "",
		"flex-dispatcher": "flex-provisioner-record-key"} // and the only Secret, empty for all
	roles, found := 0, map[string]bool{}
	for _, folder := range []string{"deploy", "images", "examples"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".yaml" || strings.Contains(path, "helm") {
				return err
			}
			data, err := os.ReadFile(path)
			for document := range strings.SplitSeq(string(data), "\n---\n") {
				var role rbacv1.ClusterRole
				if yaml.Unmarshal([]byte(document), &role) != nil || role.Kind != "Role" && role.Kind != "ClusterRole" {
					continue
				}
				roles++
				for _, rule := range role.Rules {
					only, allowed := readers[role.Name]
					named := only == "" || slices.Equal(rule.ResourceNames, []string{only})
					if !reads(rule) {
						continue
					}
					found[role.Name] = true
					if !allowed || !named {
						t.Errorf("%s: %s %s may read Secrets, by %s", path, role.Kind, role.Name, rule.Verbs)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if roles < 8 || len(found) != len(readers) {
		t.Errorf("of %d roles %d read Secrets, want %d: is this test outdated?", roles, len(found), len(readers))
	}
}

// reads reports whether a rule lets somebody learn what is in Secrets.
func reads(rule rbacv1.PolicyRule) bool {
	of := func(list []string, names ...string) bool {
		return slices.ContainsFunc(list, func(name string) bool { return name == "*" || slices.Contains(names, name) })
	}
	return of(rule.APIGroups, "") && of(rule.Resources, "secrets") && of(rule.Verbs, "get", "list", "watch", "patch")
}
