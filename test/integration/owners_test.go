//go:build integration

package integration

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

var (
	silverLines   = []string{"foo.nfsExports", "foo.privileges", "foo.storageClasses", "foo.volumeTypes"}
	hostpathLines = []string{"hostpath.hostPaths", "hostpath.pathPrefixes", "hostpath.privileges", "hostpath.storageClasses", "hostpath.volumeTypes"}
)

// The base and two classes are three field managers' and come in any order, the base is upgraded, and a class goes: all else stays.
func TestOwnersOfTheAllowList(t *testing.T) {
	t.Parallel()
	o := newOwners(t)
	base := []string{"--server-side", "--field-manager=platform", "-k", "deploy/base"}
	silver := []string{"--server-side", "--field-manager=silver", "-k", "examples/silver"}
	hostpath := []string{"--server-side", "--field-manager=hostpath", "-k", "examples/hostpath"}
	byHand := []string{"-k", "deploy/base"} // client-side, as kubectl does by default
	for _, order := range [][][]string{
		{base, silver, hostpath}, {base, hostpath, silver}, {silver, base, hostpath},
		{hostpath, base, silver}, {silver, hostpath, base}, {hostpath, silver, base},
		{silver, byHand, hostpath},
	} {
		var name []string
		for _, of := range order {
			name = append(name, filepath.Base(of[len(of)-1]))
		}
		t.Run(strings.Join(append(name, order[0][0]), " "), func(t *testing.T) {
			o.reset(t)
			for _, of := range order {
				o.apply(t, of...)
			}
			o.has(t, silverLines, hostpathLines)
			o.apply(t, order[slices.IndexFunc(order, isBase)]...) // an upgrade
			o.has(t, silverLines, hostpathLines)
			o.apply(t, "--server-side", "--field-manager=silver", "-k", "deploy/allow-list")
			o.has(t, hostpathLines)
		})
	}
}

func isBase(args []string) bool { return args[len(args)-1] == "deploy/base" }

// Lines that were applied client-side would be the next class's, and gone with its second request. Both ways to get there are refused.
func TestLinesAppliedClientSide(t *testing.T) {
	t.Parallel()
	o := newOwners(t)
	o.apply(t, "-k", "deploy/base")
	const refused = "lines were applied client-side, so that the next class that is applied would take them all away: use kubectl apply --server-side --field-manager=CLASS"
	eventually(t, func() error {
		_, err := o.server.Kubectl(t.Context(), "apply", "--dry-run=server", "-f", "examples/silver/class/allow-list.yaml")
		if err == nil || !strings.Contains(err.Error(), refused) {
			return fmt.Errorf("answer to lines that are applied client-side: %v", err)
		}
		return nil
	})

	o.reset(t) // an older version, without the policy
	o.apply(t, "-f", "examples/silver/class/allow-list.yaml")
	o.apply(t, "--server-side", "--force-conflicts", "--field-manager=platform", "-k", "deploy/policies")
	hostpath := []string{"apply", "--server-side", "--field-manager=hostpath", "-f", "examples/hostpath/class/allow-list.yaml"}
	eventually(t, func() error {
		_, err := o.server.Kubectl(t.Context(), append(hostpath, "--dry-run=server")...)
		if err == nil || !strings.Contains(err.Error(), refused) {
			return fmt.Errorf("answer to another class: %v", err)
		}
		return nil
	})
	o.has(t, silverLines)
	if _, err := o.server.Kubectl(t.Context(), wayOver(t)...); err != nil {
		t.Fatal(err)
	}
	o.apply(t, hostpath[1:]...)
	o.apply(t, "--server-side", "--field-manager=silver", "-f", "examples/silver/class/allow-list.yaml")
	o.has(t, silverLines, hostpathLines)
	o.apply(t, "--server-side", "--field-manager=silver", "-k", "deploy/allow-list")
	o.has(t, hostpathLines)
}

// wayOver is the command of docs/operations.md after which nobody owns a line.
func wayOver(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(string(text), "kubectl -n flex-system patch configmap flex-pv-policy --type=merge -p '")
	patch, _, ended := strings.Cut(below, "'\n")
	if !found || !ended {
		t.Fatal("docs/operations.md has not the command")
	}
	return []string{"-n", "flex-system", "patch", "configmap", "flex-pv-policy", "--type=merge", "-p", patch}
}

type owners struct {
	server *apiserver.Server
	admin  kubernetes.Interface
}

// newOwners starts an API server with the two namespaces, without which a class cannot be applied.
func newOwners(t *testing.T) owners {
	t.Helper()
	own, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	o := owners{own, own.Client(apiserver.Admin.Token())}
	for _, args := range [][]string{{"create", "namespace", contract.SystemNamespace}, {"create", "namespace", contract.ProvisionersNamespace},
		{"create", "serviceaccount", "default"}} {
		if _, err := own.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// reset takes the allow-list away, with the policy that keeps it from being deleted.
func (o owners) reset(t *testing.T) {
	t.Helper()
	err := o.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "flex-allow-list", metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	lists := o.admin.CoreV1().ConfigMaps(contract.SystemNamespace)
	eventually(t, func() error {
		if err := lists.Delete(t.Context(), "flex-pv-policy", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		// What was applied client-side is accepted once the policy is gone for good.
		_, err := lists.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "flex-pv-policy"}, Data: map[string]string{"x": "y"}}, dryRun)
		return err
	})
}

func (o owners) apply(t *testing.T, args ...string) {
	t.Helper()
	out, err := o.server.Kubectl(t.Context(), append([]string{"apply", "--warnings-as-errors"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "failed") {
		t.Errorf("kubectl apply %v printed %s", args, out)
	}
}

func (o owners) has(t *testing.T, want ...[]string) {
	t.Helper()
	list, err := o.admin.CoreV1().ConfigMaps(contract.SystemNamespace).Get(t.Context(), "flex-pv-policy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(list.Data)); !slices.Equal(got, slices.Concat(want...)) {
		t.Fatalf("the allow-list has %v, want %v; fields are %v", got, slices.Concat(want...), list.ManagedFields)
	}
}
