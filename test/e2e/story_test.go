//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// tellToken notes what the pod has for an identity, and nothing of the identity itself.
const tellToken = `wc -c < "$FLEX_TOKEN_FILE" > "$home/seen/token-$FLEX_PV_NAME"
`

// TestStory is the story that the project was made for: tom, an ordinary user, asks for a volume of class silver.
func TestStory(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.letTom()
	silver := s.class("silver", setting{
		data:      map[string]string{"zone": "west", "use-nfs-server": nfsServer, "node-selector": corev1.LabelHostname + "=node1"},
		provision: tellToken + makeDir + makeVolume,
	})
	c := silver.claimBy(shared.tom, "data")
	c.bound(soon)
	s.checkProperties(c)
	s.checkVolume(c)
	c.consume(shared.tom)

	s.ok(shared.tom.CoreV1().PersistentVolumeClaims(s.name).Delete(t.Context(), c.Name, metav1.DeleteOptions{}))
	c.gone(soon)
	c.ran(contract.Provision, 1)
	c.ran(contract.Delete, 1)
	for _, pod := range append(shared.ran(contract.Provision, c.UID), shared.ran(contract.Delete, c.UID)...) {
		if pod.Spec.NodeName != "node1" {
			t.Errorf("pod %s ran on %s, want node1, which the node selector names", pod.Name, pod.Spec.NodeName)
		}
	}
	if left := s.pods(); len(left) > 0 && left[0].Labels[contract.LabelClaimUID] == string(c.UID) {
		t.Errorf("pod %s is left", left[0].Name)
	}
}

// checkProperties checks that the provision pod was given every property of the story.
func (s *scope) checkProperties(c *claim) {
	s.Helper()
	service, err := shared.admin.CoreV1().Services("default").Get(s.Context(), "kubernetes", metav1.GetOptions{})
	s.ok(err)
	env := c.class.env(contract.Provision, c.volumeName())
	for name, want := range map[string]string{
		"FLEX_OPERATION":       "provision",
		"FLEX_PV_NAME":         c.volumeName(),
		"FLEX_PVC_NAMESPACE":   s.name,
		"FLEX_PVC_NAME":        c.Name,
		"FLEX_PVC_UID":         string(c.UID),
		"FLEX_USERNAME":        "tom",
		"FLEX_GROUPS":          "team-a,system:authenticated",
		"FLEX_STORAGE_CLASS":   c.class.name,
		"FLEX_SIZE_BYTES":      "67108864",
		"FLEX_ACCESS_MODES":    "ReadWriteMany",
		"FLEX_VOLUME_MODE":     "Filesystem",
		"FLEX_NODE":            "node1",
		"FLEX_SERVICE_ACCOUNT": c.class.id,
		"FLEX_TOKEN_FILE":      "/var/run/secrets/kubernetes.io/serviceaccount/token",
		"FLEX_KUBE_API":        "https://" + service.Spec.ClusterIP + ":443",
		"ZONE":                 "west",
		"USE_NFS_SERVER":       nfsServer,
	} {
		if env[name] != want {
			s.Errorf("the pod saw %s=%q, want %q", name, env[name], want)
		}
	}
	if size := c.class.seen("token-" + c.volumeName()); size == "" || size == "0" {
		s.Errorf("the pod's token has %q bytes", size)
	}
}

// checkVolume checks what the pod made. That it exists proves that the API server took the pod's token.
func (s *scope) checkVolume(c *claim) {
	s.Helper()
	v := c.volume()
	nfs, ref := v.Spec.NFS, v.Spec.ClaimRef
	if nfs == nil || nfs.Server != nfsServer || nfs.Path != c.directory() {
		s.Errorf("volume %s has the source %v, want nfs of %s at %s", v.Name, nfs, nfsServer, c.directory())
	}
	if ref == nil || ref.UID != c.UID || v.Annotations[contract.AnnClaimUID] != string(c.UID) {
		s.Errorf("volume %s is for %v, annotation %q, want claim %s", v.Name, ref, v.Annotations[contract.AnnClaimUID], c.UID)
	}
	if !exists(c.directory()) {
		s.Errorf("directory %s does not exist", c.directory())
	}
	made := slices.ContainsFunc(v.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(f.Manager, "flexctl") })
	if !made {
		s.Errorf("volume %s was not made by flexctl: %v", v.Name, v.ManagedFields)
	}
}

// letTom gives the user tom what users have in their own namespaces, and returns his kubeconfig.
func (s *scope) letTom() (kubeconfig string) {
	s.Helper()
	_, err := shared.admin.RbacV1().RoleBindings(s.name).Create(s.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tom"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tom"}},
	}, metav1.CreateOptions{})
	s.ok(err)
	// Rights take a moment to arrive.
	s.wait(soon, "tom may make claims", func() string {
		_, err := shared.tom.CoreV1().PersistentVolumeClaims(s.name).Create(s.Context(), newClaim(s.name, "probe", "", "1Mi"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	return tomsKubeconfig
}
