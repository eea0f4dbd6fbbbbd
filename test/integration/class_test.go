//go:build integration

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/class"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// TestClassByOneCommand makes two classes as kubectl flex class does, changes one, and looks for what they lack.
func TestClassByOneCommand(t *testing.T) {
	cluster, err := class.New(server.Config(apiserver.Admin.Token()))
	if err != nil {
		t.Fatal(err)
	}
	admin := server.Client(apiserver.Admin.Token())
	made := func(name string, data, grants map[string]string) class.Class {
		merged := map[string]string{"image": "example.com/x"}
		maps.Copy(merged, data)
		return class.Class{Name: name, Place: class.Default(), Data: merged, Grants: grants}
	}
	apply := func(c class.Class, dry bool) error {
		t.Helper()
		objects, err := c.Objects()
		if err != nil {
			return err
		}
		for _, o := range objects {
			if _, err := cluster.Apply(t.Context(), c.Name, o, dry); err != nil {
				return err
			}
		}
		return nil
	}
	lines := func() []string {
		t.Helper()
		list, err := admin.CoreV1().ConfigMaps(contract.SystemNamespace).Get(t.Context(), "flex-pv-policy", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(list.Data))
	}
	before := lines()
	one := made("made-one", map[string]string{"zone": "west"}, map[string]string{"volumeTypes": "nfs", "nfsExports": "10.0.0.1:/srv"})
	one.Export = "10.0.0.1:/srv"
	two := made("made-two", map[string]string{"secrets": "made-login", "mount-claims": "made-export:/export"}, map[string]string{"volumeTypes": "hostPath"})

	if err := apply(one, true); err != nil {
		t.Fatal(err)
	}
	if now := lines(); !slices.Equal(now, before) {
		t.Fatalf("a dry run left the lines %v, before %v", now, before)
	}
	for _, c := range []class.Class{one, two} {
		if err := apply(c, false); err != nil {
			t.Fatal(err)
		}
	}
	one.Grants = map[string]string{"volumeTypes": "nfs,local"}
	if err := apply(one, false); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(append(slices.Clone(before), "made-one.storageClasses", "made-one.volumeTypes", "made-two.storageClasses", "made-two.volumeTypes")))
	if now := lines(); !slices.Equal(now, want) {
		t.Errorf("the allow-list has %v, want %v", now, want)
	}

	check := func(name string, want ...string) {
		t.Helper()
		report, err := cluster.Check(t.Context(), name, class.Default())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(report.Missing, want) || len(report.Unknown) > 0 {
			t.Errorf("class %s lacks\n%s\nnot checked %q; want\n%s", name, strings.Join(report.Missing, "\n"), report.Unknown, strings.Join(want, "\n"))
		}
	}
	const list = "ConfigMap flex-system/flex-pv-policy: "
	// Another test may have had a controller bind it.
	if _, err := admin.CoreV1().PersistentVolumeClaims(contract.ProvisionersNamespace).Patch(t.Context(), "silver-export", types.MergePatchType,
		[]byte(`{"status": {"phase": "Pending"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	check("silver", "claim flex-provisioners/silver-export is not bound, and pods that mount it do not start: kubectl -n flex-provisioners describe pvc silver-export says why")
	check("silver-wait", "claim flex-provisioners/silver-export is not bound, and pods that mount it do not start: kubectl -n flex-provisioners describe pvc silver-export says why")
	check("made-one", list+"data[made-one.pathPrefixes] is missing: volumes of type local need it",
		"claim flex-provisioners/made-one-export is not bound, and pods that mount it do not start: kubectl -n flex-provisioners describe pvc made-one-export says why")
	check("made-two", list+"data[made-two.pathPrefixes] is missing: volumes of type hostPath need it",
		"Secret flex-provisioners/made-login does not exist: create it, data[secrets] of ConfigMap made-two names it",
		"claim flex-provisioners/made-export does not exist: create it, data[mount-claims] of ConfigMap made-two names it")
	check("made-none", "StorageClass made-none does not exist: create it with provisioner flex-provisioner.io/dispatcher",
		"namespace flex-provisioners has no ConfigMap of class made-none: create one with the labels storage-class: made-none and type: provisioner-config")

	configs := admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	if _, err := configs.Patch(t.Context(), "made-one", types.MergePatchType, []byte(`{"data": {"zone": "east", "timeout": "never"}}`), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
		t.Fatal(err)
	}
	check("made-one", `ConfigMap flex-provisioners/made-one: data[timeout]: Invalid value: "never": must be a duration with its unit, such as 90s, 10m or 1h30m`)
	err = apply(one, false)
	if !apierrors.IsConflict(err) || !strings.Contains(fmt.Sprint(err), `conflict with "somebody" using v1: .data.zone`) {
		t.Errorf("answer to a field that somebody else changed: %v", err)
	}
	if err := admin.StorageV1().StorageClasses().Delete(t.Context(), "made-one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := admin.CoreV1().ServiceAccounts(contract.ProvisionersNamespace).Delete(t.Context(), "made-two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if report, err := cluster.Check(t.Context(), "made-two", class.Default()); err != nil || !slices.Contains(report.Missing, "ServiceAccount flex-provisioners/made-two does not exist: create it") {
		t.Errorf("class made-two lacks %q, %v", report.Missing, err)
	}

	tom, err := class.New(server.Config(users[0].Token()))
	if err != nil {
		t.Fatal(err)
	}
	report, err := tom.Check(t.Context(), "silver", class.Default())
	if err == nil && len(report.Unknown) == 0 {
		t.Errorf("tom, who may see none of it, is told %q", report.Missing)
	}
	if _, err := cluster.Check(t.Context(), "../namespaces", class.Default()); err == nil {
		t.Error("a name that is none is looked for")
	}
}
