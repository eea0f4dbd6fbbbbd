//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// example applies a folder of examples/ as its README says, with texts replaced in pairs, and returns its classes. When the
// test ends, all goes that deploy/base does not have.
func (s *scope) example(folder string, replace ...string) []*class {
	s.Helper()
	manifests := s.rendered("examples/"+folder, replace...)
	base := s.rendered("deploy/base")
	var own []string
	var classes []*class
	for _, id := range manifests.order {
		if _, shared := base.text[id]; shared {
			continue
		}
		own = append(own, manifests.text[id])
		if name, is := strings.CutPrefix(id, "StorageClass//"); is {
			classes = append(classes, &class{s: s, name: name, id: name})
		}
	}
	s.classes = append(s.classes, classes...)
	remove := s.file("own.yaml", strings.Join(own, "\n---\n"))
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-f", remove)
		return err
	})
	s.Cleanup(func() { // before the end of the scope, which waits for the volumes
		if err := s.deleteExample(context.Background(), folder); err != nil {
			s.Error(err)
		}
	})
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "apply", "--server-side", "--field-manager="+folder, "-k", "deploy/allow-list")
		return err
	})
	_, err := kubectl(s.Context(), "apply", "--server-side", "--field-manager="+folder, "-f", s.file("all.yaml", manifests.all))
	s.ok(err)
	return classes
}

// deleteExample deletes what users made of an example: its claims and their consumer.
func (s *scope) deleteExample(ctx context.Context, folder string) error {
	for _, file := range []string{"consumer.yaml", "claim.yaml"} {
		if _, err := kubectl(ctx, "-n", "default", "delete", "--ignore-not-found", "--wait=false", "-f", "examples/"+folder+"/"+file); err != nil {
			return err
		}
	}
	return nil
}

// exampleGone deletes the example's claims and waits until their volumes are gone.
func (s *scope) exampleGone(folder string) {
	s.Helper()
	s.ok(s.deleteExample(s.Context(), folder))
	s.wait(patient, "volumes of "+folder+" gone", func() string {
		if lack := s.left(); lack != "" {
			return lack + s.volumeEvents()
		}
		return ""
	})
}

func (s *scope) volumeEvents() string {
	var text string
	for _, v := range s.volumes() {
		text += showEvents(eventsOn(v.UID))
	}
	return text
}

// manifests are objects as YAML, by kind/namespace/name.
type manifests struct {
	all   string
	order []string
	text  map[string]string
}

func (s *scope) rendered(folder string, replace ...string) manifests {
	s.Helper()
	out, err := kubectl(s.Context(), "kustomize", folder)
	s.ok(err)
	m := manifests{all: strings.NewReplacer(replace...).Replace(out), text: map[string]string{}}
	for text := range strings.SplitSeq(m.all, "\n---\n") {
		var head struct {
			Kind     string
			Metadata metav1.ObjectMeta
		}
		s.ok(yaml.Unmarshal([]byte(text), &head))
		id := head.Kind + "/" + head.Metadata.Namespace + "/" + head.Metadata.Name
		m.order, m.text[id] = append(m.order, id), text
	}
	return m
}

// file writes a file that lasts as long as the scope.
func (s *scope) file(name, text string) string {
	s.Helper()
	dir, err := os.MkdirTemp("", "flex-e2e-")
	s.ok(err)
	s.later(func(context.Context) error { return os.RemoveAll(dir) })
	file := filepath.Join(dir, name)
	s.ok(os.WriteFile(file, []byte(text), 0o600))
	return file
}

// image builds an image of a folder's Dockerfile and returns the archive.
func (s *scope) image(name, folder string) (archive string) {
	s.Helper()
	archive = s.file("image.tar", "")
	_, err := command(s.Context(), "tools/image.sh", name, archive, folder)
	s.ok(err)
	return archive
}

// imageOf builds an image of a Dockerfile, whose context is the folder of a file of that name and text.
func (s *scope) imageOf(name, dockerfile, file, text string) (archive string) {
	s.Helper()
	folder := filepath.Dir(s.file(file, text))
	s.ok(os.WriteFile(filepath.Join(folder, "Dockerfile"), []byte(dockerfile), 0o600))
	return s.image(name, folder)
}

// loadExample brings the image of an example to the node, for the time of the test.
func (s *scope) loadExample(folder string) {
	s.Helper()
	name := "registry.invalid/flex-provisioner/" + folder + ":dev"
	s.load(s.image(name, "examples/"+folder+"/image"), name)
}

// load brings an image to the node, for the time of the test.
func (s *scope) load(archive, name string) {
	s.Helper()
	// The other nodes may lose their power at any time.
	_, err := command(s.Context(), "test/cluster/load-image.sh", "--node", "node1", archive)
	s.ok(err)
	s.later(func(ctx context.Context) error { return removeImages(ctx, "name=="+name) })
}

// removeImages takes those images off the node that containerd's filter picks.
func removeImages(ctx context.Context, filter string) error {
	ctr := []string{"test/cluster/enter.sh", "env", "CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1",
		".cluster/bin/ctr", "-a", "/run/flex-cluster/node1/containerd.sock", "-n", "k8s.io", "images"}
	names, err := command(ctx, append(ctr, "ls", "-q", filter)...)
	if err != nil || names == "" {
		return err
	}
	_, err = command(ctx, append(append(ctr, "rm"), strings.Fields(names)...)...)
	return err
}

// registry is a registry on the node. What it holds is really pulled.
type registry struct {
	s       *scope
	address string
	// login is the file that docker login would write.
	login string
}

// registry starts one. With credentials, name:password as testdata/htpasswd has them, it demands these.
func (s *scope) registry(credentials string) registry {
	s.Helper()
	args := []string{"test/cluster/registry.sh", "127.0.0.1:0"}
	if credentials != "" {
		args = append(args, "test/e2e/testdata/htpasswd")
	}
	line, err := bufio.NewReader(s.runsOnNode(args...)).ReadString('\n')
	s.ok(err)
	r := registry{s: s, address: strings.TrimSpace(strings.TrimPrefix(line, "serving "))}
	auths := map[string]any{r.address: map[string][]byte{"auth": []byte(credentials)}}
	config, err := json.Marshal(map[string]any{"auths": auths})
	s.ok(err)
	r.login = s.file("config.json", string(config))
	s.later(func(ctx context.Context) error { return removeImages(ctx, "name~=^"+r.address+"/") })
	return r
}

// runsOnNode starts a program in the namespaces of a node, the first unless --node says otherwise, and ends it with the test. It returns
// what the program prints.
func (s *scope) runsOnNode(args ...string) io.Reader {
	s.Helper()
	cmd := exec.Command("test/cluster/enter.sh", args...)
	cmd.Dir = repository
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	s.ok(err)
	s.ok(cmd.Start())
	// To the group, since the program is the child of what entered the node's namespaces.
	s.later(func(context.Context) error {
		err := syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait() // ended by the signal
		return err
	})
	return out
}

// push copies an image to the registry and returns its reference there, by digest.
func (r registry) push(archive, name string) string {
	r.s.Helper()
	out, err := command(r.s.Context(), "test/cluster/enter.sh", "env", "REGISTRY_AUTH_FILE="+r.login,
		"tools/push.sh", archive, r.address+"/"+name)
	r.s.ok(err)
	return strings.TrimSpace(out)
}

// onNode runs a shell script in the node's namespaces.
func (s *scope) onNode(script string) {
	s.Helper()
	s.ok(onNode(s.Context(), script))
}

func onNode(ctx context.Context, script string) error {
	if _, err := command(ctx, "test/cluster/enter.sh", "/bin/sh", "-euc", script); err != nil {
		return fmt.Errorf("on the node: %w", err)
	}
	return nil
}
