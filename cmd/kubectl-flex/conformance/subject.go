package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// subject is what is checked: an unpacked image, or a script with the root of this machine.
type subject struct {
	// kind is for the report.
	kind string
	// config is the Config of a class that runs it.
	config *configmaps.Config
	// root is the directory of the image, "/" without one.
	root    string
	program program
	// script is the script, or another program, if the subject is no image.
	script []byte
}

// onlyInline reports whether the subject is a class with inline scripts. The dispatcher chooses the script, so none gets an unknown
// operation.
func (s *subject) onlyInline() bool { return s.config.Provision != "" }

// usesFlexctl reports whether its pods find flexctl on their PATH, which an image has itself.
func (s *subject) usesFlexctl() bool {
	inline := s.config.Provision != ""
	return s.root == "/" || inline && !s.config.FlexctlInImage
}

// load finds the subject, and unpacks it below dir.
func load(ctx context.Context, o Options, dir string) (*subject, error) {
	data, image, err := read(o.Subject)
	var s *subject
	switch {
	case errors.Is(err, os.ErrNotExist):
		s = &subject{kind: "image " + o.Subject, config: &configmaps.Config{Image: o.Subject}}
		err = s.fetch(ctx, o, o.Subject, dir)
	case err != nil:
		err = fmt.Errorf("read %s: %w", o.Subject, err)
	case image:
		s = &subject{kind: "image archive " + o.Subject, config: &configmaps.Config{Image: o.Subject}}
		err = s.unpack(o, o.Subject, dir)
	case configmaps.IsManifest(o.Subject, data):
		s, err = fromConfigMap(ctx, o, data, dir)
	default:
		err = checkLineEnds(o.Subject, data)
		s = &subject{kind: "script " + o.Subject, config: &configmaps.Config{Image: "script"}, root: "/", script: data}
	}
	if err != nil {
		return nil, err
	}
	s.complete(o)
	return s, nil
}

// complete adds the options, and the defaults of a ConfigMap, to the config.
func (s *subject) complete(o Options) {
	c := s.config
	if c.StorageClass == "" {
		c.StorageClass = "conformance"
	}
	if c.ServiceAccountName == "" {
		c.ServiceAccountName = "conformance"
	}
	properties := map[string]string{}
	maps.Copy(properties, c.Properties)
	maps.Copy(properties, o.Properties)
	c.Properties = properties
	if o.RunAsUser != nil {
		c.RunAsUser, c.UserOfNamespace = o.RunAsUser, false
	}
	c.Timeout, c.Expandable, c.Listable = o.Timeout, c.Expandable || o.Expandable, c.Listable || o.Listable
	c.Snapshots = c.Snapshots || o.Snapshots
	for _, name := range slices.Sorted(maps.Keys(o.Secrets)) {
		if !slices.Contains(c.Secrets, name) {
			c.Secrets = append(c.Secrets, name)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(o.Mounts)) {
		named := func(h configmaps.HostPath) bool { return h.Path == path }
		claimed := func(m configmaps.ClaimMount) bool { return m.Path == path }
		if !slices.ContainsFunc(c.HostPaths, named) && !slices.ContainsFunc(c.MountClaims, claimed) {
			c.HostPaths = append(c.HostPaths, configmaps.HostPath{Path: path})
		}
	}
	for i, path := range o.Storage {
		c.MountClaims = append(c.MountClaims, configmaps.ClaimMount{Claim: fmt.Sprintf("storage-%d", i), Path: path})
	}
}

// checkLineEnds refuses a script with the line ends of Windows, as a ConfigMap does. Shells take each of them for a part
// of the last word.
func checkLineEnds(name string, data []byte) error {
	at := bytes.Index(data, []byte("\r\n"))
	if at < 0 || isProgram(data) {
		return nil
	}
	return fmt.Errorf("read %s: line %d ends with a carriage return; save the text with Unix line ends", name, 1+bytes.Count(data[:at], []byte("\n")))
}

// isProgram reports whether a file is a program and no script.
func isProgram(data []byte) bool { return bytes.HasPrefix(data, []byte("\x7fELF")) }

// maxProgram limits a program that is one file.
const maxProgram = 512 << 20

// read reads a script, a program or a manifest. It does not read an archive of an image, which may be large.
func read(name string) (data []byte, image bool, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(file, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return head[:n], false, nil
	}
	if err != nil || string(head[257:262]) == "ustar" {
		return nil, true, err
	}
	rest, err := io.ReadAll(io.LimitReader(file, maxProgram))
	if len(rest) == maxProgram {
		err = fmt.Errorf("it is larger than %d MiB", maxProgram>>20)
	}
	return append(head, rest...), false, err
}

// warning says what will run, before it does.
func (s *subject) warning(o Options) string {
	root := "the image's files"
	if s.root == "/" {
		root = "all files of this machine that every user may read"
	}
	users := "as nobody of this machine"
	if sandbox.HostID(0, false) < 0 {
		users = "as you"
	}
	if o.HostUsers {
		users = "as a user of this machine, root included"
	}
	network := "no network but a double of the API server"
	if o.Network {
		network = "the network of this machine"
	}
	text := fmt.Sprintf("Warning: %s is run on this machine, a few hundred times, in a sandbox: %s, with %s and %s. "+
		"It can fill the disk of %s and use all CPUs and memory.", s.kind, users, root, network, os.TempDir())
	for _, path := range slices.Sorted(maps.Keys(o.Mounts)) {
		text += fmt.Sprintf(" It can change %s.", o.Mounts[path])
	}
	return text
}

// fromConfigMap reads a class's ConfigMap. Inline scripts run in the machine's own root where no image is given, since any image with
// a shell should do.
func fromConfigMap(ctx context.Context, o Options, data []byte, dir string) (*subject, error) {
	cm, err := configmaps.FromFile(o.Subject, data)
	if err != nil {
		return nil, err
	}
	config, faults := configmaps.Parse(cm)
	if len(faults) > 0 {
		return nil, fmt.Errorf("read ConfigMap %s: %w", o.Subject, faults.ToAggregate())
	}
	if config.Privileged || config.HostNetwork || len(config.Capabilities)+len(config.Devices) > 0 {
		return nil, fmt.Errorf("read ConfigMap %s: capabilities, devices, host-network and privileged are given by a node only: "+
			"try the class on a cluster (docs/conformance.md)", o.Subject)
	}
	s := &subject{kind: "ConfigMap " + o.Subject, config: config, root: "/"}
	switch {
	case o.Image != "":
		s.kind += " in image " + o.Image
		if _, err := os.Stat(o.Image); err == nil {
			return s, s.unpack(o, o.Image, dir)
		}
		return s, s.fetch(ctx, o, o.Image, dir)
	case config.Provision != "":
		s.kind += " on this machine instead of in image " + config.Image
		return s, nil
	}
	s.kind += " in image " + config.Image
	return s, s.fetch(ctx, o, config.Image, dir)
}

func (s *subject) unpack(o Options, file, dir string) error {
	a, err := openArchive(file)
	if err != nil {
		return err
	}
	defer a.file.Close()
	a.hostUsers = o.HostUsers
	s.root = filepath.Join(dir, "root")
	owner := sandbox.HostID(0, o.HostUsers)
	if err := errors.Join(os.Mkdir(s.root, 0o755), os.Chmod(s.root, 0o755), os.Chown(s.root, owner, owner)); err != nil {
		return fmt.Errorf("unpack image: %w", err)
	}
	s.program, err = a.unpack(s.root)
	return err
}

// engines are container engines. The first one that is installed is used for an image by name.
var engines = []string{"docker", "podman", "nerdctl"}

// fetch has a container engine write the image as an archive. The engine does not run it, since every subject runs in the sandbox.
func (s *subject) fetch(ctx context.Context, o Options, image, dir string) error {
	for _, name := range engines {
		engine, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		file := filepath.Join(dir, "image.tar")
		if output, err := exec.CommandContext(ctx, engine, "save", "-o", file, "--", image).CombinedOutput(); err != nil {
			return fmt.Errorf("fetch image %s: there is no file of that name, and %s save: %w: %s", image, name, err, bytes.TrimSpace(output))
		}
		return s.unpack(o, file, dir)
	}
	return fmt.Errorf("fetch image %s: there is no file of that name, nor one of %s to ask for the image", image, strings.Join(engines, ", "))
}
