package admission

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestCreatorKnown(t *testing.T) {
	type (
		policy  = admissionv1.ValidatingAdmissionPolicy
		binding = admissionv1.ValidatingAdmissionPolicyBinding
	)
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	exact := admissionv1.Exact
	for _, c := range []struct {
		name string
		// weaken changes what is in force, which is an hour older than noon.
		weaken func(*policy, *binding)
		claim  time.Time
		want   bool
	}{
		{name: "as shipped", claim: noon, want: true},
		{name: "a claim as old as the guard", claim: noon.Add(-time.Hour), want: true},
		{name: "a claim older than the guard", claim: noon.Add(-2 * time.Hour)},
		{name: "a claim older than the policy alone", weaken: func(p *policy, _ *binding) { p.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour)) }, claim: noon},
		{name: "a claim older than the binding alone", weaken: func(_ *policy, b *binding) { b.CreationTimestamp = metav1.NewTime(noon.Add(time.Hour)) }, claim: noon},
		{name: "under another name", weaken: func(p *policy, b *binding) { p.Name, b.Name, b.Spec.PolicyName = "second", "second", "second" }, claim: noon, want: true},
		{name: "without a rule", weaken: func(p *policy, _ *binding) { p.Spec.Validations = p.Spec.Validations[:1] }, claim: noon},
		{name: "with a rule that says yes", weaken: func(p *policy, _ *binding) { p.Spec.Validations[0].Expression = "true" }, claim: noon},
		{name: "for claims with a label", weaken: func(p *policy, _ *binding) {
			p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"held": "yes"}}
		}, claim: noon},
		{name: "for fewer requests", weaken: func(p *policy, _ *binding) {
			p.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "false"}}
		}, claim: noon},
		{name: "for one version", weaken: func(p *policy, _ *binding) { p.Spec.MatchConstraints.MatchPolicy = &exact }, claim: noon},
		{name: "bound to warn", weaken: func(_ *policy, b *binding) {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
		}, claim: noon},
		{name: "bound for some", weaken: func(_ *policy, b *binding) {
			b.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"held": "yes"}}}
		}, claim: noon},
		{name: "unbound", weaken: func(_ *policy, b *binding) { b.Spec.PolicyName = "another" }, claim: noon},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, guard := takeOut(readAll(t), creatorGuard)
			p, b := guard.policy.DeepCopy(), guard.binding.DeepCopy()
			p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
			b.CreationTimestamp = p.CreationTimestamp
			if c.weaken != nil {
				c.weaken(p, b)
			}

			g := &Gate{comparison: cluster(nil), guard: guard, changed: make(chan struct{}, 1), notify: func() {}, informers: synced()}
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(c.claim)}}
			if g.Compare(); g.Verdict().CreatorKnown(claim) {
				t.Error("it is believed without a guard")
			}

			_ = g.comparison.policies.Add(p)
			_ = g.comparison.bindings.Add(b)
			if g.Compare(); g.Verdict().CreatorKnown(claim) != c.want {
				t.Errorf("believed: %v, want %v", !c.want, c.want)
			}
		})
	}
}

// synced are informers that say that they are.
func synced() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{syncedInformer{}, syncedInformer{}}
}

type syncedInformer struct{ cache.SharedIndexInformer }

func (syncedInformer) HasSynced() bool { return true }

// hookedStore calls hook after each list.
type hookedStore struct {
	cache.Store
	hook func()
}

func (s hookedStore) List() []any {
	list := s.Store.List()
	s.hook()

	return list
}

// A comparison that began before a binding was deleted does not replace the verdict of one that began after that: two informers call
// Compare at once.
func TestCompareAtOnce(t *testing.T) {
	_, guard := takeOut(readAll(t), creatorGuard)
	g := &Gate{comparison: cluster(nil), guard: guard, changed: make(chan struct{}, 1), notify: func() {}, informers: synced()}
	p, b := guard.policy.DeepCopy(), guard.binding.DeepCopy()
	p.CreationTimestamp = metav1.NewTime(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	b.CreationTimestamp = p.CreationTimestamp
	_ = g.comparison.policies.Add(p)
	bindings := g.comparison.bindings
	_ = bindings.Add(b)
	later := make(chan struct{})
	first := true
	g.comparison.bindings = hookedStore{bindings, func() {
		if !first {
			return
		}

		first = false
		_ = bindings.Delete(b)
		go func() {
			g.Compare()
			close(later)
		}()
		select {
		case <-later:
		case <-time.After(100 * time.Millisecond): // it waits for this one, as it may
		}
	}}
	g.Compare()
	<-later
	if since := g.Verdict().GuardedSince; !since.IsZero() {
		t.Errorf("claims count as guarded since %s, and the guard's binding is deleted", since)
	}
}
