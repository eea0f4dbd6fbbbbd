package form

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const (
	// MaxItems is the limit on a list of targets, portals or monitors.
	MaxItems = 64
	// maxName is the longest iSCSI or NVMe name, by their standards.
	maxName = 223
	// maxQuoted is the limit in bytes on a value in an error.
	maxQuoted = 100
	// maxLine is the limit in bytes on the result of Line.
	maxLine = 400
)

var (
	iqn        = regexp.MustCompile(`^iqn\.[0-9]{4}-(0[1-9]|1[0-2])\.[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?:[A-Za-z0-9][A-Za-z0-9.:_-]*$`)
	groupTag   = regexp.MustCompile(`,t,0x[0-9A-Fa-f]{1,4}$`)
	eui        = regexp.MustCompile(`^eui\.[0-9A-Fa-f]{16}$`)
	naa        = regexp.MustCompile(`^naa\.[0-9A-Fa-f]{32}$`)
	nqn        = regexp.MustCompile(`^nqn\.[A-Za-z0-9][A-Za-z0-9.:_-]*$`)
	wwn        = regexp.MustCompile(`^((0x)?[0-9a-f]{16}|([0-9a-f]{2}:){7}[0-9a-f]{2})$`)
	uuid       = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	nguid      = regexp.MustCompile(`^([0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)
	cephName   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	projectID  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	credential = regexp.MustCompile(`^[!-~]([ -~]{0,253}[!-~])?$`)
	status     = regexp.MustCompile(`^[a-z][a-z_-]{0,63}$`)
)

// Quote is a value for an error: in ASCII, on one line, and of limited length.
func Quote(text string) string {
	if len(text) > maxQuoted {
		return strconv.QuoteToASCII(text[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(text)
}

func wrong(field, text, form string) error {
	return fmt.Errorf("%s %s is not %s", field, Quote(text), form)
}

// ISCSIName checks the name of a target or an initiator. Kubernetes accepts NAA names of 32 digits only.
func ISCSIName(field, text string) error {
	if len(text) > maxName || strings.Contains(text, "..") || !iqn.MatchString(text) && !eui.MatchString(text) && !naa.MatchString(text) {
		return wrong(field, text, "of the form iqn.YYYY-MM.domain:name, eui. with 16 hexadecimal digits or naa. with 32; the name may have letters, digits, '.', ':', '_' and '-', but not '..'")
	}
	return nil
}

// ISCSITarget checks the name of a target. It removes the tag of a portal group, such as ",t,0x0001" at the end, with
// which it is the name of the target's port.
func ISCSITarget(field, text string) (string, error) {
	name := groupTag.ReplaceAllString(text, "")
	return name, ISCSIName(field, name)
}

// NQN checks the name of an NVMe subsystem. The kernel has it in a list of options between commas.
func NQN(field, text string) error {
	if len(text) > maxName || strings.Contains(text, "..") || !nqn.MatchString(text) {
		return wrong(field, text, "of the form nqn.NAME; the name may have letters, digits, '.', ':', '_' and '-', but not '..'")
	}
	return nil
}

// LUN checks a logical unit number. The API server accepts no other, and the kubelet does not support other addressing modes.
func LUN(field string, lun int64) (int32, error) {
	if lun < 0 || lun > 255 {
		return 0, fmt.Errorf("%s %d is not between 0 and 255, the only LUNs that Kubernetes knows; limit the LUNs of the backend", field, lun)
	}
	return int32(lun), nil
}

// WWN checks a World Wide Name, and writes it as the kernel does under /dev/disk/by-path. The kubelet compiles it into a
// regular expression.
func WWN(field, text string) (string, error) {
	normal := strings.ToLower(text)
	if !wwn.MatchString(normal) {
		return "", wrong(field, text, "a World Wide Name of 16 hexadecimal digits")
	}
	return strings.ReplaceAll(strings.TrimPrefix(normal, "0x"), ":", ""), nil
}

// Credential checks a CHAP user name or secret. open-iscsi writes them into a file with one setting in each line.
func Credential(field, text string) error {
	if !credential.MatchString(text) {
		return fmt.Errorf("%s is not 1 to 255 printable ASCII characters without a space at either end", field)
	}
	return nil
}

// UUID checks a UUID, and writes it in lower case.
func UUID(field, text string) (string, error) {
	normal := strings.ToLower(text)
	if !uuid.MatchString(normal) {
		return "", wrong(field, text, "a UUID")
	}
	return normal, nil
}

// NGUID checks the identity of an NVMe namespace, and writes it as udev does under /dev/disk/by-id.
func NGUID(field, text string) (string, error) {
	normal := strings.ToLower(text)
	if !nguid.MatchString(normal) {
		return "", wrong(field, text, "an NGUID of 32 hexadecimal digits, with hyphens or without")
	}
	return strings.ReplaceAll(normal, "-", ""), nil
}

// CephName checks the name of a pool, an image or a user. For Ceph's tools '/' and '@' end a name, and '-' at the beginning is an option.
func CephName(field, text string) error {
	if strings.Contains(text, "..") || !cephName.MatchString(text) {
		return wrong(field, text, "of 1 to 128 letters, digits, '.', '_' and '-', of which the first is a letter or a digit, and none are '..'")
	}
	return nil
}

// ProjectID checks the ID of a project, which becomes a part of URLs.
func ProjectID(field, text string) error {
	if !projectID.MatchString(text) {
		return wrong(field, text, "of 1 to 64 letters, digits, '_' and '-', of which the first is a letter or a digit")
	}
	return nil
}

// Status checks the status of a volume.
func Status(field, text string) error {
	if !status.MatchString(text) {
		return wrong(field, text, "of 1 to 64 small letters, '_' and '-'")
	}
	return nil
}

// Count checks the length of a list.
func Count(field string, items int) error {
	if items > MaxItems {
		return fmt.Errorf("%s has %d items; it may have %d", field, items, MaxItems)
	}
	return nil
}

// Line is a server's text for users: the first line that is not empty, without control characters. A long line is cut between words, so
// that a secret is never cut: redact finds only whole secrets.
func Line(text string) string {
	for line := range strings.Lines(text) {
		if line = contract.OneLine(line); line != "" {
			return cut(line)
		}
	}
	return ""
}

func cut(line string) string {
	if len(line) <= maxLine {
		return line
	}
	return line[:strings.LastIndexByte(line[:maxLine+1], ' ')+1] + "..."
}
