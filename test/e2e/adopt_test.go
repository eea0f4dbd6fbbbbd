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

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// peer is another provisioner, unmodified, that runs beside the cluster for the time of a test.
type peer struct {
	s *scope
	// class is its StorageClass.
	class string
	stop  func()
}

// start runs the program until it is stopped, or the test's claims are gone.
func (p *peer) start(env []string, command ...string) {
	p.s.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	p.stop = p.s.startProcess(cmd)
	p.s.later(func(context.Context) error { p.stop(); return nil })
}

// onFirst keeps a pod on the node whose directories the test can look at.
func onFirst(pod *corev1.Pod) {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node1"}
}

// makeClass makes the peer's StorageClass.
func (p *peer) makeClass(provisioner string, mode storagev1.VolumeBindingMode) {
	p.s.Helper()
	p.class = p.s.name + "-theirs"
	policy := corev1.PersistentVolumeReclaimDelete
	classes := shared.admin.StorageV1().StorageClasses()
	_, err := classes.Create(p.s.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: p.class}, Provisioner: provisioner,
		ReclaimPolicy: &policy, VolumeBindingMode: &mode}, metav1.CreateOptions{})
	p.s.ok(err)
	p.s.later(func(ctx context.Context) error { return classes.Delete(ctx, p.class, metav1.DeleteOptions{}) })
}

// theirs are claims of the peer's class that pods have written to.
func (p *peer) theirs(names ...string) []*claim {
	p.s.Helper()
	class := &class{s: p.s, name: p.class, id: p.class}
	p.s.classes = append(p.s.classes, class)
	var claims []*claim
	for _, name := range names {
		c := class.claim(name, readWriteOnce)
		claims = append(claims, c)
		p.s.finished(c.consumerOf(shared.admin, "echo of "+name+" > /data/note; cat /data/note", onFirst), "of "+name+"\n")
	}
	return claims
}

// guide applies the class of a page, with its words replaced in pairs, and adds it to the classes of the test.
func (s *scope) guide(heading string, replace ...string) *class {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs/adopt.md"))
	s.ok(err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		s.Fatalf("docs/adopt.md has no section %q", heading)
	}
	_, manifests, _ := strings.Cut(section, "```yaml\n")
	manifests, _, _ = strings.Cut(manifests, "```\n")
	name := s.name + "-ours"
	manifests = strings.NewReplacer(append(replace, "disks", name)...).Replace(manifests)
	var own []string
	for part := range strings.SplitSeq(manifests, "---\n") {
		if !strings.Contains(part, "flex-pv-policy") {
			own = append(own, part)
		}
	}
	remove := s.file("own.yaml", strings.Join(own, "---\n"))
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-f", remove)
		return err
	})
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "apply", "--server-side", "--field-manager="+name, "-k", "deploy/allow-list")
		return err
	})
	_, err = kubectl(s.Context(), "apply", "--server-side", "--field-manager="+name, "-f", s.file("class.yaml", manifests))
	s.ok(err)
	c := &class{s: s, name: name, id: name}
	s.classes = append(s.classes, c)
	return c
}

// adopt runs kubectl flex adopt, and wants the exit code and texts in what it prints.
func (s *scope) adopt(code int, texts []string, args ...string) {
	s.Helper()
	out, ended := s.flex(kubeconfig(), append([]string{"adopt"}, args...)...)
	s.Logf("kubectl flex adopt %s: %d\n%s", strings.Join(args, " "), ended, out)
	if lack := unsaid(out, ended, code, texts); lack != "" {
		s.Fatalf("kubectl flex adopt %s: %s", strings.Join(args, " "), lack)
	}
}

// takeOver goes through a guide with three volumes of a peer: one is adopted, given back, and deleted by the peer; the others are
// adopted, used, expanded, and deleted by us, one of them after the peer is gone. there says whether a volume's storage exists.
func (p *peer) takeOver(ours *class, claims []*claim, spoil func(c *claim, back bool), there func(*corev1.PersistentVolume) bool) {
	s := p.s
	s.Helper()
	took := s.wait(patient, "the API server has seen the grants", func() string {
		if out, code := s.flex(kubeconfig(), "validate", ours.name); code != 0 {
			return out
		}
		return ""
	})
	s.Logf("class %s is granted what it asks for after %s", ours.name, took)
	volumes := map[string]*corev1.PersistentVolume{}
	for _, c := range claims {
		volumes[c.Name] = c.volume()
	}
	by := volumes[claims[0].Name].Annotations[contract.ProvisionedBy]
	s.adopt(0, []string{claims[0].volumeName() + " of claim " + s.name + "/" + claims[0].Name + ": from provisioner " + by, "dry run"},
		"--all", "--from", p.class, "--class", ours.name)
	if got := claims[0].volume(); got.ResourceVersion != volumes[claims[0].Name].ResourceVersion {
		s.Error("a dry run changed the volume")
	}

	// The image does not find what is not there, and nothing is adopted then.
	spoil(claims[0], false)
	s.adopt(4, []string{"the image does not find its storage: "}, claims[0].volumeName(), "--class", ours.name, "--yes")
	if got := claims[0].volume(); got.ResourceVersion != volumes[claims[0].Name].ResourceVersion {
		s.Error("an adoption that failed changed the volume")
	}
	spoil(claims[0], true)

	s.adopt(0, []string{claims[0].volumeName(), claims[1].volumeName(), claims[2].volumeName()}, "--all", "--from", p.class, "--class", ours.name, "--yes")
	s.adopt(0, []string{"No volume of StorageClass"}, "--all", "--from", p.class, "--class", ours.name)
	pods, err := shared.admin.CoreV1().Pods(contract.ProvisionersNamespace).List(s.Context(), metav1.ListOptions{LabelSelector: contract.LabelOperation + "=expand"})
	s.ok(err)
	for _, pod := range pods.Items {
		for _, c := range claims {
			if pod.Name == "adopt-"+string(c.UID) {
				s.Errorf("pod %s is left", pod.Name)
			}
		}
	}

	s.adopt(0, []string{"given back to provisioner " + by}, claims[0].volumeName(), "--undo", "--yes")
	back, err := shared.admin.CoreV1().PersistentVolumes().Get(s.Context(), claims[0].volumeName(), metav1.GetOptions{})
	s.ok(err)
	if back.Spec.StorageClassName != p.class || fmt.Sprint(back.Annotations, back.Finalizers) != fmt.Sprint(volumes[claims[0].Name].Annotations, volumes[claims[0].Name].Finalizers) {
		s.Errorf("given back it has %v, %v, class %s; it had %v, %v", back.Annotations, back.Finalizers, back.Spec.StorageClassName,
			volumes[claims[0].Name].Annotations, volumes[claims[0].Name].Finalizers)
	}
	p.release(claims[0], volumes, there)

	_, err = kubectl(s.Context(), "patch", "storageclass", p.class, "-p", `{"allowVolumeExpansion": true}`)
	s.ok(err)
	for _, c := range claims[1:] {
		c.ask("2Gi")
		s.wait(patient, "claim "+c.Name+" expanded", func() string {
			size := c.now().Status.Capacity[corev1.ResourceStorage]
			if size.Cmp(resource.MustParse("2Gi")) < 0 {
				return "it has " + size.String()
			}
			return ""
		})
		s.finished(c.consumerOf(shared.admin, "cat /data/note", onFirst), "of "+c.Name+"\n")
	}
	p.release(claims[1], volumes, there)
	p.stop()
	p.release(claims[2], volumes, there)
}

// release deletes a claim, whose storage has to go with it.
func (p *peer) release(c *claim, volumes map[string]*corev1.PersistentVolume, there func(*corev1.PersistentVolume) bool) {
	p.s.Helper()
	v := volumes[c.Name]
	if !there(v) {
		p.s.Errorf("the storage of %s is gone before its claim", v.Name)
	}
	now := int64(0)
	p.s.ok(shared.admin.CoreV1().Pods(p.s.name).DeleteCollection(p.s.Context(), metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}))
	c.delete()
	p.s.wait(patient, "volume "+v.Name+" gone", func() string {
		_, err := shared.admin.CoreV1().PersistentVolumes().Get(p.s.Context(), v.Name, metav1.GetOptions{})
		if err == nil {
			return "it exists"
		}
		return ""
	})
	if there(v) {
		p.s.Errorf("the storage of %s is still there", v.Name)
	}
}

const helperPod = `apiVersion: v1
kind: Pod
metadata: {name: helper-pod}
spec:
  containers:
  - name: helper-pod
    image: ` + shellImage + `
    imagePullPolicy: IfNotPresent
    securityContext: {runAsUser: 0}
`

// TestAdoptLocalPath does what docs/adopt.md says with local-path-provisioner.
func TestAdoptLocalPath(t *testing.T) {
	t.Parallel()
	s := begin(t)
	program := filepath.Join(t.TempDir(), "local-path-provisioner")
	_, err := command(s.Context(), "env", "CGO_ENABLED=0", "go", "-C", "test/adopt/local-path", "build", "-o", program, "github.com/rancher/local-path-provisioner")
	s.ok(err)
	root := "/opt/" + s.name
	s.onNode("mkdir -p " + root)
	s.later(func(ctx context.Context) error { return onNode(ctx, "rm -rf "+root) })
	p := &peer{s: s}
	p.makeClass("rancher.io/local-path", storagev1.VolumeBindingWaitForFirstConsumer)
	maps := shared.admin.CoreV1().ConfigMaps(s.name)
	_, err = maps.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "local-path-config"}, Data: map[string]string{
		"setup": "#!/bin/sh\nset -eu\nmkdir -m 0777 -p \"$VOL_DIR\"\n", "teardown": "#!/bin/sh\nset -eu\nrm -rf \"$VOL_DIR\"\n"}}, metav1.CreateOptions{})
	s.ok(err)
	p.start([]string{"KUBECONFIG=" + kubeconfig()}, program, "start", "--namespace", s.name, "--service-account-name", "default", "--configmap-name", "local-path-config",
		"--helper-image", shellImage, "--helper-pod-file", s.file("helper.yaml", helperPod),
		"--config", s.file("config.json", `{"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": ["`+root+`"]}]}`))
	claims := p.theirs("one", "two", "three")
	ours := s.guide("A class for local-path-provisioner", "/opt/local-path-provisioner", root)
	path := func(c *claim) string { return c.volume().Spec.HostPath.Path }
	p.takeOver(ours, claims, func(c *claim, back bool) {
		from, to := path(c), path(c)+".away"
		if back {
			from, to = to, from
		}
		s.onNode("[ ! -e " + from + " ] || mv " + from + " " + to)
	}, func(v *corev1.PersistentVolume) bool {
		return onNode(s.Context(), "[ -e "+v.Spec.HostPath.Path+" ]") == nil
	})
}

// TestAdoptNFSSubdir does what docs/adopt.md says with nfs-subdir-external-provisioner. Its module cannot be had from every
// proxy, so that its program is built by hand.
func TestAdoptNFSSubdir(t *testing.T) {
	t.Parallel()
	program := os.Getenv("FLEX_NFS_SUBDIR_PROVISIONER")
	if program == "" {
		t.Skip("FLEX_NFS_SUBDIR_PROVISIONER does not name the program of nfs-subdir-external-provisioner: go build ./cmd/nfs-subdir-external-provisioner in its sources")
	}
	s := begin(t)
	root := exportDir + "/" + s.name
	s.ok(openDir(root))
	s.later(func(context.Context) error { return os.RemoveAll(root) })
	s.ok(os.WriteFile(root+"/."+s.name+"-ours", nil, 0o644))
	p := &peer{s: s}
	p.makeClass("example.com/"+s.name, storagev1.VolumeBindingImmediate)
	// It works in /persistentvolumes, which is there for this process alone.
	mount := `mount -t tmpfs none /mnt && mkdir /mnt/persistentvolumes && mount --bind "$3" /mnt/persistentvolumes && ` +
		`cp "$1" /mnt/peer && cp "$2" /mnt/kubeconfig && exec chroot /mnt /peer`
	config, err := kubectl(s.Context(), "config", "view", "--raw", "--flatten")
	s.ok(err)
	p.start([]string{"KUBECONFIG=/kubeconfig", "NFS_SERVER=" + nfsServer, "NFS_PATH=" + root, "PROVISIONER_NAME=example.com/" + s.name, "ENABLE_LEADER_ELECTION=false"},
		"unshare", "-m", "--propagation", "private", "sh", "-c", mount, "sh", program, s.file("kubeconfig", config), root)
	claims := p.theirs("one", "two", "three")
	ours := s.guide("A class for nfs-subdir-external-provisioner", "/srv/nfs", root)
	p.takeOver(ours, claims, func(c *claim, back bool) {
		from, to := c.volume().Spec.NFS.Path, c.volume().Spec.NFS.Path+".away"
		if back {
			from, to = to, from
		}
		s.ok(os.Rename(from, to))
	}, func(v *corev1.PersistentVolume) bool {
		_, err := os.Stat(v.Spec.NFS.Path)
		return err == nil
	})
}
