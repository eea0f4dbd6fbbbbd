//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// restartAll restarts all that would go on with what it remembers where etcd has forgotten it, this process's watches too.
func (s *scope) restartAll() {
	s.Helper()
	components := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"}
	for _, node := range spareNodes {
		if _, err := command(s.Context(), "test/cluster/ctl.sh", "pid", node); err == nil {
			components = append(components, "kubelet@"+node, "kube-proxy@"+node)
		}
	}
	for _, component := range components {
		s.ctl("restart", component)
	}
	s.ok(shared.watchAnew(context.WithoutCancel(s.Context())))
}

// backups is where the tests keep what docs/restore.md has in /backup and /var/lib/etcd.
type backups struct {
	s   *scope
	dir string
	// data is the folder of the running etcd.
	data string
}

// backups builds the tools for them.
func (s *scope) backups() *backups {
	s.Helper()
	_, err := command(s.Context(), "test/cluster/build.sh", "etcd")
	s.ok(err)
	data, err := filepath.Abs(filepath.Join(repository, ".cluster", "state", "etcd"))
	s.ok(err)
	return &backups{s: s, dir: s.TempDir(), data: data}
}

// follow runs commands of docs/restore.md.
func (b *backups) follow(block string) string {
	b.s.Helper()
	return b.s.follow(block, "/backup", b.dir, "/var/lib/etcd", b.data)
}

// restored does step 1 of docs/restore.md, by its blocks of commands.
func (b *backups) restored(blocks []string) {
	s := b.s
	s.Helper()
	s.kill("kube-apiserver", "etcd")
	s.ok(os.RemoveAll(b.data + ".old"))
	b.follow(blocks[0])
	s.Cleanup(func() {
		if err := os.RemoveAll(b.data + ".old"); err != nil {
			s.Error(err)
		}
	})
	s.ctl("start", "etcd")
	s.restartAll()
	b.follow(blocks[1])
	s.rolledOut()
}

// rolledOut waits until the dispatcher that was asked for last is the one that works.
func (s *scope) rolledOut() {
	s.Helper()
	_, err := kubectl(s.Context(), "-n", contract.SystemNamespace, "rollout", "status", "deployment/flex-provisioner", "--timeout=120s")
	s.ok(err)
	s.wait(patient, "a new leader", func() string {
		name, _, _ := strings.Cut(holder(), "_")
		ready := dispatchers()
		for _, p := range ready {
			if p.Name == name {
				return ""
			}
		}
		return fmt.Sprintf("the Lease is held by %q, %d dispatchers are ready", holder(), len(ready))
	})
}

// listable is a class of the image nfs-subdir, whose export is the class's own directory, and whose storage the audit can see.
func (s *scope) listable(suffix string) *class {
	s.Helper()
	volumes := s.name + "-" + suffix + "/volumes"
	class := s.class(suffix, setting{data: map[string]string{
		"image": nfsSubdirImage, "provision": "", "delete": "", "folder": "", "listable": "true",
		"export": exportDir + "/" + volumes, "mount": "/export/" + volumes, "archive-on-delete": "false",
	}})
	s.later(func(context.Context) error { return os.RemoveAll(class.dir() + "/volumes/.flex-provisioner") }) // the image's marks
	return class
}

// holds fails unless the file that the claim's consumer wrote is there.
func (c *claim) holds() {
	c.s.Helper()
	text, err := os.ReadFile(c.directory() + "/hello")
	if want := "hello from " + c.Name + "\n"; err != nil || string(text) != want {
		c.s.Errorf("the storage of claim %s holds %q, %v, want %q", c.Name, text, err, want)
	}
}

// used makes claims of the class, which are bound and written to.
func (c *class) used(names ...string) map[string]*claim {
	c.s.Helper()
	claims := map[string]*claim{}
	for _, name := range names {
		claims[name] = c.claim(name)
	}
	for _, name := range names {
		claims[name].bound(patient)
		claims[name].consume(shared.admin)
	}
	return claims
}

// orphan is what the audit says of storage of the class that nothing in Kubernetes knows.
func (c *class) orphan(volume string) string {
	root := c.dir() + "/volumes/"
	return fmt.Sprintf("storage %s: class %s has it, and there is no claim, volume or pod for it\n    # the image says: ssh %s rm -rf -- %s%[1]s %[4]s.flex-provisioner/%[1]s\n",
		volume, c.name, nfsServer, root)
}
