//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// audit runs the plugin, and returns what it printed about the names, and its exit code, which is 4 if something was found.
func (s *scope) audit(program string, names ...string) (lines string, code int) {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), program, "audit", "--kubeconfig", s.kubeconfig())
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
		s.Logf("audit: exit code %d, stderr: %s", code, exit.Stderr)
	case err != nil:
		s.Fatal(err)
	}
	all := strings.Split(string(out), "\n")
	for i := 0; i+1 < len(all); i++ {
		for _, name := range names {
			if strings.Contains(all[i], name) && !strings.HasPrefix(all[i], " ") {
				lines += all[i] + "\n" + all[i+1] + "\n"
			}
		}
	}
	if nothing := strings.HasSuffix(string(out), "nothing found\n"); nothing != (code == 0) || code == 1 {
		s.Errorf("exit code %d with the output\n%s", code, out)
	}
	return lines, code
}

// TestAudit: what the storage has and the cluster does not, and the other way round, is named with a command that mends it.
func TestAudit(t *testing.T) {
	s := begin(t)
	program := buildProgram(s.T, "kubectl-flex")
	folder := s.name + "-a/nfs" // of nothing but this class: volumes/ is looked at when the test ends
	class := s.class("a", setting{data: map[string]string{"image": nfsSubdirImage, "provision": "", "delete": "", "listable": "true",
		"mount": "/export/" + folder, "export": exportDir + "/" + folder}})
	root := exportDir + "/" + folder
	s.ok(openDir(root))
	orphan, empty, fine := class.claim("orphan"), class.claim("empty"), class.claim("fine")
	for _, c := range []*claim{orphan, empty, fine} {
		c.bound(patient)
	}
	names := []string{orphan.volumeName(), empty.volumeName(), fine.volumeName()}
	if lines, _ := s.audit(program, names...); lines != "" {
		t.Errorf("found, although nothing is wrong:\n%s", lines)
	}
	s.forget(orphan)
	orphan.delete()
	s.wait(patient, "claim gone", orphan.left)
	for _, path := range []string{root + "/" + empty.volumeName(), root + "/.flex-provisioner/" + empty.volumeName()} {
		s.ok(os.RemoveAll(path))
	}
	lines, code := s.audit(program, names...)
	remove := fmt.Sprintf("rm -rf -- %[1]s/%[2]s %[1]s/.flex-provisioner/%[2]s", root, orphan.volumeName())
	want := fmt.Sprintf("storage %s: class %s has it, and there is no claim, volume or pod for it\n    # the image says: ssh %s %s\n", orphan.volumeName(), class.name, nfsServer, remove) +
		fmt.Sprintf("empty-volume %s: class %s does not have its storage\n    kubectl -n %s delete pvc %s\n", empty.volumeName(), class.name, s.name, empty.Name)
	if lines != want || code != 4 {
		t.Errorf("exit code %d, found\n%swant\n%s", code, lines, want)
	}
	_, err := command(t.Context(), "sh", "-c", remove)
	s.ok(err)
	empty.delete()
	s.wait(patient, "claim gone", empty.left)
	if lines, _ := s.audit(program, names...); lines != "" {
		t.Errorf("found, although all was mended:\n%s", lines)
	}
}
