package conformance

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Options are the options of a run.
type Options struct {
	// Subject is a script, a provisioner ConfigMap or an image archive, by its path, or an image by its name.
	Subject string
	// Image is the path or name of the image that replaces that of a ConfigMap.
	Image string
	// Properties and Parameters are those of the class. They override those of a ConfigMap.
	Properties, Parameters map[string]string
	// Secrets are directories with the files of Secrets, by the names of the Secrets.
	Secrets map[string]string
	// Storage are paths at which each pod has a directory for storage, as with mount-claims and host-path.
	Storage []string
	// Mounts are directories of this machine that each pod has, by their paths in the pod, such as that with the socket
	// of a daemon. Storage that pods make by them is real, and only List shows it.
	Mounts map[string]string
	// List lists all storage, by texts that contain the volume's name. It is nil if that is not possible, or if all
	// storage is in Storage.
	List func(context.Context) ([]string, error)
	// Inspect returns an error if the storage of a new volume is not complete. It may be nil.
	Inspect func(context.Context, *corev1.PersistentVolume) error
	// Rights are the rights of the class's ServiceAccount besides creating the volume, such as "get secrets".
	Rights []string
	// Expandable reports whether the provisioner supports the operation expand, as the class's key does.
	Expandable bool
	// Listable reports whether the provisioner supports the operation list, as the class's key does.
	Listable bool
	// Snapshots reports whether the provisioner supports snapshots, as the class's key does.
	Snapshots bool
	// RunAsUser is the pods' user, nil for the class's.
	RunAsUser *int64
	// HostUsers reports whether pods have the users of this machine, so that a pod that runs as root is root to the
	// files and sockets in Mounts. It needs root, and takes away most of what holds an image. Only the caller gives it.
	HostUsers bool
	// Network reports whether pods have the network of this machine. Else they reach the API server only.
	Network bool
	// Timeout limits a pod. Grace is the time between SIGTERM and SIGKILL. Both are whole seconds.
	Timeout, Grace time.Duration
	// Kills is the number of moments of an operation at which a pod is killed.
	Kills int
	// Only are the names of the checks that run; empty for all. The others count as skipped.
	Only []string
	// Flexctl is the path of the static binary flexctl, for the PATH of scripts. Images need none.
	Flexctl string
	// Warn is called before anything of the subject runs, with what will run and what it can do. It may be nil.
	Warn func(string)
	// Done is called with each result. It may be nil.
	Done func(Result)
}

// Run checks a provisioner. The error is about what kept the kit from checking. Faults of the provisioner are in the
// report. It sets the umask of this process.
func Run(ctx context.Context, o Options) (*Report, error) {
	if faults := o.validate(); len(faults) > 0 {
		return nil, faults.ToAggregate()
	}
	o.Parameters = configmaps.Parameters(o.Parameters)
	sandbox.Umask()
	dir, err := os.MkdirTemp("", "flex-conformance-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = removeAll(dir) }() // what is left is in the machine's directory for temporary files
	subject, err := load(ctx, o, dir)
	if err != nil {
		return nil, err
	}
	if faults := configmaps.CheckIdentity(subject.config.Properties, o.Parameters); len(faults) > 0 {
		return nil, faults.ToAggregate()
	}
	s, err := newStage(o, subject, dir)
	if err != nil {
		return nil, err
	}
	defer s.listener.Close()
	if o.Warn != nil {
		o.Warn(subject.warning(o))
	}
	if err := s.probe(ctx); err != nil {
		return nil, err
	}
	report := &Report{Subject: subject.kind}
	for _, check := range Checks() {
		result, err := s.try(ctx, check, report)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", check.Name, err)
		}
		report.Add(result, o.Done)
	}
	report.Runs = len(s.runs)
	report.Judge()
	return report, nil
}

func (o Options) validate() field.ErrorList {
	var faults field.ErrorList
	for i, p := range o.Storage {
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			faults = append(faults, field.Invalid(field.NewPath("storage").Index(i), p, "must be an absolute path, as in the pod"))
		}
	}
	for p, dir := range o.Mounts {
		at := field.NewPath("mount").Key(p)
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" {
			faults = append(faults, field.Invalid(at, p, "must be an absolute path, as in the pod"))
		}
		if slices.Contains(o.Storage, p) {
			faults = append(faults, field.Invalid(at, p, "is storage of the kit's own too: give one of the two"))
		}
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			faults = append(faults, field.Invalid(at, dir, "is no directory of this machine"))
		}
	}
	for name := range o.Secrets {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			faults = append(faults, field.Invalid(field.NewPath("secret"), name, "is no name of a Secret"))
		}
	}
	for i, right := range o.Rights {
		if len(strings.Fields(right)) != 2 {
			faults = append(faults, field.Invalid(field.NewPath("allow").Index(i), right, `must be a verb and a resource, such as "get secrets"`))
		}
	}
	for name, d := range map[string]time.Duration{"timeout": o.Timeout, "grace": o.Grace} {
		if d < time.Second || d%time.Second != 0 {
			faults = append(faults, field.Invalid(field.NewPath(name), d.String(), "must be whole seconds, at least 1s"))
		}
	}
	if o.Kills < 1 {
		faults = append(faults, field.Invalid(field.NewPath("kills"), o.Kills, "must be at least 1"))
	}
	return append(faults, unknownChecks(o.Only)...)
}

// unknownChecks returns an error for each name that is not that of a check.
func unknownChecks(only []string) field.ErrorList {
	var names []string
	for _, c := range Checks() {
		names = append(names, c.Name)
	}
	var faults field.ErrorList
	for i, name := range only {
		if !slices.Contains(names, name) {
			faults = append(faults, field.NotSupported(field.NewPath("check").Index(i), name, names))
		}
	}
	return faults
}

// probeSnapshot takes and removes a first snapshot. A check says what became of it.
func (s *stage) probeSnapshot(ctx context.Context, c *claim, volume *corev1.PersistentVolume) error {
	if !s.subject.config.Snapshots {
		return nil
	}
	first := c.snapshotOf()
	for _, op := range []contract.Operation{contract.Snapshot, contract.DeleteSnapshot} {
		r, err := s.do(ctx, op, first, volume)
		if err != nil {
			return err
		}
		r.Provoked = true
	}
	return nil
}

// probe makes and removes a first volume, so that the storage has what the provisioner keeps there, for instance a
// directory of marks. If that fails, it finds out which restriction of the pod is the cause, so that one broken rule is
// one failed check. Root of this machine is no level to try.
func (s *stage) probe(ctx context.Context) error {
	levels := []level{{}, {writable: true}, {root: true}, {writable: true, root: true}}
	if s.options.HostUsers {
		levels = levels[:2]
	}
	for _, s.level = range levels {
		c := s.newClaim()
		r, err := s.do(ctx, contract.Provision, c, nil)
		if err != nil {
			return err
		}
		if volume := s.api.Volume(c.VolumeName); volume != nil {
			s.source, s.misfit = kindOf(volume), len(podspec.Misfits(volume, c.object())) > 0
			if err := s.probeSnapshot(ctx, c, volume); err != nil {
				return err
			}
		}
		if _, err := s.remove(ctx, c); err != nil {
			return err
		}
		if r.ok() {
			return nil
		}
	}
	s.level = level{}
	return nil
}

// try runs one check, or says why not.
func (s *stage) try(ctx context.Context, check Check, report *Report) (Result, error) {
	result := Result{Name: check.Name, Required: check.Required, Rule: check.Rule, Did: check.Did, Status: Passed}
	switch {
	case check.applies != nil && check.applies(s) != "":
		result.Status, result.Reason = NotApplicable, check.applies(s)
		return result, nil
	case len(s.options.Only) > 0 && !slices.Contains(s.options.Only, check.Name):
		result.Status, result.Reason = Skipped, "it was not asked for"
		return result, nil
	case len(report.Results) > 0 && report.Results[0].Status == Failed:
		result.Status, result.Reason = Skipped, "nothing else can be tried before provision works"
		return result, nil
	}
	start := time.Now()
	t := &trial{stage: s, ctx: ctx}
	if err := t.run(check.run); err != nil {
		return result, err
	}
	result.Took = time.Since(start)
	for _, f := range t.findings[:min(len(t.findings), maxFindings)] {
		result.Findings = append(result.Findings, Finding{s.redact(f.expected), s.redact(f.got), f.remedy, s.redact(lastLines(f.log))})
	}
	switch {
	case len(result.Findings) > 0:
		result.Status = Failed
	case t.blind:
		result.Status, result.Reason = Skipped, "the kit cannot see the storage: give --storage PATH, or --list COMMAND"
	}
	return result, nil
}

// lastLines is the end of a log for a report.
func lastLines(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "\n")
}
