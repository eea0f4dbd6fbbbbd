package observed

import (
	"strings"
	"time"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// NodeState says whether a node with a volume's storage exists.
type NodeState int

// The states of nodes.
const (
	NodeUnknown NodeState = iota
	NodeExists
	NodeGone
)

// Host is a node on which a volume is to be made.
type Host struct {
	// Name of the node, empty before it was asked for.
	Name string
	// Label is kubernetes.io/hostname, by which a volume selects its node. Unlabeled reports whether the node exists,
	// and has none.
	Label     string
	Unlabeled bool
}

// label is that of the host where it is not its name.
func (h Host) label() string {
	if h.Label == h.Name {
		return ""
	}

	return h.Label
}

// RefusedBy is the node that does not take the claim's pod, if the pod may run on no other; else it is empty.
func (s *Claim) RefusedBy() string {
	a, ok := Unfinished(s.Attempts)
	if !ok || a.Outcome.Reason != podspec.ReasonUnschedulable {
		return ""
	}

	return podspec.OnlyNode(a.Pod)
}

// AwaitsNode reports whether the removal of the volume's storage may wait for a node that is gone, and the class gives
// such storage up: no node takes the delete pod, or the volume's node was gone before.
func (s *Claim) AwaitsNode() bool {
	if s.Config == nil || s.Config.GiveUpAfter == 0 || !s.Released() {
		return false
	}

	newest, ok := Last(s.Of(contract.Delete))
	unplaced := ok && newest.Pod.Spec.NodeName == "" && podspec.Unschedulable(newest.Pod) != ""

	return unplaced || !s.NodeGoneSince().IsZero()
}

// NodeGoneSince is since when the volume's node is gone, as the volume says; zero where it says nothing, or what cannot
// be.
func (s *Claim) NodeGoneSince() time.Time {
	uid, at, _ := strings.Cut(s.Volume.Annotations[contract.AnnNodeGone], "/")
	since, err := time.Parse(time.RFC3339, at)
	possible := err == nil && uid == string(s.Volume.UID) && !since.Before(s.Volume.CreationTimestamp.Time)
	if !possible {
		return time.Time{}
	}

	return since
}
