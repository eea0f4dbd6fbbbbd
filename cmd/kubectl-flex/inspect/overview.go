package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/configmaps/allowlist"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Overview is the state of a cluster's claims, classes and dispatcher.
type Overview struct {
	Claims  []State      `json:"claims"`
	Classes []ClassState `json:"classes,omitempty"`
	// Dispatcher is nil where nothing of it could be read.
	Dispatcher *DispatcherState `json:"dispatcher,omitempty"`
	// EventsOnly reports whether the claims' states are derived from the claims and their events alone.
	EventsOnly bool `json:"eventsOnly,omitempty"`
	// Unread lists the kinds that could not be read, and the right that each takes.
	Unread []Unread `json:"unread,omitempty"`
}

// Reads reports whether the kind was read.
func (v Overview) Reads(kind Kind) bool {
	return !slices.ContainsFunc(v.Unread, func(u Unread) bool { return u.Kind == kind })
}

// ClassState is the state of a class.
type ClassState struct {
	Name string `json:"name"`
	// ConfigMap is the ConfigMap that serves the class. It may be that of another class. It is empty where there is none.
	ConfigMap string `json:"configMap,omitempty"`
	// Health is Ok, or the reason of the first of the problems.
	Health   string   `json:"health"`
	Problems []string `json:"problems,omitempty"`
	// Running is the number of pods that run, Waiting that of claims that wait without one.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// MaxConcurrent limits the pods that run; 0 means no limit.
	MaxConcurrent int    `json:"maxConcurrent,omitempty"`
	Account       string `json:"serviceAccount,omitempty"`
	// Grants are the lines of the allow-list for the class's ServiceAccount, by setting.
	Grants allowlist.Lines `json:"grants,omitempty"`
}

// DispatcherState is the state of the dispatcher.
type DispatcherState struct {
	Provisioner string    `json:"provisioner"`
	Leader      string    `json:"leader,omitempty"`
	LeaderSince time.Time `json:"leaderSince,omitzero"`
	// LeaderLost is when the leader last renewed the Lease, if the Lease has expired. Else it is zero.
	LeaderLost time.Time `json:"leaderLost,omitzero"`
	// LeaderUnknown reports whether the Lease may not be read.
	LeaderUnknown bool   `json:"leaderUnknown,omitempty"`
	Image         string `json:"image,omitempty"`
	Ready         int32  `json:"ready"`
	Wanted        int32  `json:"wanted"`
	// Policies is Ok, Insecure, or what is missing of the policies.
	Policies []string `json:"policies,omitempty"`
	// DeletionsStopped says since when and why an administrator stopped all deletions. It is empty where that is not so.
	DeletionsStopped string `json:"deletionsStopped,omitempty"`
	// Snapshots says how many snapshots are ready. It is empty where there is none.
	Snapshots string `json:"snapshots,omitempty"`
}

// healthOk is the health of a class or policies without a problem.
const healthOk = "Ok"

// pendingUIDs lists the UIDs of claims that the dispatcher may have to act on.
func (o *Objects) pendingUIDs() []string {
	uids := map[string]bool{}
	for _, claim := range o.Claims {
		uid := string(claim.UID)
		if key := o.keyOf(uid); !upToDate(claim) || len(o.podsOf(key)) > 0 || len(o.eventsOnVolume(podspec.VolumeName(key))) > 0 {
			uids[uid] = true
		}
	}
	for _, v := range o.Volumes {
		uid, ours := podspec.ClaimUIDOf(v.Name)
		claim := o.claim(uid)
		unfit := claim != nil && podspec.Bound(claim, v) && len(podspec.Misfits(v, claim)) > 0
		doubtful := v.Status.Phase != corev1.VolumeBound || v.Annotations[contract.ProvisionedBy] == "" || v.DeletionTimestamp != nil || unfit
		if ours && doubtful && o.ownVolume(v) {
			uids[o.holderOf(uid)] = true
		}
	}
	for _, pod := range o.Pods {
		op, uid, _, ours := podspec.ParseName(pod.Name)
		if ours && !podspec.OfAttachment(op) && !podspec.Handled(pod) {
			uids[o.holderOf(uid)] = true
		}
	}
	for volume, attachments := range o.indexed().attachments {
		uid, ours := podspec.ClaimUIDOf(volume)
		if ours && slices.ContainsFunc(attachments, observed.DueAttachment) {
			uids[o.holderOf(uid)] = true
		}
	}
	for _, uid := range o.pendingSnapshots() {
		uids[uid] = true
	}
	return slices.Sorted(maps.Keys(uids))
}

// upToDate reports whether the claim itself shows that the dispatcher has nothing to do for it.
func upToDate(claim *corev1.PersistentVolumeClaim) bool {
	asked, has := observed.Requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && claim.DeletionTimestamp == nil && asked.Cmp(has) <= 0 && !resize.Marked(claim)
}

// Overview is the overview of a namespace, or with "" of all namespaces.
func (o *Objects) Overview(namespace string) Overview {
	view := Overview{Unread: o.Unread, EventsOnly: !o.complete(), Claims: []State{}}
	all := []State{}
	for _, uid := range o.pendingUIDs() {
		if s := o.StateOf(uid); s.NotOurs == "" && (!s.Done() || s.Troubled()) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.UID, b.UID))
	})
	for _, s := range all {
		if namespace == "" || s.Namespace == namespace {
			view.Claims = append(view.Claims, s)
		}
	}
	if o.reads(ConfigMaps, Classes) {
		view.Classes = o.classStates(all)
	}
	view.Dispatcher = o.dispatcherState()
	return view
}

func (o *Objects) classStates(claims []State) []ClassState {
	var list []ClassState
	for _, name := range o.ClassNames() {
		list = append(list, o.classState(name, claims))
	}
	return list
}

// ClassNames lists the classes of this dispatcher, and those that its ConfigMaps are for, sorted.
func (o *Objects) ClassNames() []string {
	names := map[string]bool{}
	for _, class := range o.Classes {
		if class.Provisioner == o.Dispatcher.Provisioner {
			names[class.Name] = true
		}
	}
	for _, cm := range o.ConfigMaps {
		if classes.Concerns(cm, o.Dispatcher.Provisioner) && configmaps.ClassName(cm) != "" {
			names[configmaps.ClassName(cm)] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (o *Objects) classState(name string, claims []State) ClassState {
	c := ClassState{Name: podspec.OneLine(name), Health: healthOk}
	problems, good := o.classProblems(name)
	for i, problem := range problems {
		if i == 0 {
			c.Health = string(problem.Reason)
		}
		c.Problems = append(c.Problems, fmt.Sprintf("%s: %s", problem.Reason, problem.Message))
	}
	if good != nil {
		c.ConfigMap, c.Account, c.MaxConcurrent = good.Name, good.ServiceAccountName, good.MaxConcurrent
		c.Grants = o.grants(good.ServiceAccountName)
	}
	c.Running = o.indexed().running[name]
	for _, s := range claims {
		if s.Class == c.Name && slices.Contains([]progress.Phase{progress.Waiting, progress.Blocked, progress.Failed, progress.Held}, s.Phase) {
			c.Waiting++
		}
	}
	return c
}

// classProblems lists the problems of a class, and returns the configuration in force for it, nil where there is none.
func (o *Objects) classProblems(name string) (problems []Cause, inForce *configmaps.Config) {
	report := func(reason podspec.Reason, text string) { problems = append(problems, explain(reason, text, true)) }
	served, faults := classes.ServedAs(name, o.class(name), o.Dispatcher.Provisioner)
	j := o.resolve(served)
	switch {
	case len(faults) > 0:
		report(reasonClass, faults.ToAggregate().Error())
	case !j.Present:
		report(events.ReasonConfigMissing, o.noConfigMap(served))
	}
	if c, none := o.noTopology(o.class(name)); none {
		problems = append(problems, c)
	}
	if j.InForce != nil && slices.Contains(o.Denied, j.InForce.ServiceAccountName) {
		problems = append(problems, explain(reasonDenied, fmt.Sprintf("ServiceAccount %s/%s may not create PersistentVolumes",
			o.Dispatcher.Namespace, j.InForce.ServiceAccountName), true))
	}
	warnings := j.Warnings
	if served != name {
		warnings = append(warnings, o.resolve(name).Warnings...) // on a ConfigMap that nobody uses
	}
	for _, warning := range warnings {
		report(warning.Reason, "ConfigMap "+warning.About.Name+": "+warning.Text)
	}
	if j.InForce != nil && o.reads(AllowList) && !o.Dispatcher.Insecure {
		account := j.InForce.ServiceAccountName
		for _, lack := range o.grants(account).Lacks(name, j.InForce) {
			report(reasonNotGranted, o.lacks(account, lack))
		}
	}
	return problems, j.InForce
}

// grants are the allow-list's lines of a ServiceAccount.
func (o *Objects) grants(account string) allowlist.Lines {
	if o.AllowList == nil || account == "" {
		return nil
	}
	lines := allowlist.Of(o.AllowList.Data, account)
	for setting, value := range lines {
		lines[setting] = podspec.OneLine(value)
	}
	return lines
}

func (o *Objects) dispatcherState() *DispatcherState {
	if !o.reads(Lease) && !o.reads(Deployment) && !o.reads(Policies) {
		return nil
	}
	d := &DispatcherState{Provisioner: o.Dispatcher.Provisioner, Leader: podspec.OneLine(o.Leader), LeaderSince: o.LeaderSince, LeaderLost: o.LeaderLost, LeaderUnknown: !o.reads(Lease),
		Image: podspec.OneLine(o.Dispatcher.Image), Ready: o.Dispatcher.Ready, Wanted: o.Dispatcher.Wanted}
	switch {
	case o.Dispatcher.Insecure:
		d.Policies = []string{"Insecure: the dispatcher runs with --insecure-without-policies"}
	case o.reads(Policies) && len(o.Lacks) == 0:
		d.Policies = []string{healthOk}
	default:
		d.Policies = o.Lacks
	}
	d.Snapshots = o.readySnapshots()
	if o.Stop != nil {
		d.DeletionsStopped = podspec.OneLine("since " + o.Stop.CreationTimestamp.UTC().Format(time.RFC3339) + ": " + o.Stop.Data["reason"])
	}
	return d
}
