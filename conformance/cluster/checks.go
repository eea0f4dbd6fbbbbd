package cluster

import (
	"slices"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// check is a check of a class on a cluster.
type check struct {
	conformance.Check
	// needs are the rights that the check takes.
	needs []right
	run   func(*trial)
	// applies says why the check does not apply to a class, empty if it does. It is nil for a check of all classes.
	applies func(*stage) string
}

// Rules besides those of the contract.
const (
	ruleClass  = "one valid ConfigMap for the class (docs/config-reference.md)"
	ruleBound  = "a claim becomes a volume"
	ruleUsable = "a volume is for pods to write to and to read from"
	ruleGrow   = "what can expand gets larger, and keeps its data"
	ruleGone   = "of a claim that is gone nothing stays"
)

// Checks returns all checks in the order in which they run.
func Checks() []conformance.Check {
	var all []conformance.Check
	for _, c := range checks() {
		all = append(all, c.Check)
	}
	return all
}

func checks() []check {
	of := func(name, rule, did string) conformance.Check {
		return conformance.Check{Name: name, Required: true, Rule: rule, Did: did}
	}
	kill := func(op contract.Operation) func(*trial) { return func(t *trial) { t.checkKilled(op) } }
	return []check{
		{Check: of("class", ruleClass, "read the class's ConfigMap as the dispatcher does"),
			needs: toConfig, run: (*trial).checkClass},
		{Check: of("bound", ruleBound, "make a claim, wait until it is bound, delete it"),
			needs: toAnything, run: (*trial).checkBound},
		{Check: of("volume", conformance.RuleVolume, "compare the volume with the claim and the class; the dispatcher did not have to mend it"),
			needs: toAnything, run: (*trial).checkVolume},
		{Check: of("used", ruleUsable, "one pod writes to the file system, syncs and reads; another one reads the same"),
			needs: slices.Concat(toAnything, toConsume), run: (*trial).checkFileSystem, applies: noFileSystem},
		{Check: of("used-raw", ruleUsable, "the same with a raw device, volumeMode Block"),
			needs: slices.Concat(toAnything, toConsume, toConfig), run: (*trial).checkDevice, applies: noBlock},
		{Check: of("two-claims", conformance.RuleOurs, "two claims at the same time get storage of their own; deleting one leaves the other's data"),
			needs: slices.Concat(toAnything, toConsume), run: (*trial).checkTwo},
		{Check: of("provision-killed", conformance.RuleKilled, "remove the pod that provisions at moments spread over a run of it; the claim is bound all the same"),
			needs: slices.Concat(toAnything, toKill), run: kill(contract.Provision)},
		{Check: of("claim-deleted", conformance.RuleOurs, "delete claims while the pods run that provision them: nothing is left"),
			needs: slices.Concat(toAnything, toWatch), run: (*trial).checkClaimDeleted},
		{Check: of("expand", ruleGrow, "ask for twice the size: the volume and the claim get it, and the data is there"),
			needs: slices.Concat(toAnything, toConsume, toExpand), run: (*trial).checkExpand, applies: notExpandable},
		{Check: of("delete", ruleGone, "delete a claim that was used: its volume, its pods and its Secret go, and of the storage what --list names"),
			needs: slices.Concat(toAnything, toConsume, toWatch), run: (*trial).checkDelete},
		{Check: of("delete-killed", conformance.RuleKilled, "remove the pod that deletes at moments spread over a run of it; the volume goes all the same"),
			needs: slices.Concat(toAnything, toKill), run: kill(contract.Delete)},
		{Check: of("pods", conformance.RulePod, "look at all pods so far: read-only root, not root, no privileges"),
			needs: toWatch, run: (*trial).checkPods},
		{Check: of("secrets", conformance.RuleSecrets, "look for the contents of the class's Secrets in all events, messages, logs and volumes so far"),
			needs: slices.Concat(toConfig, toSecrets, toEvents, toWatch, toLogs), run: (*trial).checkSecrets, applies: noSecrets},
	}
}
