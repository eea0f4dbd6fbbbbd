//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// chapPassword is what no command line may have.
const chapPassword = "chap-password-7"

// target is a real tgtd with an account, and a directory for LUNs.
type target struct{ socket, files, portal string }

func newTarget(t *testing.T) target {
	t.Helper()
	dir := t.TempDir()
	g := target{filepath.Join(dir, "run"), filepath.Join(dir, "files"), freePortal(t)}
	for _, d := range []string{g.socket, g.files} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "tgtd.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	tgtd := exec.Command("tgtd", "-f", "--iscsi", "portal="+g.portal)
	tgtd.Env = append(os.Environ(), "TGT_IPC_SOCKET="+g.socket+"/socket")
	tgtd.Stdout, tgtd.Stderr = log, log
	tgtd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	begun := make(chan error)
	go func() { // the kernel takes the end of the thread that started it for the parent's, and the kit ends threads
		runtime.LockOSThread()
		begun <- tgtd.Start()
		<-t.Context().Done()
	}()
	if err := <-begun; err != nil {
		t.Fatalf("%v: install tgt", err)
	}
	t.Cleanup(func() {
		_ = tgtd.Process.Kill()
		_ = tgtd.Wait()
	})
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := g.admin(t.Context(), "--mode", "account", "--op", "new", "--user", "flex", "--password", chapPassword)
		if err == nil {
			return g
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("tgtd does not answer: %v\n%s", err, text)
		}
	}
}

func freePortal(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (g target) admin(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "tgtadm", append([]string{"--lld", "iscsi"}, args...)...)
	cmd.Env = append(os.Environ(), "TGT_IPC_SOCKET="+g.socket+"/socket")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tgtadm: %w: %s", err, out)
	}
	return string(out), nil
}

var (
	targetLine  = regexp.MustCompile(`(?m)^Target \d+: (\S+)$`)
	backingLine = regexp.MustCompile(`(?m)^ +Backing store path: (/\S+)$`)
)

// list is all there is: targets, LUNs and what is no LUN yet.
func (g target) list(ctx context.Context) ([]string, error) {
	shown, err := g.admin(ctx, "--mode", "target", "--op", "show")
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range targetLine.FindAllStringSubmatch(shown, -1) {
		found = append(found, "target "+m[1])
	}
	files, err := os.ReadDir(g.files)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !strings.HasPrefix(file.Name(), ".") {
			found = append(found, "file "+file.Name())
		}
	}
	return found, nil
}

// inspect says what a volume lacks of a target with a LUN, and that of a sound file system with the archive's files.
func (g target) inspect(ctx context.Context, v *corev1.PersistentVolume) error {
	lun := filepath.Join(g.files, v.Name)
	shown, err := g.admin(ctx, "--mode", "target", "--op", "show")
	if err != nil {
		return err
	}
	if !strings.Contains(shown, v.Spec.ISCSI.IQN+"\n") || !slices.ContainsFunc(backingLine.FindAllStringSubmatch(shown, -1),
		func(m []string) bool { return m[1] == lun }) {
		return fmt.Errorf("no target has %s: %s", lun, shown)
	}
	if out, err := exec.CommandContext(ctx, "e2fsck", "-fn", lun).CombinedOutput(); err != nil {
		return fmt.Errorf("the file system of %s is broken: %w: %s", lun, err, out)
	}
	out, err := exec.CommandContext(ctx, "debugfs", "-R", "cat /css/site.css", lun).Output()
	if err != nil || !bytes.Equal(out, []byte(siteCSS)) {
		return fmt.Errorf("%s has %d bytes of the archive's file, of %d: %w", lun, len(out), len(siteCSS), err)
	}
	return nil
}

// siteCSS is large enough for a kill while it is written.
var siteCSS = strings.Repeat("body { margin: 0 }\n", 200_000)

// archive makes golden/site.tar.gz.
func archive(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	site := filepath.Join(t.TempDir(), "css")
	if err := os.Mkdir(site, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(site, "site.css"), []byte(siteCSS), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-czf", filepath.Join(dir, "site.tar.gz"), "-C", filepath.Dir(site), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestFilledISCSI is the class of use case 2 with a real tgtd and a real login by CHAP: killed at any moment, no LUN that is
// not whole has its name, and nothing is left.
func TestFilledISCSI(t *testing.T) {
	image := example(t, "use-case-2-iscsi-filled")
	t.Parallel()
	g, secret := newTarget(t), t.TempDir()
	for name, text := range map[string]string{"node.session.auth.username": "flex", "node.session.auth.password": chapPassword} {
		if err := os.WriteFile(filepath.Join(secret, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options(t, "../../../examples/use-case-2-iscsi-filled/class/configmap.yaml")
	o.Image, o.Storage, o.List, o.Inspect, o.Kills = image, nil, g.list, g.inspect, 4
	o.HostUsers, o.Network = true, true // tgtd answers root of the machine alone, and at a port
	o.Properties = map[string]string{"portal": g.portal, "files": g.files}
	o.Secrets = map[string]string{"iscsi-chap": secret}
	// tgtd knows the LUNs by the same paths as the pod. The class's own directory has another one here.
	o.Mounts = map[string]string{"/run/tgtd": g.socket, g.files: g.files, "/var/lib/flex-iscsi": t.TempDir(), "/golden": archive(t)}
	seen := watchCommands(t)
	wantPass(t, run(t, o))
	if logins, leaks := seen(); logins == 0 || len(leaks) > 0 {
		t.Errorf("%d command lines of the initiator were seen, and the password in %q", logins, leaks)
	}
	if shown, err := g.admin(t.Context(), "--mode", "target", "--op", "show"); err != nil || backingLine.MatchString(shown) {
		t.Errorf("left are %s, %v", shown, err)
	}
}

// watchCommands looks at the command lines of all processes until it is asked: how many were logins, and which had the password.
func watchCommands(t *testing.T) (seen func() (logins int, leaks []string)) {
	t.Helper()
	var stop atomic.Bool
	done := make(chan struct{})
	logins, leaks := 0, []string(nil)
	go func() {
		defer close(done)
		for !stop.Load() {
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, name := range lines {
				line, _ := os.ReadFile(name) // the process may be gone
				if bytes.Contains(line, []byte("password-secret=chap")) {
					logins++
				}
				if bytes.Contains(line, []byte(chapPassword)) {
					leaks = append(leaks, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return func() (int, []string) {
		stop.Store(true)
		<-done
		return logins, leaks
	}
}
