package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/exec"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

// hostPath is where hosts have programs.
const hostPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"

// Settings in the records of open-iscsi.
const (
	chapUsername = "node.session.auth.username"
	chapPassword = "node.session.auth.password"
)

// Exit codes of iscsiadm that say that there is nothing left to do.
const (
	sessionExists  = 15
	nothingIsThere = 21
)

// onHost runs a program of the host, beside its daemons: iscsid and multipathd have their sockets in its network, and
// udev ends there the semaphores that multipath waits for. Exit codes that are fine are no error.
func (h *Host) onHost(fine []int, program string, args ...string) error {
	all := append([]string{"--target", "1", "--mount", "--net", "--ipc", "--", program}, args...)
	command := h.exec.Command("nsenter", all...)
	command.SetEnv([]string{hostPath})
	err := outcome(command, program, args)

	var exit exec.ExitError
	if errors.As(err, &exit) && slices.Contains(fine, exit.ExitStatus()) {
		return nil
	}

	return err
}

// Login implements driver.Host. The node's record of open-iscsi is made anew, so that it has nothing of before, and
// nothing that iscsid.conf says for the host's own disks. No other boot logs in by it. One portal that does not answer
// is given up in time for the others.
func (h *Host) Login(p driver.Path, c driver.CHAP) error {
	node := []string{"-m", "node", "-T", p.Target, "-p", p.Portal.String(), "-I", "default"}
	if err := h.onHost(nil, "iscsiadm", append(slices.Clone(node), "-o", "new")...); err != nil {
		return err
	}

	method := "None"
	if c != (driver.CHAP{}) {
		method = "CHAP"
	}

	for _, setting := range [][2]string{
		{"node.startup", "manual"}, {"node.session.scan", "manual"}, {"node.session.initial_login_retry_max", "1"},
		{"node.session.auth.authmethod", method},
	} {
		update := append(slices.Clone(node), "-o", "update", "-n", setting[0], "-v", setting[1])
		if err := h.onHost(nil, "iscsiadm", update...); err != nil {
			return err
		}
	}

	if c != (driver.CHAP{}) {
		if err := h.setCHAP(p, c); err != nil {
			return err
		}
	}

	return h.onHost([]int{sessionExists}, "iscsiadm", append(node, "--login")...)
}

// setCHAP writes to the record of open-iscsi itself. Arguments of iscsiadm can be read by everybody on the host.
func (h *Host) setCHAP(p driver.Path, c driver.CHAP) error {
	portal := fmt.Sprintf("%s,%d", p.Portal.Addr(), p.Portal.Port())
	var paths []string
	for _, dir := range []string{"/etc/iscsi", "/var/lib/iscsi"} { // by distribution
		target := filepath.Join(h.root, dir, "nodes", p.Target)
		entries, err := names(target)
		if err != nil {
			return err
		}

		for _, entry := range entries {
			if entry == portal || strings.HasPrefix(entry, portal+",") {
				paths = append(paths, filepath.Join(target, entry))
			}
		}
	}

	if len(paths) == 0 {
		return status.Error(codes.FailedPrecondition,
			"iscsiadm has its records neither in /etc/iscsi nor in /var/lib/iscsi of the host: CHAP cannot be set")
	}

	for _, path := range paths {
		if err := appendCHAP(path, c); err != nil {
			return err
		}
	}

	return nil
}

// appendCHAP changes a record. It is a file, or where the target has told a portal group, in a directory of files.
func appendCHAP(path string, c driver.CHAP) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}

	if info.IsDir() {
		path = filepath.Join(path, "default")
	}

	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	var changed strings.Builder
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(line, " ")
		if name != chapUsername && name != chapPassword {
			changed.WriteString(line)
		}
	}

	fmt.Fprintf(&changed, "%s = %s\n%s = %s\n", chapUsername, c.Username, chapPassword, c.Password)

	return os.WriteFile(path, []byte(changed.String()), 0o600)
}

// Logout implements driver.Host.
func (h *Host) Logout(p driver.Path) error {
	ids, err := h.sessions(p)
	if err != nil {
		return err
	}

	for _, id := range ids {
		if err := h.onHost([]int{nothingIsThere}, "iscsiadm", "-m", "session", "-r", id, "-u"); err != nil {
			return err
		}
	}

	return h.onHost([]int{nothingIsThere}, "iscsiadm",
		"-m", "node", "-T", p.Target, "-p", p.Portal.String(), "-o", "delete")
}

// Multipathd implements driver.Host.
func (h *Host) Multipathd() bool { return h.onHost(nil, "multipathd", "show", "status") == nil }

// Join implements driver.Host. Where multipath waits for a second path, or for somebody to name the WWID, it is told
// that the disk is for it.
func (h *Host) Join(ctx context.Context, disks []driver.Disk) error {
	for _, d := range disks {
		if d.Map.Path != "" {
			continue
		}

		if err := h.onHost(nil, "multipath", "-a", d.Path); err != nil {
			return err
		}

		if err := h.onHost(nil, "multipath", d.Path); err != nil {
			return err
		}
	}

	until(ctx, func() bool {
		return !slices.ContainsFunc(disks, func(d driver.Disk) bool { return !h.joined(filepath.Base(d.Path)) })
	})

	return nil
}

func (h *Host) joined(name string) bool {
	holders, err := names(h.sys, "block", name, "holders")

	return err == nil && slices.ContainsFunc(holders, h.isMap)
}

// mapName is what multipath calls a map.
func (h *Host) mapName(d driver.Device) string {
	return attribute(h.sys, "block", filepath.Base(d.Path), "dm/name")
}

// ResizeMap implements driver.Host. Some versions of multipathd do not say whether they did it: the size does.
func (h *Host) ResizeMap(d driver.Device) error {
	return h.onHost(nil, "multipathd", "resize", "map", h.mapName(d))
}

// Flush implements driver.Host.
func (h *Host) Flush(d driver.Device) error {
	if err := flushBuffers(d.Path); err != nil {
		return err
	}

	if err := h.onHost(nil, "multipath", "-f", h.mapName(d)); err != nil {
		return status.Errorf(codes.Unavailable, "%v", err)
	}

	return nil
}
