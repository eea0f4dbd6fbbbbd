//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestFilledISCSI logs in to the cluster's tgtd for real. The kubelet does too, by the stand-in of its initiator, and the consumer reads
// what the provisioner wrote.
func TestFilledISCSI(t *testing.T) {
	const folder = "use-case-2-iscsi-filled"
	s := begin(t)
	s.tgtd()
	golden := nfsRoot + "/golden"
	s.later(func(context.Context) error { return os.RemoveAll(golden) })
	s.ok(openDir(golden))
	_, err := command(s.Context(), "sh", "-euc", `cd "$1"; echo welcome > index.html; tar -czf site.tar.gz index.html; rm index.html`, "-", golden)
	s.ok(err)
	s.chap("iscsi")
	s.loadExample(folder)
	s.example(folder)
	v := s.volumeOf(folder)
	if i := v.Spec.ISCSI; i == nil || i.FSType != "ext4" || !i.SessionCHAPAuth || i.SecretRef == nil || i.SecretRef.Namespace != "iscsi" {
		s.Errorf("the volume's source is %+v", v.Spec.PersistentVolumeSource)
	}
	s.consumed(folder, "hello from "+folder, "welcome")
	s.exampleGone(folder)
	s.onNode("test -z \"$(ls /var/lib/flex-iscsi)\"")
	s.noTarget(v.Name)
}

// chap makes the Secret iscsi-chap of the cluster's tgtd, for provisioner pods and, in a namespace of its own, for nodes.
func (s *scope) chap(namespace string) {
	s.Helper()
	core := shared.admin.CoreV1()
	s.later(func(ctx context.Context) error {
		return errors.Join(core.Secrets(contract.ProvisionersNamespace).Delete(ctx, "iscsi-chap", metav1.DeleteOptions{}),
			core.Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}))
	})
	_, err := core.Namespaces().Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	s.ok(err)
	for _, in := range []string{contract.ProvisionersNamespace, namespace} {
		_, err := core.Secrets(in).Create(s.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "iscsi-chap"}, Type: "kubernetes.io/iscsi-chap",
			StringData: map[string]string{"node.session.auth.username": "chap-user", "node.session.auth.password": "chap-password-1"}}, metav1.CreateOptions{})
		s.ok(err)
	}
}

// tgtd gives the node the directories by which pods reach the cluster's tgtd, until the test ends.
func (s *scope) tgtd() {
	s.Helper()
	if !exists("/run/flex-cluster/tgt.sock.0") {
		s.Skip("the cluster has no iSCSI target: make cluster-down, make cluster-up ISCSI=1")
	}
	s.later(func(ctx context.Context) error {
		return onNode(ctx, "umount /run/tgtd/socket.0; rm -r /run/tgtd; rm -f /var/lib/flex-iscsi/.use-case-2; rmdir /var/lib/flex-iscsi")
	})
	s.onNode("mkdir -p /run/tgtd /var/lib/flex-iscsi; touch /run/tgtd/socket.0; mount --bind /run/flex-cluster/tgt.sock.0 /run/tgtd/socket.0")
}

// noTarget fails if tgtd has a target of the volume.
func (s *scope) noTarget(volume string) {
	s.Helper()
	s.onNode("! TGT_IPC_SOCKET=/run/tgtd/socket tgtadm --lld iscsi --mode target --op show | grep " + volume)
}
