package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/configmaps/allowlist"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// normal is a cause with which nothing is wrong. now says for a claim whose last attempt failed what goes on.
func normal(reason podspec.Reason, now, format string, args ...any) (Cause, bool) {
	c := explain(reason, fmt.Sprintf(format, args...), false)
	c.now = now

	return c, true
}

const waitsForTurn = "the next attempt waits for its turn"

// turn is for a pod that waits for others of its class. Which claim is next depends on the turns of namespaces.
func (o *Objects) turn(s situation) (Cause, bool) {
	if !s.due() || s.Config == nil {
		return Cause{}, false
	}

	used, limit := o.indexed().running[s.ClassName], s.Config.MaxConcurrent
	if limit == 0 || used < limit {
		return Cause{}, false
	}

	before := ""
	if s.Pending() && o.reads(Claims) && !o.OneNamespace {
		older, _ := slices.BinarySearchFunc(o.indexed().waiting[s.ClassName], s.Claim.Claim.CreationTimestamp.Time, time.Time.Compare)
		before = fmt.Sprintf(", with %d older claims before it", older)
	}

	return normal(events.ReasonConcurrency, waitsForTurn,
		"waits for its turn%s: %d of at most %d pods of StorageClass %s run or start (max-concurrent), the oldest is %s; namespaces take turns",
		before, used, limit, s.ClassName, o.oldestPod(s.ClassName))
}

// oldestPod says which pod of a class has run or started for the longest time, and for how long.
func (o *Objects) oldestPod(class string) string {
	oldest := o.indexed().oldest[class]
	return fmt.Sprintf("%s, for %s", oldest.Name, o.Now.Sub(oldest.CreationTimestamp.Time).Round(time.Second))
}

// notGranted is for a claim whose pods can create no volume, whatever they do.
func (o *Objects) notGranted(s situation) (Cause, bool) {
	asks := s.op == string(contract.Provision) && s.Pending() && s.Volume == nil && s.Config != nil && !s.WaitsForNode()
	if !asks || !o.reads(AllowList) || o.Dispatcher.Insecure {
		return Cause{}, false
	}

	account := s.Config.ServiceAccountName
	for _, lack := range o.grants(account).Lacks(s.ClassName, s.Config) {
		if lack.Setting == "storageClasses" || lack.Setting == "volumeTypes" {
			return explain(reasonNotGranted, o.lacks(account, lack), true), true
		}
	}

	return Cause{}, false
}

// lacks says what a line of the allow-list lacks.
func (o *Objects) lacks(account string, lack allowlist.Lack) string {
	return fmt.Sprintf("ConfigMap %s/%s: data[%s.%s] %s", o.Dispatcher.System, allowlist.Name, account, lack.Setting, lack.What)
}

func running(_ *Objects, s situation) (Cause, bool) {
	a, runs := observed.Unfinished(s.Attempts)
	if !runs {
		return Cause{}, false
	}

	now := fmt.Sprintf("attempt %d is %s", a.Number, strings.ToLower(string(a.Outcome.Phase)))

	before := ""
	if reconcile.Outdated(s.Claim, a) {
		before = fmt.Sprintf("; it has the ConfigMap as it was before its last change, to end it: kubectl -n %s delete pod %s",
			a.Pod.Namespace, a.Pod.Name)
	}

	c, is := normal(reasonPodWorks, now, "%s%s (pod %s/%s)%s", now, endsBy(s.Claim, a), a.Pod.Namespace, a.Pod.Name, before)
	if a.Outcome.Phase == podspec.Starting {
		c.Do = "nothing." // there is no log yet
	}

	return c, is
}

// endsBy is by when an attempt ends that has not, empty where nothing bounds it.
func endsBy(s *observed.Claim, a observed.Attempt) string {
	started, deadline := s.Started(a), a.Pod.Spec.ActiveDeadlineSeconds
	switch {
	case a.Outcome.Phase == podspec.Running && deadline != nil && !started.IsZero():
		timeout := time.Duration(*deadline) * time.Second
		return "; " + events.EndsBy(started.Add(timeout), "timeout", timeout)
	case a.Outcome.Phase == podspec.Starting && s.Config != nil && s.Config.StartTimeout > 0:
		return "; " + events.EndsBy(a.Pod.CreationTimestamp.Add(s.Config.StartTimeout), "start-timeout", s.Config.StartTimeout)
	}

	return ""
}

func inUse(o *Objects, s situation) (Cause, bool) {
	holder := s.Holder()
	bound := holder != nil && holder.DeletionTimestamp != nil && s.Volume != nil && s.Volume.Status.Phase == corev1.VolumeBound
	if !bound || s.op != string(contract.Delete) {
		return Cause{}, false
	}

	what := "the claim is being deleted and has the finalizers " + strings.Join(holder.Finalizers, ", ")
	users := o.usersOf(holder)
	if len(users) > 0 {
		what += "; it is used by pod " + strings.Join(users[:min(len(users), maxUsers)], ", ")
	}

	return normal(reasonInUse, "", "%s", what)
}

// maxUsers is how many pods that use a claim are named.
const maxUsers = 5

// usersOf are the names of the pods for which Kubernetes keeps a claim that is being deleted.
func (o *Objects) usersOf(claim *corev1.PersistentVolumeClaim) (names []string) {
	for _, pod := range filter(o.Consumers, usesClaim(claim)) {
		if pod.Spec.NodeName != "" {
			names = append(names, pod.Name)
		}
	}

	return names
}

func (o *Objects) noClass(s situation) (Cause, bool) {
	if !s.Pending() || s.Class != nil || s.Wanted {
		return Cause{}, false
	}

	return o.missingClass(s.ClassName), true
}

// missingClass is the cause of a claim whose class does not exist, with the class that is probably meant.
func (o *Objects) missingClass(name string) Cause {
	message := fmt.Sprintf("StorageClass %s does not exist", quoted(name))
	if name == "" {
		message = "the claim names no StorageClass"
	}

	if meant := o.similarClass(name); meant != "" {
		message += ": did you mean " + meant + "?"
	}

	return explain(reasonNoClass, message, true)
}

// similarClass is the class of this dispatcher whose name is most like another one that does not exist, empty for none.
func (o *Objects) similarClass(name string) string {
	ours := func(c *storagev1.StorageClass) bool { return c.Provisioner == o.Dispatcher.Provisioner }

	return configmaps.Nearest(name, namesOf(o.Classes, ours))
}

func (o *Objects) noNode(s situation) (Cause, bool) {
	if !s.Pending() || !s.WaitsForNode() {
		return Cause{}, false
	}

	if c, none := o.noTopology(s.Class); none {
		return c, true
	}

	if pod := first(o.Consumers, usesClaim(s.Claim.Claim)); pod != nil {
		return o.unplaced(pod), true
	}

	const what = "no pod that uses the claim has a node yet"
	if s.Class != nil && len(s.Class.AllowedTopologies) > 0 && len(o.Nodes) == 0 {
		return normal(reasonConsumer, "", "%s; nodes were not looked at, and its class allows those with %s", what, topologies(s.Class))
	}

	return normal(reasonConsumer, "the scheduler has to choose a node for the claim again", what)
}

// usesClaim picks the pods that use a claim, also one that Kubernetes made for them. A pod that has ended uses none: it
// may have had an earlier claim of the name.
func usesClaim(claim *corev1.PersistentVolumeClaim) func(pod *corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed

		return !ended && pod.Namespace == claim.Namespace && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			named := v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
			made := v.Ephemeral != nil && pod.Name+"-"+v.Name == claim.Name

			return named || made
		})
	}
}

// unplaced says why a pod that uses the claim has no node, or had one before the claim.
func (o *Objects) unplaced(pod *corev1.Pod) Cause {
	age := o.Now.Sub(pod.CreationTimestamp.Time)
	answered := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	unschedulable := podspec.Unschedulable(pod)

	what, do, warning := "", "", true
	switch {
	case pod.Spec.NodeName != "": // the scheduler binds a pod after its claims
		what = fmt.Sprintf("has its node %s by spec.nodeName, so that the scheduler never chooses one for the claim", pod.Spec.NodeName)
		do = "create the pod again with a nodeSelector in place of spec.nodeName."
	case len(pod.Spec.SchedulingGates) > 0:
		what, warning = "has scheduling gates: "+pod.Spec.SchedulingGates[0].Name, false
		do = "see who takes the pod's scheduling gates away."
	case unschedulable != "":
		what, do = unschedulable, "mend what the scheduler names."
	case !answered && age >= reconcile.SchedulerSilence:
		what = fmt.Sprintf("the scheduler has said nothing of it for %s", age.Round(time.Second))
		do = "see whether kube-scheduler runs, and whether it is the pod's schedulerName."
	default:
		what, warning = "the scheduler has not chosen a node for the claim yet", false
		do = "nothing; if it stays so, see what the pod's events say."
	}

	c := explain(reasonConsumer, fmt.Sprintf("pod %s uses the claim, and %s", pod.Name, what), warning)
	c.Do = do

	return c
}

func notHanded(_ *Objects, s situation) (Cause, bool) {
	if !s.Pending() || s.Wanted {
		return Cause{}, false
	}

	since := s.Claim.Claim.CreationTimestamp.Time
	if s.Class != nil && s.Class.CreationTimestamp.After(since) {
		since = s.Class.CreationTimestamp.Time
	}

	if s.WaitsForConsumer() { // nothing says when the scheduler chose the node
		since = s.Now
	}

	return notAsked(s.Now.Sub(since)), true
}

// notAsked is the cause of a claim about which Kubernetes has not asked a provisioner for a time.
func notAsked(since time.Duration) Cause {
	c := explain(reasonNotHanded, "the claim lacks the annotation by which Kubernetes asks a provisioner", false)
	if since >= handOver {
		c.Warning = true
		c.Do = "see whether kube-controller-manager runs, and what the claim's events say."
	}

	return c
}

// handOver is how long kube-controller-manager may take to ask a provisioner. It looks every 15 seconds.
const handOver = 30 * time.Second

// bindsWithin is how long kube-controller-manager may take to bind a volume that exists.
const bindsWithin = 10 * time.Second

func binding(_ *Objects, s situation) (Cause, bool) {
	if s.op != string(contract.Provision) || s.Volume == nil {
		return Cause{}, false
	}

	c := explain(reasonBinding, fmt.Sprintf("volume %s exists", s.Volume.Name), false)
	if s.Now.Sub(s.Volume.CreationTimestamp.Time) >= bindsWithin {
		c.Warning = true
		c.Do = "see whether kube-controller-manager runs."
	}

	return c, true
}

// away is for a step that the dispatcher would take, if there were one.
func (o *Objects) away(s situation) (Cause, bool) {
	if !o.reads(Lease) || !s.due() {
		return Cause{}, false
	}

	return o.noLeader()
}

// noLeader is the cause where no dispatcher works.
func (o *Objects) noLeader() (Cause, bool) {
	switch {
	case o.Leader == "":
		return explain(reasonAway, "no dispatcher holds the Lease in namespace "+o.Dispatcher.LeaseNamespace, true), true
	case !o.LeaderLost.IsZero():
		return explain(reasonAway, fmt.Sprintf("dispatcher %s has not renewed its Lease since %s",
			o.Leader, o.LeaderLost.UTC().Format(time.RFC3339)), true), true
	}

	return Cause{}, false
}

// nextStep is for what nothing says anything about.
func nextStep(_ *Objects, s situation) (Cause, bool) {
	const looked = "the next step is due: nothing of the claim, its class, its pods and their events keeps it"
	if !s.plan.NextAttempt.IsZero() {
		return normal(reasonDispatcher, "the next attempt waits for its time", "the next attempt waits for its time")
	}

	return normal(reasonDispatcher, "the next attempt is due", looked)
}

// growing is for an expansion of which the last step is the kubelet's.
func growing(_ *Objects, s situation) (Cause, bool) {
	holder := s.Holder()
	if holder == nil || s.Volume == nil || !resize.OnNode(holder) {
		return Cause{}, false
	}

	made, has := observed.Capacity(s.Volume), holder.Status.Capacity[corev1.ResourceStorage]

	return normal(reasonGrows, "", "volume %s has %s, and the claim has %s until its node has grown the file system",
		s.Volume.Name, made.String(), has.String())
}

func kept(_ *Objects, s situation) (Cause, bool) {
	retained := s.Volume != nil && s.Volume.Status.Phase == corev1.VolumeReleased &&
		s.Volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	if !retained {
		return Cause{}, false
	}

	return normal(reasonKept, "", "volume %s is Released and has reclaim policy Retain", s.Volume.Name)
}

func volumeFailed(_ *Objects, s situation) (Cause, bool) {
	if s.Volume == nil || s.Volume.Status.Phase != corev1.VolumeFailed {
		return Cause{}, false
	}

	return normal(reasonFailed, "", "volume %s is Failed: %s", s.Volume.Name, s.Volume.Status.Message)
}

// afterFailures makes how the last attempt failed the cause, where nothing else is wrong with what goes on now.
func (o *Objects) afterFailures(s situation, c Cause) Cause {
	if c.now == "" || c.Warning {
		return c
	}

	a, runs := observed.Unfinished(s.Attempts)
	failed, known := o.lastFailure(s)
	switch {
	case known:
		failed.Message = podspec.EventMessage(c.now + "; " + failed.Message)
		return failed
	case runs && a.Number > 0:
		c.Message += fmt.Sprintf("; how %s ended is not known: no pod, no event and no status says it", attemptsUpTo(a.Number-1))
	}

	return c
}

// lastFailure is how the last attempt of the operation failed, before the one that runs. Pods say so, the claim's status, and events
// that tenants cannot write.
func (o *Objects) lastFailure(s situation) (c Cause, known bool) {
	op := contract.Operation(s.op)
	if s.op == progress.Undo {
		op = contract.Delete
	}

	a, runs := observed.Unfinished(s.Attempts)
	last := -1
	tell := func(number int, reason podspec.Reason, message string) {
		if number < last || runs && number >= a.Number {
			return
		}

		upTo := number
		switch newest, ok := s.Latest(op); {
		case runs:
			upTo = a.Number - 1
		case ok && op == contract.Provision && s.Volume == nil:
			upTo = newest.Number
		}

		which := attemptsUpTo(upTo) + " failed: "
		if number < upTo {
			which = fmt.Sprintf("%s failed, attempt %d so: ", attemptsUpTo(upTo), number)
		}

		c, known, last = explain(reason, which+message, true), true, number
	}

	for _, a := range s.All() {
		stopped := a.Pod.DeletionTimestamp != nil && !a.Outcome.MayHaveRun // for a reason that was told
		if a.Op == op && a.Outcome.Phase == podspec.Failed && !stopped {
			tell(a.Number, a.Outcome.Reason, events.AttemptProblem("", a.Pod, a.Outcome.Reason, a.Outcome.Message).Message)
		}
	}

	for _, e := range o.believed(s.Claim) {
		if of, number := attemptIn(e.Message, s.UID); of == op && e.Type == corev1.EventTypeWarning {
			tell(number, podspec.Reason(e.Reason), e.Message)
		}
	}

	return c, known
}

func attemptsUpTo(number int) string {
	if number == 0 {
		return "attempt 0"
	}

	return fmt.Sprintf("attempts 0 to %d", number)
}

// attemptIn is the attempt that a message names last by its pod, with an empty operation where it names none of the claim with the UID.
func attemptIn(message, uid string) (op contract.Operation, number int) {
	for _, word := range slices.Backward(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ()/,;:", r) })) {
		if op, of, number, ok := podspec.ParseName(word); ok && of == uid {
			return op, number
		}
	}

	return "", -1
}

// meantFor says which ConfigMap is probably meant for a class that has none, and why it is not the class's; empty for none.
func (o *Objects) meantFor(class string) string {
	const correct = "correct the label"
	for _, cm := range o.Unlabelled {
		if configmaps.ClassName(cm) == class || cm.Name == class {
			return fmt.Sprintf("ConfigMap %s/%s is there, but its label %s is %s, not %s: %s", cm.Namespace, cm.Name,
				configmaps.LabelType, quoted(cm.Labels[configmaps.LabelType]), configmaps.TypeProvisioner, correct)
		}
	}

	for _, cm := range o.ConfigMaps {
		of := configmaps.ClassName(cm)
		like := cm.Name == class || configmaps.Nearest(of, []string{class}) != ""
		if of != class && like && o.class(of) == nil && classes.Concerns(cm, o.Dispatcher.Provisioner) {
			return fmt.Sprintf("ConfigMap %s/%s is there, but its label storage-class is %s, not %s: %s",
				cm.Namespace, cm.Name, quoted(of), class, correct)
		}
	}

	return ""
}

// noConfigMap says that a class has no ConfigMap, and where there is one that is probably meant, why it is not the class's.
func (o *Objects) noConfigMap(class string) string {
	return cmp.Or(o.resolve(class).Problem, o.meantFor(class), classes.NoConfigMap(o.Dispatcher.Namespace, class))
}

// onNode says for a delete whose node does not take its pod how the storage is given up.
func onNode(s *observed.Claim, c Cause) Cause {
	a, waits := observed.Unfinished(s.Attempts)
	bound := c.Reason == podspec.ReasonUnschedulable && waits && len(podspec.RequiredNodes(a.Pod)) > 0
	if !bound || !s.Released() {
		return c
	}

	c.Do = fmt.Sprintf("bring the node back, uncordon it, or let the class's tolerations tolerate its taints. If it never comes back, "+
		"give up the storage: kubectl patch pv %s --type=merge -p '{\"metadata\": {\"finalizers\": null}}' && kubectl delete pv %[1]s",
		s.Volume.Name)

	return c
}

// refusedLine matches the line of the allow-list by which the policy on volumes refused one.
var refusedLine = regexp.MustCompile(` denied request: .* (\S+)\.([A-Za-z]+) (?:\(.*\) )?of ConfigMap `)

// granting is the remedy for a refusal of the API server that a container tells, empty for none. Only lines of the
// class's own ServiceAccount are named.
func (o *Objects) granting(s State) string {
	config := o.resolve(o.servedAs(s.Class)).InForce
	if config == nil {
		return ""
	}

	account := config.ServiceAccountName
	switch {
	case strings.Contains(s.Message, ":"+account+`" cannot create resource "persistentvolumes"`):
		return events.BindPods + "."
	case strings.Contains(s.Message, " denied request: this pod may create only PersistentVolume "):
		return "let the provisioner name the volume $FLEX_PV_NAME, as flexctl create-pv does."
	}

	line := refusedLine.FindStringSubmatch(s.Message)
	if line == nil || line[1] != account || !slices.Contains(volumeSettings, line[2]) {
		return ""
	}

	is := "is missing"
	if value, has := o.grants(account)[line[2]]; has {
		is = "is " + quoted(value)
	}

	return fmt.Sprintf("correct the provisioner, or let a cluster administrator grant it: data[%s.%s] of ConfigMap %s/%s %s.",
		account, line[2], o.Dispatcher.System, allowlist.Name, is)
}

// volumeSettings are those of the allow-list that the policy on volumes names.
var volumeSettings = []string{"storageClasses", "volumeFields", "volumeTypes", "pathPrefixes", "nfsExports", "csiDrivers", "stagers",
	"secretNamespaces", "mountOptions"}

func (o *Objects) servedAs(class string) string {
	served, _ := classes.ServedAs(class, o.class(class), o.Dispatcher.Provisioner)
	return served
}

// addressed is the Do of a state, with the names that its commands take.
func (o *Objects) addressed(s State) string {
	if s.Warning && s.NotOurs == "" {
		s.Do = cmp.Or(o.granting(s), s.Do)
	}

	return strings.NewReplacer(
		"kubectl flex logs", "kubectl flex logs "+o.nameOf(s),
		"kubectl flex release", "kubectl flex release "+s.Volume,
	).Replace(s.Do)
}

// nameOf is by what a command finds the claim of a state again. Another claim may have taken the name of one that is gone.
func (o *Objects) nameOf(s State) string {
	switch {
	case s.OfSnapshot && s.Snapshot != "":
		return fmt.Sprintf("%s -n %s", s.Name(false), s.Namespace)
	case s.OfSnapshot:
		return s.Name(false)
	case o.claim(s.UID) != nil:
		return fmt.Sprintf("%s -n %s", s.Claim, s.Namespace)
	}

	return cmp.Or(s.Volume, s.Pod)
}
