package conformance

import "github.com/flex-provisioner/flex-provisioner/sdk/contract"

// Check is a check of a provisioner.
type Check struct {
	Name string
	// Required reports whether a provisioner has to pass the check. The other checks are advice.
	Required bool
	// Rule is the rule of the contract, from docs/writing-a-provisioner.md.
	Rule string
	// Did describes the check.
	Did string

	run func(*trial)
	// applies says why the check does not apply to a provisioner, empty if it does. It is nil for a check of all provisioners.
	applies func(*stage) string
}

// The rules of the contract, for authors of provisioners.
const (
	ruleName      = "rule 1: name the storage after FLEX_PV_NAME"
	ruleKilled    = "rule 2: you may be killed at any instruction, and run again"
	ruleAlready   = `rule 3: "already there" and "already gone" are success`
	ruleOurs      = "rule 4: a delete proves first that the storage is ours; it may be an undo"
	ruleGone      = `rule 5: "unreachable" is not "gone"`
	ruleExit      = "what it answers: the exit code"
	ruleSecrets   = "no secrets in messages and logs"
	rulePod       = "the pod runs as user 65532 without privileges, its root file system is read-only, and /tmp has room"
	ruleText      = "treat what users write as text"
	ruleVolume    = "the volume counts: it is the claim's, of its class, size and modes"
	ruleSnapshot  = "a snapshot is whole or not there; a restore has its data or fails"
	ruleOperation = "FLEX_OPERATION says what to do"
)

// Checks returns all checks in the order in which they run. If the first one fails, the others are skipped.
func Checks() []Check {
	kill := func(op contract.Operation) func(*trial) { return func(t *trial) { t.killed(op) } }
	killSnapshot := func(op contract.Operation) func(*trial) { return func(t *trial) { t.snapshotKilled(op) } }
	return []Check{
		{Name: "provision", Required: true, Rule: ruleExit, run: (*trial).checkProvision,
			Did: "provision a claim of 1 GiB, then delete its volume"},
		{Name: "read-only-root", Required: true, Rule: rulePod, run: (*trial).checkReadOnlyRoot,
			Did: "the same with a root file system that nothing can be written to"},
		{Name: "non-root", Required: true, Rule: rulePod, run: (*trial).checkNonRoot, applies: asRoot,
			Did: "the same as a user that is not root, without capabilities"},
		{Name: "volume", Required: true, Rule: ruleVolume, run: (*trial).checkVolume,
			Did: "compare the volume with the claim and the class, as the dispatcher does"},
		{Name: "name", Required: true, Rule: ruleName, run: (*trial).checkName,
			Did: "look for the name of the volume in the storage that a provision made"},
		{Name: "provision-twice", Required: true, Rule: ruleAlready, run: (*trial).checkTwice,
			Did: "provision a claim that has its storage and its volume, and one that has lost its volume only"},
		{Name: "provision-at-once", Required: true, Rule: ruleKilled, run: (*trial).checkAtOnce,
			Did: "two pods provision one claim at the same time, then a third; as when a node is lost"},
		{Name: "provision-killed", Required: true, Rule: ruleKilled, run: kill(contract.Provision),
			Did: "SIGKILL at times spread over a provision and at every call to the API server; then provision again and delete, or undo at once"},
		{Name: "delete", Required: true, Rule: ruleOurs, run: (*trial).checkDelete,
			Did: "delete one of two volumes: its storage is gone, the other's untouched"},
		{Name: "delete-twice", Required: true, Rule: ruleAlready, run: (*trial).checkDeleteTwice,
			Did: "delete a volume whose storage is gone"},
		{Name: "delete-at-once", Required: true, Rule: ruleKilled, run: (*trial).checkDeleteAtOnce,
			Did: "two pods delete one volume at the same time, then a third"},
		{Name: "delete-killed", Required: true, Rule: ruleKilled, run: kill(contract.Delete),
			Did: "SIGKILL at times spread over a delete and at every call to the API server; then delete again"},
		{Name: "delete-nothing", Required: true, Rule: ruleAlready, run: (*trial).checkDeleteNothing,
			Did: "delete a volume whose storage was never made"},
		{Name: "undo", Required: true, Rule: ruleOurs, run: (*trial).checkUndo,
			Did: "delete by the name alone what a provision made that nobody knows of"},
		{Name: "undo-nothing", Required: true, Rule: ruleOurs, run: (*trial).checkUndoNothing,
			Did: "delete by the name alone what was never made"},
		{Name: "expand", Required: true, Rule: ruleAlready, run: (*trial).checkExpand, applies: notExpandable,
			Did: "expand a volume to twice its size, twice, then delete it"},
		{Name: "expand-killed", Required: true, Rule: ruleKilled, run: kill(contract.Expand), applies: notExpandable,
			Did: "SIGKILL at times spread over an expansion and at every call to the API server; then expand again and delete"},
		{Name: "expand-nothing", Rule: ruleExit, run: (*trial).checkExpandNothing, applies: notExpandable,
			Did: "expand a volume whose storage is gone: no exit code 0"},
		{Name: "snapshot", Required: true, Rule: ruleSnapshot, run: (*trial).checkSnapshot, applies: withoutSnapshots,
			Did: "take a snapshot twice, change the volume between, and restore what it was, also after a delete of the volume"},
		{Name: "snapshot-killed", Required: true, Rule: ruleKilled, run: killSnapshot(contract.Snapshot), applies: withoutSnapshots,
			Did: "SIGKILL at times spread over a snapshot and at every call to the API server; then take it again and restore it whole"},
		{Name: "delete-snapshot", Required: true, Rule: ruleAlready, run: (*trial).checkDeleteSnapshot, applies: withoutSnapshots,
			Did: "delete a snapshot twice, and one that was never taken: it is gone, and its volume is untouched"},
		{Name: "delete-snapshot-killed", Required: true, Rule: ruleKilled, run: killSnapshot(contract.DeleteSnapshot), applies: withoutSnapshots,
			Did: "SIGKILL at times spread over a delete-snapshot and at every call to the API server; then restore it whole or not at all, and delete it again"},
		{Name: "restore-nothing", Required: true, Rule: ruleSnapshot, run: (*trial).checkRestoreNothing, applies: withoutSnapshots,
			Did: "restore a snapshot that does not exist: exit code 64 or 69, and nothing is made"},
		{Name: "list", Required: true, Rule: ruleOperation, run: (*trial).checkList, applies: notListable,
			Did: "list the storage while there is a volume, and after its delete"},
		{Name: "terminated", Required: true, Rule: ruleKilled, run: (*trial).checkTerminated,
			Did: "SIGTERM at times spread over a provision and a delete and at every call to the API server: it ends within the grace period; then again"},
		{Name: "exit-codes", Required: true, Rule: ruleExit, run: (*trial).checkExitCodes,
			Did: "provision without properties, and in the other volume mode; the API server refuses the volume, then does not answer well: no exit code 0. " +
				"In all runs: 0 with a volume only, and not after flexctl fail; 64 and 69 with nothing made only"},
		{Name: "unknown-operation", Required: true, Rule: ruleOperation, run: (*trial).checkUnknownOperation, applies: chosenByDispatcher,
			Did: "ask for an operation that does not exist: no exit code 0, and nothing is made"},
		{Name: "sizes", Required: true, Rule: ruleVolume, run: (*trial).checkSizes,
			Did: "claims of 0 bytes, 1 byte, 1 GiB and a byte, and 4 EiB: a volume that fits, or a failure that leaves nothing"},
		{Name: "hostile-claims", Required: true, Rule: ruleText, run: (*trial).checkHostileClaims,
			Did: "claims with the longest names, and users, groups and annotations with quotes, leading dashes and $(...)"},
		{Name: "hostile-values", Required: true, Rule: ruleText, run: (*trial).checkHostileValues,
			Did: "properties and parameters with quotes, newlines, leading dashes, $(...) and YAML at their end"},
		{Name: "secrets", Required: true, Rule: ruleSecrets, run: (*trial).checkSecrets,
			Did: "look for the pods' tokens and the contents of their Secrets in all that was printed, told and created so far"},
		{Name: "unreachable", Required: true, Rule: ruleGone, run: (*trial).checkUnreachable, applies: noDirectory,
			Did: "delete while the directory of the storage is an empty one, as where a mount is missing: no exit code 0"},
		{Name: "elsewhere", Rule: ruleGone, run: (*trial).checkElsewhere, applies: noDirectory,
			Did: "delete while the directory of the storage is another one with volumes of its own, as where a class was pointed elsewhere: no exit code 0"},
		{Name: "messages", Rule: ruleExit, run: (*trial).checkMessages,
			Did: "look for failures so far that left no message for the claim's owner"},
	}
}

func asRoot(s *stage) string {
	if s.subject.config.Root() {
		return "the class runs it as root (run-as-user: 0), which flex-pv-policy must grant to its ServiceAccount"
	}
	return ""
}

func chosenByDispatcher(s *stage) string {
	if s.subject.onlyInline() {
		return "inline scripts are chosen by the dispatcher, for the operations that it has scripts for"
	}
	return ""
}

func noDirectory(s *stage) string {
	if len(s.storage) == 0 {
		return "the storage is no directory that could be taken away"
	}
	return ""
}
