//go:build conformance

package conformance_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance"
)

var uid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Each wrong provisioner breaks one rule and fails, for this reason and no other. Checks that are named without a reason
// fail as a consequence.
func TestWrong(t *testing.T) {
	for _, c := range []struct {
		name, check, came string
		also              []string
	}{
		{"cheerful", "exit-codes", "provision exited with code 0, and there is no volume", nil},
		{"credulous", "hostile-values", "a part of it was run as a command", nil},
		{"clumsy", "delete-snapshot", "delete-snapshot exited with code 1, saying: the container exited with code 1 and left no message", nil},
		{"deaf", "exit-codes", "provision exited with code 0 after it had said: only file systems", nil},
		{"forgetful", "list", "it does not", nil},
		{"forlorn", "unreachable", "delete exited with code 0", nil},
		{"greedy", "delete", "/export/pvc-UID is gone", nil},
		{"halfway", "snapshot-killed", "file-0 is missing", nil},
		{"hasty", "provision-twice", "provision exited with code 1 and left no message", []string{"provision-at-once", "provision-killed"}},
		{"hollow", "snapshot", "file-0 is missing", []string{"snapshot-killed", "delete-snapshot-killed", "restore-nothing"}},
		{"homemade", "volume", `spec.storageClassName is "mine", not "conformance"; annotation pv.kubernetes.io/provisioned-by is ""; annotation flex-provisioner.io/record is not the one of volume.yaml`, nil},
		{"lordly", "non-root", "provision exited with code 1 and left no message; it works as root", nil},
		{"nameless", "name", "it made /export/vol-RANDOM", []string{"provision-twice", "provision-at-once", "provision-killed", "undo", "exit-codes", "sizes"}},
		{"renewing", "snapshot", `file-0 has "after" and not "before"`, nil},
		{"scribbling", "read-only-root", "provision exited with code 1 and left no message; it works where its root can be written to", nil},
		{"stubborn", "terminated", "it did not, and was killed", nil},
		{"tattered", "delete-snapshot-killed", "file-1 is missing", nil},
		{"talkative", "secrets", "a provision put the pod's token or a line of its Secrets into the log", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, filepath.Join("testdata", c.name+".sh"))
			o.Listable = c.name == "forgetful"
			o.Snapshots = slices.Contains([]string{"clumsy", "halfway", "hollow", "renewing", "tattered"}, c.name)
			if c.name == "stubborn" {
				o.Grace = time.Second
			}
			report := run(t, o)
			if report.Passed {
				t.Error("it passed")
			}
			for _, result := range report.Results {
				named := result.Name == c.check
				if failed := result.Status == conformance.Failed && result.Required; failed != (named || slices.Contains(c.also, result.Name)) {
					t.Errorf("check %s: failed is %t", result.Name, failed)
				}
				if named && len(result.Findings) > 0 {
					came := uid.ReplaceAllString(result.Findings[0].Came, "UID")
					came = regexp.MustCompile(`vol-\w{6}`).ReplaceAllString(came, "vol-RANDOM")
					if came != c.came {
						t.Errorf("check %s came to\n%s\nwant\n%s", c.check, came, c.came)
					}
				}
			}
			if t.Failed() {
				t.Log(text(t, report))
			}
		})
	}
}
