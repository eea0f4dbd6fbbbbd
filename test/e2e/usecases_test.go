//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestUseCases shows each use case of the design by its folder of examples/. See TestIsolatedNodes for use case 10,
// and TestFilledISCSI for another one of use case 2.
func TestUseCases(t *testing.T) {
	installedAfter(t)
	for _, c := range []struct {
		folder string
		show   func(*scope, string)
	}{
		{"use-case-1-and-5-iscsi", iscsiWithToolsInTheImage},
		{"use-case-2-extra-steps", extraSteps},
		{"use-case-2b-closed-image", closedImage},
		{"use-case-3-and-4-public-image", publicImage},
		{"use-case-6-bash", bash},
		{"use-case-7-three-classes", threeClasses},
		{"use-case-9-update", update},
	} {
		t.Run(c.folder, func(t *testing.T) {
			t.Parallel()
			c.show(begin(t), c.folder)
		})
	}
}

// volumeOf is the example's volume, once its claim is bound.
func (s *scope) volumeOf(claim string) *corev1.PersistentVolume {
	s.Helper()
	return s.exampleBound(claim).volume()
}

// consumed waits for the example's consumer, which has to print the lines.
func (s *scope) consumed(folder string, lines ...string) {
	s.Helper()
	s.finished(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: folder}}, strings.Join(lines, "\n")+"\n")
}

// rootLeaves has a pod of root's leave in the example's volume what nobody else can remove.
func (s *scope) rootLeaves(claim string) {
	s.Helper()
	s.finished(s.exampleBound(claim).consumerOf(shared.admin, leaveClosed, asRoot), "")
}

func iscsiWithToolsInTheImage(s *scope, folder string) {
	s.tgtd()
	if path, err := exec.LookPath("mkfs.btrfs"); err == nil {
		s.Logf("the node has %s: this run does not show that it needs none", path)
	}
	s.loadExample(folder)
	s.example(folder)
	v := s.volumeOf(folder)
	if v.Spec.ISCSI == nil || v.Spec.ISCSI.FSType != "btrfs" || v.Spec.ISCSI.IQN != "iqn.2026-01.com.example:"+v.Name {
		s.Errorf("the volume's source is %+v", v.Spec.PersistentVolumeSource)
	}
	s.consumed(folder, "hello from "+folder)
	file := "/var/lib/flex-iscsi/" + v.Name
	s.onNode("test $(blkid -o value -s TYPE " + file + ") = btrfs")
	s.exampleGone(folder)
	if exists(file) {
		s.Errorf("%s is left", file)
	}
	s.noTarget(v.Name)
}

// listener answers everything on port 8080 and prints it.
const listener = `while :; do printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' | nc -l -p 8080; echo; done`

func extraSteps(s *scope, folder string) {
	golden := nfsRoot + "/golden"
	s.later(func(context.Context) error { return os.RemoveAll(golden) })
	s.ok(openDir(golden + "/common"))
	s.ok(os.WriteFile(golden+"/common/motd", []byte("be careful\n"), 0o644))
	webhook := s.listener()
	s.example(folder, "http://10.99.0.1:8080", "http://"+webhook.Status.PodIP+":8080")
	// A step that fails is what the user reads, and the claim waits.
	claim := s.exampleClaim(folder)
	s.told(soon, claim.UID, "ProvisionerFailed", "archive site.tar.gz cannot be unpacked (pod *)")
	if now := claim.now(); now.Spec.VolumeName != "" || exists(nfsRoot+"/"+claim.volumeName()) {
		s.Errorf("the claim has volume %q before its steps are done", now.Spec.VolumeName)
	}
	_, err := command(s.Context(), "sh", "-euc", `cd "$1"; echo welcome > index.html; tar -czf new index.html; rm index.html; mv new site.tar.gz`, "-", golden)
	s.ok(err)
	v := s.volumeOf(folder)
	told := logOf(s.Context(), webhook, 1000)
	if !strings.Contains(told, "POST /new-volume ") || !strings.Contains(told, `"volumeName":"`+v.Name+`"`) {
		s.Errorf("the webhook was not told of %s, but: %s", v.Name, told)
	}
	for _, dir := range []string{"logs", "uploads"} {
		if !exists(v.Spec.NFS.Path + "/" + dir) {
			s.Errorf("the volume has no directory %s", dir)
		}
	}
	s.consumed(folder, "hello from "+folder, "welcome", "be careful")
	s.rootLeaves(folder)
	s.exampleGone(folder)
	if left, err := filepath.Glob(v.Spec.NFS.Path + "*"); len(left) > 0 || err != nil {
		s.Errorf("left are %v, %v", left, err)
	}
}

// listener starts one in the test's namespace.
func (s *scope) listener() *corev1.Pod {
	s.Helper()
	none := int64(0)
	made, err := shared.admin.CoreV1().Pods(s.name).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "webhook"},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &none, Containers: []corev1.Container{{
			Name: "webhook", Image: shellImage, Command: []string{"/bin/sh", "-c", listener}}}},
	}, metav1.CreateOptions{})
	s.ok(err)
	return s.podRuns(made)
}

func closedImage(s *scope, folder string) {
	vendor := s.registry("customer-7:opensesame")
	// No other image may be the same: the kubelet lets nobody have a pulled image without the Secret, whatever its name.
	image := vendor.push(s.imageOf("registry.invalid/flex-provisioner/e2e:dev",
		"FROM registry.invalid/flex-provisioner/nfs-subdir:dev\nCOPY licence /\n", "licence", run), "closed/provisioner:7.0")
	secrets := shared.admin.CoreV1().Secrets(contract.ProvisionersNamespace)
	s.later(func(ctx context.Context) error { return secrets.Delete(ctx, folder, metav1.DeleteOptions{}) })
	login := func(password string) {
		_, err := kubectl(s.Context(), "-n", contract.ProvisionersNamespace, "create", "secret", "docker-registry", folder,
			"--docker-server="+vendor.address, "--docker-username=customer-7", "--docker-password="+password)
		s.ok(err)
	}
	login("opensesam")
	s.example(folder, "registry.vendor.example", vendor.address)
	claim := s.exampleClaim(folder)
	s.told(patient, claim.UID, "ProvisionerImagePullFailed", "image "+vendor.address+"/closed/provisioner:7.0 cannot be had: *401 Unauthorized*")
	s.ok(secrets.Delete(s.Context(), folder, metav1.DeleteOptions{}))
	login("opensesame")
	began := time.Now()
	v := s.volumeOf(folder)
	s.Logf("bound %.1f s after the credentials were mended", time.Since(began).Seconds())
	s.ranFrom(claim.UID, image)
	s.consumed(folder, "hello from "+folder)
	s.rootLeaves(folder)
	s.exampleGone(folder)
	if exists(v.Spec.NFS.Path) {
		s.Errorf("%s is left", v.Spec.NFS.Path)
	}
}

// ranFrom waits until the node has told that the claim's latest provision pod ran the image, which is a reference by
// digest. The claim may be bound before.
func (s *scope) ranFrom(claim types.UID, image string) {
	s.Helper()
	s.wait(soon, "pod of image "+image, func() string {
		pods := shared.ran(contract.Provision, claim)
		if len(pods) == 0 {
			return "it is not there"
		}
		containers := pods[len(pods)-1].Status.ContainerStatuses
		for _, status := range containers {
			if status.ImageID == image {
				return ""
			}
		}
		return fmt.Sprintf("its containers are %+v", containers)
	})
}

const (
	disks  = "registry.storage.example/disks:1.0.0"
	madeBy = "storage.example/disks-version"
)

func publicImage(s *scope, folder string) {
	public := s.registry("")
	image := public.push(s.image(disks, "examples/"+folder+"/image"), "disks:1.0.0")
	s.example(folder, "registry.storage.example", public.address)
	v := s.volumeOf(folder)
	if got := v.Annotations[madeBy]; got != "1.0.0" {
		s.Errorf("the volume was made by version %q, want 1.0.0", got)
	}
	s.ranFrom(v.Spec.ClaimRef.UID, image)
	s.consumed(folder, "hello from "+folder)
	s.rootLeaves(folder)
	s.exampleGone(folder)
	if exists(v.Spec.NFS.Path) {
		s.Errorf("%s is left", v.Spec.NFS.Path)
	}
}

func bash(s *scope, folder string) {
	s.load(s.image("docker.io/library/bash:5", "test/e2e/testdata/bash"), "docker.io/library/bash:5")
	class := s.example(folder)[0]
	v := s.volumeOf(folder)
	s.consumed(folder, "hello from "+folder)
	owners, err := os.ReadFile(v.Spec.NFS.Path + "/OWNERS")
	if want := "ask storage@example.com\nask archive@example.com\n"; err != nil || string(owners) != want {
		s.Errorf("OWNERS is %q, %v; want %q", owners, err, want)
	}
	refused := class.claim("refused", func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	refused.told(soon, "ProvisionerRefused", "ReadWriteOncePod cannot be had on NFS; ask for ReadWriteMany (pod {pod})")
	refused.delete()
	s.rootLeaves(folder)
	s.exampleGone(folder)
	if exists(v.Spec.NFS.Path) {
		s.Errorf("%s is left", v.Spec.NFS.Path)
	}
}

func threeClasses(s *scope, folder string) {
	kinds := []string{"gold", "silver", "bronze"}
	for _, kind := range kinds {
		s.later(func(context.Context) error { return os.RemoveAll(nfsRoot + "/" + kind) })
		s.ok(openDir(nfsRoot + "/" + kind))
	}
	if classes := s.example(folder); len(classes) != len(kinds) {
		s.Fatalf("there are %d classes, want %d", len(classes), len(kinds))
	}
	names := map[string]string{}
	for _, kind := range kinds {
		v := s.volumeOf("use-case-7-" + kind)
		names[kind] = v.Name
		if want := nfsRoot + "/" + kind + "/" + v.Name; v.Spec.NFS.Path != want {
			s.Errorf("the %s volume lies in %s, want %s", kind, v.Spec.NFS.Path, want)
		}
	}
	s.consumed(folder, "hello from gold", "hello from silver", "hello from bronze")
	for _, kind := range kinds {
		s.rootLeaves("use-case-7-" + kind)
	}
	s.exampleGone(folder)
	for kind, name := range names {
		dir := nfsRoot + "/" + kind + "/"
		if exists(dir+name) || exists(dir+"archived-"+name) != (kind == "gold") {
			s.Errorf("%s: left is %v, archived is %v; want the archive of gold alone", kind, exists(dir+name), exists(dir+"archived-"+name))
		}
	}
}

// TestIsolatedNodes is use case 10. The spare nodes are its own.
func TestIsolatedNodes(t *testing.T) {
	const folder = "use-case-10-isolated-nodes"
	s := begin(t)
	s.needSpareNodes()
	const mark = "flex-provisioner.io/provisioning"
	set := func(ctx context.Context, node, label, taint string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}},"spec":{"taints":[{"key":%q,"value":"true","effect":"NoSchedule"}]}}`, mark, label, taint)
		_, err := shared.admin.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	isolated := func(node string) {
		s.Helper()
		s.later(func(ctx context.Context) error { return set(ctx, node, "null", spare) })
		s.ok(set(s.Context(), node, `"true"`, mark))
	}
	isolated("node2")
	class := s.example(folder)[0]
	v := s.volumeOf(folder)
	s.on(v.Spec.ClaimRef.UID, contract.Provision, "node2")
	s.wait(patient, "consumer on the open node", func() string {
		if pod := get[corev1.Pod](shared.pods, "default/"+folder); pod == nil || pod.Spec.NodeName != "node1" {
			return fmt.Sprintf("it is %v", pod)
		}
		return ""
	})
	s.consumed(folder, "hello from "+folder)

	// It follows the mark.
	isolated("node3")
	s.ok(set(s.Context(), "node2", "null", spare))
	elsewhere := class.claim("elsewhere")
	elsewhere.bound(patient)
	s.on(elsewhere.UID, contract.Provision, "node3")
	elsewhere.delete()
	s.rootLeaves(folder)
	s.exampleGone(folder)
	s.on(v.Spec.ClaimRef.UID, contract.Delete, "node3")
	if exists(v.Spec.NFS.Path) {
		s.Errorf("%s is left", v.Spec.NFS.Path)
	}
}

// on fails unless all pods of the claim and the operation ran on the node.
func (s *scope) on(claim types.UID, operation contract.Operation, node string) {
	s.Helper()
	pods := shared.ran(operation, claim)
	if len(pods) == 0 {
		s.Errorf("there was no %s pod", operation)
	}
	for _, p := range pods {
		if p.Spec.NodeName != node {
			s.Errorf("pod %s ran on %q, want %s", p.Name, p.Spec.NodeName, node)
		}
	}
}
