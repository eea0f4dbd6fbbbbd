//go:build e2e

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// example is a folder of examples/, with the names that differ from it.
type example struct {
	name, configMap, account, root string
	// grows says that its claims can be expanded.
	grows bool
	// others are the other classes of the same ConfigMap, and waits is that of them which waits for the first consumer.
	others []string
	waits  string
}

var examples = []example{
	{name: "inline", configMap: "inline", account: "inline", root: nfsRoot},
	{name: "silver", configMap: "custom-iscsi-provisioner", account: "foo", root: nfsRoot, others: []string{"silver-retain", "silver-wait"}, waits: "silver-wait"},
	{name: "nfs-subdir", configMap: "nfs-subdir", account: "nfs-subdir", root: nfsRoot, grows: true},
	{name: "hostpath", configMap: "hostpath", account: "hostpath", root: "/var/lib/flex-hostpath", grows: true},
}

// TestExamples applies each example as its README says, in the namespace default, and cleans up as examples/README.md says.
func TestExamples(t *testing.T) {
	installedAfter(t)
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			s.classes = append(s.classes, &class{s: s, name: e.name, id: e.name})
			s.later(e.removeClass)
			_, err := kubectl(t.Context(), "apply", "--server-side", "--field-manager="+e.name, "-k", "examples/"+e.name)
			s.ok(err)
			claim := s.exampleBound(e.name)
			volume := claim.volumeName()
			s.finished(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: e.name}}, "hello from "+e.name+"\n")
			if !exists(e.root + "/" + volume + "/hello") {
				t.Errorf("%s/%s/hello does not exist", e.root, volume)
			}
			if e.grows {
				claim.grows()
			}
			if e.waits != "" {
				c := (&class{s: s, name: e.waits, id: e.waits}).claim(e.waits)
				s.finished(c.consumer(shared.admin), "hello from "+e.waits+"\n")
				c.delete()
				s.wait(patient, "claim and volume of "+e.waits+" gone", c.left)
			}
			s.finished(claim.consumerOf(shared.admin, leaveClosed, asRoot), "")
			_, err = kubectl(t.Context(), "delete", "--ignore-not-found", "pod/"+e.name, "pvc/"+e.name)
			s.ok(err)
			s.wait(patient, "volume gone", claim.left)
			if exists(e.root + "/" + volume) {
				t.Errorf("%s/%s is left", e.root, volume)
			}
		})
	}
}

// leaveClosed is what a pod of root's leaves of volumes: directories that nobody else may enter, and others' files in these.
const leaveClosed = `cd /data && mkdir -m 0700 closed closed/deep theirs && echo x > closed/deep/file && chown 1234:1234 closed/deep/file theirs && chmod 0700 theirs`

// exampleClaim is the example's claim.
func (s *scope) exampleClaim(name string) *claim {
	s.Helper()
	c := &claim{s: s}
	s.wait(soon, "claim "+name, func() string {
		if c.PersistentVolumeClaim = get[corev1.PersistentVolumeClaim](shared.claims, "default/"+name); c.PersistentVolumeClaim == nil {
			return "it is not there"
		}
		return ""
	})
	return c
}

// exampleBound waits until the example's claim is bound, and returns it.
func (s *scope) exampleBound(name string) *claim {
	s.Helper()
	c := s.exampleClaim(name)
	s.wait(patient, "claim "+name+" bound", c.unbound)
	return c
}

// grows asks for twice the size. The volume is there as before, and a pod that uses it finishes what a node has to do.
func (c *claim) grows() {
	s := c.s
	s.Helper()
	c.ask("2Gi")
	s.wait(patient, "the volume has 2Gi", func() string {
		if has := c.volume().Spec.Capacity[corev1.ResourceStorage]; has.String() != "2Gi" {
			return "it has " + has.String() + showEvents(eventsOn(c.UID))
		}
		return ""
	})
	s.finished(c.consumer(shared.admin), "hello from "+c.Name+"\n")
	c.has("2Gi")
}

// removeClass takes away what the example's class consists of, beside the installation.
func (e example) removeClass(ctx context.Context) error {
	if _, err := kubectl(ctx, "apply", "--server-side", "--field-manager="+e.name, "-k", "deploy/allow-list"); err != nil {
		return err
	}
	core := shared.admin.CoreV1()
	in := contract.ProvisionersNamespace
	for _, name := range append([]string{e.name}, e.others...) {
		if err := shared.admin.StorageV1().StorageClasses().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	for _, err := range []error{
		core.ConfigMaps(in).Delete(ctx, e.configMap, metav1.DeleteOptions{}),
		core.ServiceAccounts(in).Delete(ctx, e.account, metav1.DeleteOptions{}),
		core.PersistentVolumeClaims(in).Delete(ctx, e.name+"-export", metav1.DeleteOptions{}),
		core.PersistentVolumes().Delete(ctx, e.name+"-export", metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
