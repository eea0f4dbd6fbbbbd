package observed

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

const ownVolume = "pvc-" + dispatchertest.UID

// claimOf is a bound claim of class gold that names a volume.
func claimOf(uid types.UID, volume string) *corev1.PersistentVolumeClaim {
	class := "gold"

	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: uid},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume, StorageClassName: &class}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
}

// TestHolder: to which claim a volume belongs, and under which UID that claim is served. What a claim says alone
// proves nothing.
func TestHolder(t *testing.T) {
	for name, c := range map[string]struct {
		volume, provisioner string
		change              func(v *corev1.PersistentVolume)
		claim, other        *corev1.PersistentVolumeClaim
		holder, key         string
		pending             bool
	}{
		"its own claim":             {volume: "bound", claim: claimOf(dispatchertest.UID, ownVolume), holder: dispatchertest.UID},
		"its claim waits":           {volume: "available", claim: claimOf(dispatchertest.UID, ""), holder: dispatchertest.UID, pending: true},
		"another claim":             {volume: "stray bound", other: claimOf("another", ownVolume), holder: "another", key: dispatchertest.UID},
		"another, and its own too":  {volume: "stray bound", claim: claimOf(dispatchertest.UID, ownVolume), other: claimOf("another", ownVolume), holder: "another", key: dispatchertest.UID},
		"another, its own waits":    {volume: "stray bound", claim: claimOf(dispatchertest.UID, ""), other: claimOf("another", ownVolume), holder: "another", key: dispatchertest.UID},
		"another that names none":   {volume: "stray bound", claim: claimOf(dispatchertest.UID, ownVolume), other: claimOf("another", ""), key: "another"},
		"another that is gone":      {volume: "stray released", claim: claimOf(dispatchertest.UID, ownVolume)},
		"one that says so alone":    {volume: "bound", other: claimOf("another", ownVolume), key: "another"},
		"another of the name":       {volume: "stray bound", other: claimOf("third", ownVolume), key: "third"},
		"another provisioner's":     {volume: "stray bound foreign", other: claimOf("another", ownVolume), key: "another"},
		"without any annotation":    {volume: "stray bound bare", other: claimOf("another", ownVolume), holder: "another", key: dispatchertest.UID},
		"given to what is no claim": {volume: "bound", change: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID, v.Spec.ClaimRef.Name = "another", "../x" }, claim: claimOf(dispatchertest.UID, ownVolume), holder: dispatchertest.UID},
	} {
		s := &Claim{UID: dispatchertest.UID, Provisioner: "p", Claim: c.claim}
		volume := dispatchertest.Volume(c.volume)
		if c.change != nil {
			c.change(volume)
		}

		s.SetVolume(volume)
		s.SetOther(func(string, string) *corev1.PersistentVolumeClaim { return c.other })
		holder := ""
		if claim := s.Holder(); claim != nil {
			holder = string(claim.UID)
		}

		if holder != c.holder || s.Pending() != c.pending {
			t.Errorf("%s: the holder is %q, want %q; pending: %t, want %t", name, holder, c.holder, s.Pending(), c.pending)
		}

		if c.other == nil {
			continue
		}

		if got := KeyOf(c.other, volume, "p"); got != c.key {
			t.Errorf("%s: the other claim is served as %s, want %s", name, got, c.key)
		}

		own := &Claim{UID: string(c.other.UID), Provisioner: "p", Claim: c.other}
		own.SetElsewhere(func(string) *corev1.PersistentVolume { return volume })
		if want := c.key != string(c.other.UID); own.Elsewhere != want {
			t.Errorf("%s: the other claim is served elsewhere: %t, want %t", name, own.Elsewhere, want)
		}
	}
}

// TestClassByObjects: which class the objects are of. An image may write any class into its volume.
func TestClassByObjects(t *testing.T) {
	for name, c := range map[string]struct {
		volume       string // of class silver
		claim, other *corev1.PersistentVolumeClaim
		pods         map[string]string // their classes
		want         string
	}{
		"nothing":                               {want: "queue"},
		"a claim":                               {claim: claimOf(dispatchertest.UID, ""), want: "gold"},
		"pods alone":                            {pods: map[string]string{"prov-0 failed kept": "old", "prov-1 failed": "new"}, want: "new"},
		"acted on alone":                        {pods: map[string]string{"prov-0 failed": "old"}, want: "old"},
		"a volume alone":                        {volume: "released", want: "silver"},
		"a claim's that is not bound yet":       {volume: "available", claim: claimOf(dispatchertest.UID, ""), want: "gold"},
		"an adopted volume":                     {volume: "bound", claim: claimOf(dispatchertest.UID, ownVolume), want: "silver"},
		"another claim's":                       {volume: "stray bound", claim: claimOf(dispatchertest.UID, ownVolume), other: claimOf("another", ownVolume), want: "silver"},
		"another claim's, and its own is bound": {volume: "stray bound", claim: claimOf(dispatchertest.UID, ownVolume), want: "gold"},
		"made by a pod":                         {volume: "released", pods: map[string]string{"prov-0 done": "pods"}, want: "pods"},
		"bound, made by a pod":                  {volume: "bound", claim: claimOf(dispatchertest.UID, ownVolume), pods: map[string]string{"prov-0 done": "pods"}, want: "pods"},
		"removed by a pod":                      {volume: "released", pods: map[string]string{"del-0 failed": "pods"}, want: "silver"},
	} {
		s := &Claim{UID: dispatchertest.UID, Provisioner: "p", Claim: c.claim, Other: c.other}
		if c.volume != "" {
			s.SetVolume(dispatchertest.Volume(c.volume))
		}

		for words, class := range c.pods {
			pod := dispatchertest.Pod(words, dispatchertest.Noon, dispatchertest.Noon)
			pod.Annotations[contract.AnnClass] = class
			s.Add(NewAttempt(pod, ""))
		}

		s.Sort()
		if got := s.ClassByObjects("queue"); got != c.want {
			t.Errorf("%s: class %q, want %q", name, got, c.want)
		}
	}
}

// TestUserOfReleasedVolume: which claims a released volume is kept for, although it names a claim that is gone. A claim
// that its author alone says to be bound has to pay for the volume.
func TestUserOfReleasedVolume(t *testing.T) {
	for name, c := range map[string]struct {
		uid             types.UID
		volume, size    string
		phase           corev1.PersistentVolumeClaimPhase
		user, successor bool
	}{
		"bound":                  {uid: "b", volume: ownVolume, size: "1Gi", phase: corev1.ClaimBound, user: true, successor: true},
		"bound, and smaller":     {uid: "b", volume: ownVolume, size: "1", phase: corev1.ClaimBound, user: true},
		"lost":                   {uid: "b", volume: ownVolume, size: "2Gi", phase: corev1.ClaimLost, user: true, successor: true},
		"lost, and smaller":      {uid: "b", volume: ownVolume, size: "1023Mi", phase: corev1.ClaimLost},
		"pending, and smaller":   {uid: "b", volume: ownVolume, size: "1", phase: corev1.ClaimPending},
		"pending":                {uid: "b", volume: ownVolume, size: "1Gi", phase: corev1.ClaimPending, successor: true},
		"bound to another":       {uid: "b", volume: "pvc-b", size: "1Gi", phase: corev1.ClaimBound},
		"the one that it names":  {uid: dispatchertest.UID, volume: ownVolume, size: "1Gi", phase: corev1.ClaimBound},
		"of a volume for itself": {uid: "b", volume: "pvc-b", size: "1Gi", phase: corev1.ClaimLost},
	} {
		claim := claimOf(c.uid, c.volume)
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.size)}
		claim.Status.Phase = c.phase
		s := &Claim{UID: dispatchertest.UID, Provisioner: "p"}
		s.SetVolume(dispatchertest.Volume("released"))
		var users []*corev1.PersistentVolumeClaim
		if GivenVolume(claim) == s.Volume.Name {
			users = append(users, claim)
		}

		s.SetUser(users)
		s.SetSuccessor(func(string, string) *corev1.PersistentVolumeClaim { return claim })

		if user, successor := s.User != nil, s.Successor != nil; user != c.user || successor != c.successor {
			t.Errorf("%s: user: %t, want %t; successor: %t, want %t", name, user, c.user, successor, c.successor)
		}
	}
}

// TestFreedVolume: a volume whose claimRef names no claim is nobody's to remove, whatever phase it still has.
func TestFreedVolume(t *testing.T) {
	for _, phase := range []corev1.PersistentVolumePhase{corev1.VolumeReleased, corev1.VolumeFailed} {
		for name, free := range map[string]func(v *corev1.PersistentVolume){
			"without claimRef": func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil },
			"without its UID":  func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" },
		} {
			v := dispatchertest.Volume("released")
			v.Status.Phase = phase
			if !AwaitsDeletion(v) {
				t.Fatalf("%s: a released volume does not await its deletion", phase)
			}

			if free(v); AwaitsDeletion(v) {
				t.Errorf("%s, %s: it awaits its deletion", phase, name)
			}
		}
	}
}

// TestRecordLost: a volume that does not say who made it is worth a word where nobody would remove or enlarge it.
func TestRecordLost(t *testing.T) {
	asks := claimOf(dispatchertest.UID, ownVolume)
	asks.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
	for _, c := range []struct {
		volume, class, pod string
		claim              *corev1.PersistentVolumeClaim
		want               bool
	}{
		{volume: "bare bound", class: "p", want: true},
		{volume: "bare released", class: "p", want: true},
		{volume: "bare available", class: "p"},
		{volume: "bare bound", class: "p", pod: "prov-0 done"}, // the pod's end mends it
		{volume: "bare bound", class: "csi.example.com"},
		{volume: "bare bound"},
		{volume: "bare bound retain", class: "p"},
		{volume: "bare bound retain", class: "p", claim: asks, want: true},
		{volume: "bound", class: "p"},
		{volume: "foreign bound", class: "p"},
	} {
		s := &Claim{UID: dispatchertest.UID, Provisioner: "p", Claim: c.claim}
		s.SetVolume(dispatchertest.Volume(c.volume))
		if c.class != "" {
			s.Class = &storagev1.StorageClass{Provisioner: c.class}
		}

		if c.pod != "" {
			s.Add(NewAttempt(dispatchertest.Pod(c.pod, dispatchertest.Noon, dispatchertest.Noon), ""))
		}

		if got := s.RecordLost(); got != c.want {
			t.Errorf("%+v: lost: %t", c, got)
		}
	}
}
