package conformance

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// checkOutcome compares a run's exit code with the volume and storage that exist. It is called for each run of every check.
func (s *stage) checkOutcome(ctx context.Context, c *claim, r *run) {
	provisions, said := r.Operation == contract.Provision, wentOnAfter(r)
	switch {
	case provisions && r.ok() && s.api.Volume(c.VolumeName) == nil:
		s.broken = append(s.broken, finding{"exit code 0 of a provision means that the volume exists", r.summary() + ", and there is no volume",
			"let the script end where a command fails (set -e), and flexctl create-pv be its last word", r.Output})
	case said != "":
		s.broken = append(s.broken, finding{"flexctl fail, or require, ends the script", r.summary() + " after it had said: " + said,
			"begin the script with set -eu: flexctl ends itself alone; in a condition, or where || or && follows, write exit after it", r.Output})
	}
	if !provisions {
		return
	}
	// The promise is not about what an earlier attempt left.
	if promised := r.Reason == podspec.ReasonRefused || r.Reason == podspec.ReasonNotHere; !promised || c.attempt > 1 {
		return
	}
	found, err := s.listStorage(ctx)
	if err != nil {
		return // the check lists the storage too, and reports the error
	}
	for _, name := range found {
		if strings.Contains(name, c.Claim.UID) {
			s.broken = append(s.broken, finding{"exit codes 64 and 69 mean that nothing was made", r.summary() + ", and there is " + name,
				"check all that can be wrong before making anything; exit with another code afterwards", r.Output})
			return
		}
	}
}

// wentOnAfter is the failure that flexctl told in a run that ended with exit code 0 all the same. Others may leave a
// message and succeed, but flexctl prints it as an error too.
func wentOnAfter(r *run) string {
	_, message := contract.CutLocation(r.Message)
	said := contract.Clean(message)
	told := strings.Contains(contract.OneLine(r.Output), "error: "+strings.TrimSuffix(said, "..."))
	if !r.ok() || said == "" || !told {
		return ""
	}
	return said
}

// provoke runs provisions that many scripts refuse, so that they come to what they do then.
func (t *trial) provoke() {
	poor, other := t.newClaim(), t.newClaim()
	poor.Properties = nil
	other.VolumeMode = string(corev1.PersistentVolumeBlock)
	if t.newClaim().VolumeMode == other.VolumeMode {
		other.VolumeMode = string(corev1.PersistentVolumeFilesystem)
	}
	for _, c := range []*claim{poor, other} {
		t.provision(c).Provoked = true
		c.Properties = t.subject.config.Properties
		t.wantGone(c, "after a provision without properties, or in the other volume mode", "see check undo")
	}
}

func (t *trial) checkExitCodes() {
	defer func() { t.findings = append(t.findings, t.broken...) }()
	t.provoke()
	refusal := apiserver.Fault{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: "persistentvolumes is forbidden: ValidatingAdmissionPolicy denied request: not allowed for this class"}
	unavailable := apiserver.Fault{Code: http.StatusServiceUnavailable, Message: "the server is currently unable to handle the request"}
	for _, c := range []struct {
		when    string
		fault   apiserver.Fault
		seconds int64
	}{
		{"the API server refuses the volume", refusal, int64(t.options.Timeout.Seconds())},
		{"the API server does not answer well", unavailable, 4},
	} {
		claim := t.newClaim()
		claim.TimeoutSeconds = c.seconds
		t.api.SetFault(func(_ int, call string) apiserver.Fault {
			if call == "POST persistentvolumes" {
				return c.fault
			}
			return apiserver.Fault{}
		})
		broken := len(t.broken)
		r, err := t.finish(t.ctx, contract.Provision, claim, nil)
		t.api.SetFault(nil)
		t.must(err)
		if r.ok() && len(t.broken) == broken {
			t.fail(r, c.when+": provision does not exit with code 0", r.summary(), "exit 0 only once the volume exists")
		}
		claim.TimeoutSeconds = int64(t.options.Timeout.Seconds())
		t.wantGone(claim, "an undo after "+c.when, "see check undo")
	}
}

func (t *trial) checkUnknownOperation() {
	c := t.newClaim()
	r := t.pod("conformance", c, nil)
	if r.ok() {
		t.fail(r, "an operation that it does not know is no success", r.summary(),
			"end with: *) flexctl fail --refuse \"operation $FLEX_OPERATION is not known\"")
	}
	if made := t.added(); len(made) > 0 {
		t.fail(r, "nothing is made", "there is "+some(made), "look at $FLEX_OPERATION before anything else")
	}
}

// checkSecrets never shows the secret that it found.
func (t *trial) checkSecrets() {
	for _, r := range t.runs {
		if r.Cut && len(t.findings) < maxFindings {
			t.fail(r, "a log that can be looked through", fmt.Sprintf("a %s printed more than %d KiB", r.Operation, 2*maxOutput>>10), "print less")
		}
		for _, secret := range t.tokens {
			for where, text := range map[string]string{"the log": r.Output, "the message": r.Message, "the volume": string(r.volume)} {
				if shows(text, secret) {
					t.fail(nil, "no secret in "+where, "a "+string(r.Operation)+" put the pod's token or a line of its Secrets into "+where,
						"do not print what is read from "+contract.TokenDir+" or "+contract.SecretsDir+"; no set -x")
				}
			}
			if len(t.findings) >= maxFindings {
				return
			}
		}
	}
}

// redact hides secrets in a text of the report.
func (s *stage) redact(text string) string { return redact(text, s.tokens) }

func (t *trial) checkMessages() {
	for _, r := range t.runs {
		if r.ok() || r.Signaled || r.Struck || r.Raced || r.Provoked || strings.TrimSpace(r.Message) != "" {
			continue
		}
		t.fail(r, "a message of one line in "+contract.TerminationFile, r.summary(), "fail by flexctl fail MESSAGE: without one the claim's owner sees the code only")
		return
	}
}
