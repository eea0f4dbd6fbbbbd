package inspect

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/configmaps/allowlist"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Result is how a part of the installation stands.
type Result string

// Results. Failed says that claims do not get volumes, or that a class is not what its ConfigMap says.
const (
	ResultOk      Result = "ok"
	ResultWarning Result = "warning"
	ResultFailed  Result = "failed"
)

// Finding is how one object of the installation stands.
type Finding struct {
	Result  Result `json:"result"`
	Object  string `json:"object"`
	Message string `json:"message"`
	// Do is the remedy, empty where nothing is wrong.
	Do string `json:"do,omitempty"`
}

// Check lists how the installation and its classes stand. faults are those of the objects that ConfigMaps name.
func (o *Objects) Check(faults []Fault) []Finding {
	list := slices.Concat(o.checkDispatcher(), o.checkPolicies(), o.checkDeletions(), o.checkClasses())
	for _, f := range faults {
		list = append(list, Finding{ResultFailed, f.Object, f.Message, ""})
	}
	list = append(list, o.checkSnapshots()...)
	list = append(list, o.checkGrantees()...)
	list = append(list, o.checkUnlabelled()...)
	list = append(list, o.checkClaims()...)
	for _, u := range o.Unread {
		list = append(list, Finding{ResultWarning, string(u.Kind), "not read, and so not checked", "it takes the right to " + u.Right})
	}
	return list
}

func (o *Objects) checkDispatcher() (list []Finding) {
	d := o.Dispatcher
	if o.reads(Deployment) {
		list = append(list, checkDeployment(d))
	}
	if !o.reads(Lease) {
		return list
	}

	lease := Finding{ResultOk, "Lease " + d.LeaseNamespace + "/" + contract.LeaseName(d.Provisioner), "held by " + podspec.OneLine(o.Leader), ""}
	if cause, away := o.noLeader(); away {
		lease.Result, lease.Message, lease.Do = ResultFailed, cause.Message, cause.Do
	}
	return append(list, lease)
}

func checkDeployment(d DispatcherOptions) Finding {
	object := "Deployment " + d.System + "/flex-provisioner"
	ready := fmt.Sprintf("%d of %d replicas are ready", d.Ready, d.Wanted)
	look := fmt.Sprintf("look at its pods: kubectl -n %s describe deployment,pods", d.System)
	switch {
	case !d.Found:
		return Finding{ResultFailed, object, "does not exist", "install it, or name its namespace with --system-namespace"}
	case d.Ready == 0:
		return Finding{ResultFailed, object, ready, look}
	case d.Ready < d.Wanted:
		return Finding{ResultWarning, object, ready, look}
	}
	return Finding{ResultOk, object, ready, ""}
}

func (o *Objects) checkPolicies() (list []Finding) {
	const object = "admission policies"
	if o.Dispatcher.Insecure {
		return []Finding{{ResultWarning, object, "the dispatcher runs with --insecure-without-policies",
			"remove the option: without policies the token of a provisioner pod may create any volume"}}
	}
	if o.reads(AllowList) && o.AllowList == nil {
		list = append(list, Finding{ResultFailed, "ConfigMap " + o.Dispatcher.System + "/" + allowlist.Name,
			"does not exist", "apply deploy/allow-list: without it no provisioner pod may create a volume"})
	}
	if !o.reads(Policies) {
		return list
	}

	m, _ := events.MeaningOf(events.ReasonPoliciesMissing)
	for _, lack := range o.Lacks {
		list = append(list, Finding{ResultFailed, object, lack, events.Plain(m.Do)})
	}
	if len(o.Lacks) == 0 {
		list = append(list, Finding{ResultOk, object, "complete and in force", ""})
	}
	return list
}

func (o *Objects) checkDeletions() []Finding {
	switch {
	case !o.reads(ConfigMaps):
		return nil
	case o.Stop == nil:
		return []Finding{{ResultOk, "deletions", "are not stopped", ""}}
	}
	since := duration.HumanDuration(o.Now.Sub(o.Stop.CreationTimestamp.Time))
	return []Finding{{ResultWarning, "deletions", "are stopped, for " + since + ": " + podspec.OneLine(o.Stop.Data["reason"]),
		"once they may go on: kubectl flex stop-deletes off"}}
}

// harmless are problems of a class with which its claims get volumes all the same.
var harmless = []podspec.Reason{events.ReasonLiteralToken, events.ReasonClassNotFound, events.ReasonConfigUnused}

func (o *Objects) checkClasses() (list []Finding) {
	if !o.reads(ConfigMaps, Classes) {
		return nil
	}
	for _, name := range o.ClassNames() {
		found := o.checkClass(name)
		if len(found) == 0 {
			found = []Finding{{ResultOk, "class " + podspec.OneLine(name), "its ConfigMap is valid and in force", ""}}
		}
		list = append(list, found...)
	}
	return list
}

// checkClass is empty for a class with which nothing is wrong.
func (o *Objects) checkClass(name string) (list []Finding) {
	object := "class " + podspec.OneLine(name)
	problems, config := o.classProblems(name)
	for _, p := range problems {
		result := ResultFailed
		if slices.Contains(harmless, p.Reason) {
			result = ResultWarning
		}
		list = append(list, Finding{result, object, fmt.Sprintf("%s: %s", p.Reason, p.Message), p.Do})
	}

	maps := o.ConfigMapsFor(name)
	for _, ref := range o.Needs(maps) {
		if exists, known := o.Exists[ref]; known && !exists {
			list = append(list, Finding{ResultFailed, object, fmt.Sprintf("ConfigMap %s names %s %s/%s, which does not exist",
				podspec.OneLine(maps[0].Name), ref.Kind, o.Dispatcher.Namespace, ref.Name), "create it, or correct the ConfigMap"})
		}
	}

	if class := o.class(name); class != nil && config != nil {
		for _, err := range configmaps.CheckIdentity(config.Properties, configmaps.Parameters(class.Parameters)) {
			list = append(list, Finding{ResultFailed, object, err.Error(), "create the StorageClass again, or correct the ConfigMap"})
		}
	}
	for _, script := range goOn(config) {
		list = append(list, Finding{ResultWarning, object, fmt.Sprintf("the script %s goes on after a command that failed, and may "+
			"succeed without its work", script), "begin it with set -eu"})
	}
	return list
}

// endsOnError matches the line from which on a script ends where a command fails.
var endsOnError = regexp.MustCompile(`(?m)^[^#\n]*\bset[ \t]+([^#\n]*[ \t])?-([a-zA-Z]*e|[a-zA-Z]*o[ \t]+errexit)`)

// goOn lists the inline scripts of more than one line that do not end where a command fails.
func goOn(config *configmaps.Config) (names []string) {
	if config == nil {
		return nil
	}

	for _, script := range []struct{ name, text string }{
		{"provision", config.Provision}, {"delete", config.Delete}, {"expand", config.Expand},
		{"snapshot", config.Snapshot}, {"delete-snapshot", config.DeleteSnapshot},
	} {
		several := strings.Contains(strings.TrimSpace(script.text), "\n")
		if several && !endsOnError.MatchString(script.text) {
			names = append(names, script.name)
		}
	}

	return names
}

// Grantees lists the ServiceAccounts that the allow-list grants something.
func (o *Objects) Grantees() (refs []Ref) {
	if o.AllowList == nil {
		return nil
	}

	for _, key := range slices.Sorted(maps.Keys(o.AllowList.Data)) {
		dot := strings.LastIndex(key, ".")
		ref := Ref{"ServiceAccount", key[:max(dot, 0)]}
		if ref.Name != "" && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}

	return refs
}

// checkGrantees warns of lines for ServiceAccounts that do not exist and that no class names: whoever creates one gets
// what the lines grant.
func (o *Objects) checkGrantees() (list []Finding) {
	needs := o.Needs(o.OwnConfigMaps())
	for _, ref := range o.Grantees() {
		if exists, known := o.Exists[ref]; known && !exists && !slices.Contains(needs, ref) {
			list = append(list, Finding{ResultWarning, "ConfigMap " + o.Dispatcher.System + "/" + allowlist.Name,
				fmt.Sprintf("has lines for ServiceAccount %s/%s, which does not exist", o.Dispatcher.Namespace, podspec.OneLine(ref.Name)),
				"remove the lines, or correct the name: whoever creates that ServiceAccount gets what they grant"})
		}
	}

	return list
}

func (o *Objects) checkUnlabelled() (list []Finding) {
	for _, cm := range o.Unlabelled {
		if !classes.Concerns(cm, o.Dispatcher.Provisioner) {
			continue
		}
		list = append(list, Finding{ResultWarning, objectName("ConfigMap", cm.Namespace, cm.Name), fmt.Sprintf(
			"its label %s is %s, not %s, so that no dispatcher reads it", configmaps.LabelType, quoted(cm.Labels[configmaps.LabelType]), configmaps.TypeProvisioner),
			"correct the label, or remove the ConfigMap"})
	}
	return list
}

// checkClaims says how many claims wait, and which has waited longest. What waits for an administrator is told apart.
func (o *Objects) checkClaims() []Finding {
	if !o.reads(Claims) {
		return nil
	}

	var waiting, held []State
	for _, s := range o.Overview("").Claims {
		if s.Phase == progress.Held {
			held = append(held, s)
		} else {
			waiting = append(waiting, s)
		}
	}

	list := []Finding{o.checkWaiting(waiting)}
	if len(held) > 0 {
		oldest := oldestOf(held)
		list = append(list, Finding{ResultWarning, "volumes", fmt.Sprintf("%d waiting for an administrator before their storage is removed; the oldest is %s",
			len(held), o.waits(oldest)), "see why: kubectl flex why " + o.nameOf(oldest)})
	}
	return list
}

func (o *Objects) checkWaiting(waiting []State) Finding {
	if len(waiting) == 0 {
		return Finding{ResultOk, "claims", "none waiting", ""}
	}

	troubled := slices.DeleteFunc(slices.Clone(waiting), func(s State) bool { return !s.Troubled() })
	if len(troubled) == 0 {
		return Finding{ResultOk, "claims", fmt.Sprintf("%d waiting, and nothing is wrong; the oldest is %s", len(waiting), o.waits(oldestOf(waiting))), ""}
	}
	oldest := oldestOf(troubled)
	return Finding{ResultWarning, "claims", fmt.Sprintf("%d waiting, %d of them since something is wrong; the oldest of these is %s",
		len(waiting), len(troubled), o.waits(oldest)), "see why: kubectl flex why " + o.nameOf(oldest)}
}

func oldestOf(states []State) State {
	return slices.MinFunc(states, func(a, b State) int { return a.Since.Compare(b.Since) })
}

// waits says which claim or volume waits, for how long and why.
func (o *Objects) waits(s State) string {
	name := s.Namespace + "/" + s.Claim
	switch {
	case s.OfSnapshot:
		name = s.Subject()
	case s.Claim == "":
		name = s.Volume
	}
	text := fmt.Sprintf("%s, for %s", name, duration.HumanDuration(o.Now.Sub(s.Since)))
	if s.Reason != "" {
		text += fmt.Sprintf(": %s: %s", s.Reason, s.Message)
	}
	return text
}
