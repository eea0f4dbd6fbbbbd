//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestCinder takes claims to volumes of a real Cinder by the class of examples/cinder-iscsi, and through the kubelet's
// iSCSI to pods that use them. At the end Cinder, its target, the node and the cluster have nothing left of them.
func TestCinder(t *testing.T) {
	cinderStops(t)
	for _, way := range []struct {
		name, auth string
		login      func(*cinder) map[string]string
	}{
		{"noauth", "noauth", (*cinder).standalone},
		{"password", "keystone", (*cinder).password},
		{"application credential", "keystone", (*cinder).applicationCredential},
	} {
		t.Run(way.name, func(t *testing.T) {
			s := begin(t)
			cinder := s.cinder(way.auth)
			class := s.cinderClass(way.login(cinder))
			volume := s.firstLife(cinder, class)
			if way.name == "noauth" { // no login changes what follows
				cinder.used(volume)
				s.clones(cinder, class)
				s.expands(cinder, class)
				s.moves(class)
			}
			s.deleteClaims(t.Context())
			cinder.nothingLeft()
		})
	}
}

// cinderClass installs the class of the example as docs/cinder.md says, and takes the example's own claim through.
func (s *scope) cinderClass(login map[string]string) *class {
	s.Helper()
	example := example{name: "cinder-iscsi", configMap: "cinder-iscsi", account: "cinder"}
	s.later(example.removeClass)
	if err := shared.admin.CoreV1().Secrets(contract.ProvisionersNamespace).Delete(s.Context(), "cinder-cloud-config", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		s.ok(err)
	}
	s.secret("cinder-cloud-config", login)
	_, err := kubectl(s.Context(), "apply", "--server-side", "--field-manager=cinder-iscsi", "-k", "examples/cinder-iscsi")
	s.ok(err)
	s.exampleBound("cinder-iscsi")
	s.finished(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cinder-iscsi"}}, "hello from cinder-iscsi\n")
	_, err = kubectl(s.Context(), "delete", "pvc/cinder-iscsi")
	s.ok(err)
	c := &class{s: s, name: "cinder-iscsi", id: "cinder-iscsi"}
	s.classes = append(s.classes, c)
	s.wait(patient, "the example's volume gone", s.left)
	return c
}

// firstLife is a claim's: bound, written to by one pod, read by the next.
func (s *scope) firstLife(cinder *cinder, class *class) *corev1.PersistentVolume {
	s.Helper()
	c := class.claim("data", readWriteOnce)
	c.bound(patient)
	v := c.volume()
	source := v.Spec.ISCSI
	switch {
	case source == nil:
		s.Fatalf("volume %s is no iSCSI volume: %+v", v.Name, v.Spec.PersistentVolumeSource)
	case !source.SessionCHAPAuth || source.SecretRef == nil || source.SecretRef.Namespace != contract.ProvisionersNamespace:
		s.Errorf("volume %s has no CHAP: %+v", v.Name, source)
	}
	if size := v.Spec.Capacity[corev1.ResourceStorage]; size.String() != "1Gi" {
		s.Errorf("volume %s has %s, cinder makes 1Gi of 64Mi", v.Name, size.String())
	}
	cinder.until(v.Name, "in-use")
	s.finished(c.consumerOf(shared.admin, `echo "written by $(hostname)" > /data/file && sync && cat /data/file | wc -l`, ownsFiles), "1\n")
	s.wait(patient, "node logged out", func() string { return s.sessions(source.IQN) })
	s.finished(c.consumerOf(shared.admin, `sed 's/ by .*//' /data/file`, ownsFiles), "written\n")
	return v
}

// moves takes a volume from pod to pod and from node to node, with its data.
func (s *scope) moves(class *class) {
	s.Helper()
	s.needSpareNodes()
	c := class.claim("moves", readWriteOnce)
	c.bound(patient)
	iqn := c.volume().Spec.ISCSI.IQN
	for i, node := range []string{"node2", "node3", "node1", "node2"} {
		s.finished(c.consumerOf(shared.admin, `echo "$(hostname)" >> /data/pods && sync && cat /data/pods | wc -l`, ownsFiles, onSpare(node)), fmt.Sprintln(i+1))
		s.wait(patient, node+" logged out", func() string { return s.sessionsOn(node, iqn) })
	}
}

// used does with the bound volume what a user of Cinder may.
func (c *cinder) used(v *corev1.PersistentVolume) {
	c.s.Helper()
	id := c.volume(v.Name).ID
	var snapshot struct{ Snapshot struct{ ID string } }
	c.call("POST", "/snapshots", map[string]any{"snapshot": map[string]any{"volume_id": id, "name": "by-user"}}, &snapshot)
	c.s.wait(patient, "snapshot available", func() string {
		var now struct{ Snapshot struct{ Status string } }
		c.call("GET", "/snapshots/"+snapshot.Snapshot.ID, nil, &now)
		if now.Snapshot.Status != "available" {
			return now.Snapshot.Status
		}
		return ""
	})
	c.call("DELETE", "/snapshots/"+snapshot.Snapshot.ID, nil, nil)
	c.call("POST", "/volumes", map[string]any{"volume": map[string]any{"size": 1, "source_volid": id, "name": "by-user"}}, nil)
	c.until("by-user", "available")
	c.call("DELETE", "/volumes/"+c.volume("by-user").ID, nil, nil)
	c.until("by-user", "")
	c.s.wait(patient, "snapshot gone", func() string {
		var list struct{ Snapshots []any }
		c.call("GET", "/snapshots", nil, &list)
		if len(list.Snapshots) > 0 {
			return "it is there"
		}
		return ""
	})
	c.call("POST", "/volumes/"+id+"/action", map[string]any{"os-extend": map[string]any{"new_size": 2}}, nil)
	c.until(v.Name, "in-use")
	if now := c.volume(v.Name); now.Size != 2 {
		c.s.Errorf("volume %s was extended to %d GiB, want 2", v.Name, now.Size)
	}
}

// clones asks for them in both ways. They begin with what the original has.
func (s *scope) clones(cinder *cinder, class *class) {
	s.Helper()
	original := class.claim("original", readWriteOnce)
	original.bound(patient)
	s.finished(original.consumerOf(shared.admin, `echo "from the original" > /data/file && sync && echo done`, ownsFiles), "done\n")
	for name, ask := range map[string]func(*corev1.PersistentVolumeClaim){
		"by-annotation": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{contract.AnnCloneRequest: s.name + "/original"}
		},
		"by-data-source": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "original"}
		},
	} {
		c := class.claim(name, readWriteOnce, atLeast1Gi, ask)
		c.bound(patient)
		s.finished(c.consumerOf(shared.admin, `cat /data/file`, ownsFiles), "from the original\n")
		if made := cinder.volume(c.volumeName()); made.SourceVolid != cinder.volume(original.volumeName()).ID {
			s.Errorf("cinder says that %s was made of %q", made.Name, made.SourceVolid)
		}
		s.wait(soon, "answer on the claim", func() string {
			return strings.TrimPrefix(c.now().Annotations[contract.AnnCloneOf], s.name+"/original")
		})
	}
	small := class.claim("too-small", readWriteOnce, func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{contract.AnnCloneRequest: "original"}
	})
	small.told(soon, "ClaimRefused", "spec.resources.requests.storage is 64Mi: a clone of original cannot be smaller than its 1Gi")
	small.delete()
	other := class.claim("other-namespace", readWriteOnce, func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{contract.AnnCloneRequest: "kube-system/secrets"}
	})
	other.told(soon, "ClaimRefused", `annotation k8s.io/CloneRequest is "kube-system/secrets": only claims of namespace *`)
	other.delete()
}

// expands writes to a raw device, without a file system, and asks for more of it, which a pod then finds. A file system is refused, and
// Cinder is not asked.
func (s *scope) expands(cinder *cinder, class *class) {
	s.Helper()
	c := class.claim("growing", readWriteOnce, atLeast1Gi, rawDevice)
	c.bound(patient)
	source := c.volume().Spec.ISCSI
	if source.FSType != "" {
		s.Errorf("volume %s is a raw device and has the file system %s", c.volumeName(), source.FSType)
	}
	s.finished(c.consumerOf(shared.admin, `echo "raw bytes" | dd of=/dev/data bs=512 count=1 conv=sync,fsync 2> /dev/null && echo done`, withDevice), "done\n")
	s.wait(patient, "node logged out", func() string { return s.sessions(source.IQN) })
	c.ask("2Gi")
	c.has("2Gi")
	c.told(soon, "ExpansionSucceeded", "pod * expanded volume {volume} to 2Gi")
	if now := cinder.volume(c.volumeName()); now.Size != 2 || now.Status != "in-use" {
		s.Errorf("cinder has volume %s with %d GiB, %s; want 2, in-use", c.volumeName(), now.Size, now.Status)
	}
	s.finished(c.consumerOf(shared.admin, `dd if=/dev/data bs=9 count=1 2> /dev/null && echo && dd if=/dev/data bs=1M skip=2047 2> /dev/null | wc -c`, withDevice), "raw bytes\n1048576\n")
	files := class.claim("files", readWriteOnce, atLeast1Gi)
	files.bound(patient)
	files.ask("2Gi")
	files.told(soon, "ExpansionRefused", "volume {volume} is iscsi with a file system, which neither Kubernetes nor a provisioner pod can grow: "+
		"use volumeMode Block, or copy the data to a larger claim")
	files.marked(corev1.PersistentVolumeClaimControllerResizeInfeasible, "1Gi", "ControllerResizeError: volume "+files.volumeName()+" is iscsi *")
	if now := cinder.volume(files.volumeName()); now.Size != 1 {
		s.Errorf("cinder has volume %s with %d GiB, want 1", files.volumeName(), now.Size)
	}
}

func rawDevice(c *corev1.PersistentVolumeClaim) {
	mode := corev1.PersistentVolumeBlock
	c.Spec.VolumeMode = &mode
}

func readWriteOnce(c *corev1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
}

func atLeast1Gi(c *corev1.PersistentVolumeClaim) {
	c.Spec.Resources.Requests = newClaim("", "", "", "1Gi").Spec.Resources.Requests
}

// chapSecrets names the Secrets with CHAP passwords of volumes.
func (s *scope) chapSecrets() string {
	s.Helper()
	list, err := shared.admin.CoreV1().Secrets(contract.ProvisionersNamespace).List(s.Context(), metav1.ListOptions{FieldSelector: "type=kubernetes.io/iscsi-chap"})
	s.ok(err)
	var names []string
	for _, secret := range list.Items {
		names = append(names, "secret "+secret.Name)
	}
	return strings.Join(names, ", ")
}

// sessions names the disks that node1 has of a target of Cinder's.
func (s *scope) sessions(iqn string) string {
	s.Helper()
	return s.sessionsOn("node1", iqn)
}

func (s *scope) sessionsOn(node, iqn string) string {
	s.Helper()
	if iqn == "" {
		iqn = "iqn.2010-10.org.openstack"
	}
	disks, err := command(s.Context(), "test/cluster/enter.sh", "--node", node, "ls", "/dev/disk/by-path")
	s.ok(err)
	var names []string
	for disk := range strings.Lines(disks) {
		if strings.Contains(disk, iqn) {
			names = append(names, "disk "+strings.TrimSpace(disk))
		}
	}
	return strings.Join(names, ", ")
}
