package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// creatorGuard is the name of the shipped policy that lets nobody state another's name in a claim's created-by
// annotations.
const creatorGuard = "flex-guard-claim-creator"

// Gate follows the cluster's admission policies. Make it with New, let Informers run, then call Run once.
//
// mu guards the fields below it.
type Gate struct {
	clients    map[identity]kubernetes.Interface
	at         target
	comparison comparison
	guard      shipped
	informers  []cache.SharedIndexInformer
	changed    chan struct{} // a policy, since the last probes
	notify     func()

	mu sync.Mutex
	// differs is the first difference from the shipped policies, and unproven the first probe that was not refused.
	differs, unproven string
	// guardedSince is when the creator guard came into force, zero while it is not.
	guardedSince time.Time
}

// Verdict is what the policies come to.
type Verdict struct {
	// Missing names what keeps the dispatcher from creating pods, with the remedy; empty where nothing does.
	Missing string
	// GuardedSince is when the policy came into force that refuses forged creators of claims, zero while it is not.
	GuardedSince time.Time
}

// CreatorKnown reports whether the claim's created-by annotations can be believed: the guard was in force when the
// claim was created.
func (v Verdict) CreatorKnown(claim *corev1.PersistentVolumeClaim) bool {
	return claim != nil && !v.GuardedSince.IsZero() && !claim.CreationTimestamp.Time.Before(v.GuardedSince)
}

// Options of a gate.
type Options struct {
	// Client of the dispatcher.
	Client kubernetes.Interface
	// Prober makes requests with ProbeIdentity. Nil, the policies' text alone is compared.
	Prober kubernetes.Interface
	// SystemNamespace holds the allow-list that the policies read.
	SystemNamespace string
	// Provisioner is the name that the dispatcher serves. The policies have it in their text.
	Provisioner string
	// Pods is what provisioner pods have in common.
	Pods podspec.Cluster
	// Changed is called when the verdict may have changed.
	Changed func()
}

// New makes a gate. It makes no request.
func New(o Options) (*Gate, error) {
	all, err := readShipped(o.SystemNamespace, o.Pods.Namespace, o.Provisioner)
	if err != nil {
		return nil, err
	}

	required, guard := takeOut(all, creatorGuard)

	stripped := informers.WithTransform(withoutManagedFields)
	factory := informers.NewSharedInformerFactoryWithOptions(o.Client, 0, stripped).Admissionregistration().V1()
	policies := factory.ValidatingAdmissionPolicies().Informer()
	bindings := factory.ValidatingAdmissionPolicyBindings().Informer()

	g := &Gate{
		clients:    map[identity]kubernetes.Interface{asDispatcher: o.Client},
		at:         target{o.SystemNamespace, o.Pods},
		comparison: comparison{shipped: required, policies: policies.GetStore(), bindings: bindings.GetStore()},
		guard:      guard,
		informers:  []cache.SharedIndexInformer{policies, bindings},
		changed:    make(chan struct{}, 1),
		notify:     o.Changed,
	}

	if o.Prober != nil {
		g.clients[asProvisioner] = o.Prober
		g.unproven = "the admission policies have not been probed yet"
	}

	for _, informer := range g.informers {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { g.Compare() },
			UpdateFunc: func(any, any) { g.Compare() },
			DeleteFunc: func(any) { g.Compare() },
		})
		if err != nil {
			return nil, fmt.Errorf("listen for admission policies: %w", err)
		}
	}

	return g, nil
}

func withoutManagedFields(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}

	return obj, nil
}

// Informers have to run, and be synced before Compare and Run.
func (g *Gate) Informers() []cache.SharedIndexInformer { return g.informers }

// Verdict is the present one. Before the informers are synced nothing is missing.
func (g *Gate) Verdict() Verdict {
	if !g.informers[0].HasSynced() || !g.informers[1].HasSynced() {
		return Verdict{}
	}

	g.mu.Lock()
	defer g.mu.Unlock()

	v := Verdict{Missing: cmp.Or(g.differs, g.unproven), GuardedSince: g.guardedSince}
	if v.Missing != "" {
		v.Missing += ": apply the installation again, or start the dispatcher with --insecure-without-policies"
	}

	return v
}

// Compare compares the policies with the shipped ones. It is called when one of them changes, and not at each
// reconciliation.
func (g *Gate) Compare() {
	g.compare()
	select {
	case g.changed <- struct{}{}:
	default: // the next probes come after this change too
	}

	g.notify()
}

// compare holds mu all the while: of two comparisons at once, an older one would replace a newer one.
func (g *Gate) compare() {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.differs, g.guardedSince = g.comparison.missing(), time.Time{}
	if found, lack := g.comparison.find(g.guard); lack == "" {
		created := []time.Time{found.policy.CreationTimestamp.Time, found.binding.CreationTimestamp.Time}
		g.guardedSince = slices.MaxFunc(created, time.Time.Compare)
	}
}

// Pauses between probes. A policy that was written a moment ago is not in force yet, and one can cease to be without
// having been changed: an API server that was restarted without the admission of policies.
const (
	probeAgainAfter = 2 * time.Second
	probeAnyway     = 10 * time.Minute
)

// Run probes the policies when one has changed, and from time to time, until ctx ends. Without a prober it returns at
// once.
func (g *Gate) Run(ctx context.Context) {
	if g.clients[asProvisioner] == nil {
		return
	}

	for {
		pause := probeAnyway
		if g.isUnproven() != "" {
			pause = probeAgainAfter
		}

		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-g.changed:
			timer.Stop()
		case <-timer.C:
		}

		g.ProbeOnce(ctx)
	}
}

// ProbeOnce probes the policies if there is a prober. It keeps what was known where the API server gives no answer.
func (g *Gate) ProbeOnce(ctx context.Context) {
	if g.clients[asProvisioner] == nil {
		return
	}

	log, before, now := klog.FromContext(ctx), g.isUnproven(), ""
	for _, r := range g.Probe(ctx) {
		if !r.answered && before == "" {
			log.Info("A probe of the admission policies got no answer", "problem", r.Missing)
			return
		}

		if r.RefusedBy != "" && r.RefusedBy != r.Policy {
			log.V(2).Info("A probe of an admission policy was refused by another one",
				"policy", r.Policy, "by", r.RefusedBy)
		}

		now = cmp.Or(now, r.Missing)
	}

	if now == before {
		return
	}

	g.mu.Lock()
	g.unproven = now
	g.mu.Unlock()
	log.Info("Probed the admission policies", "missing", now)
	g.notify()
}

func (g *Gate) isUnproven() string {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.unproven
}

// Probe sends all probes. It changes nothing in the cluster, and may be called before Run.
func (g *Gate) Probe(ctx context.Context) []Result {
	results := make([]Result, 0, len(probes))
	for _, p := range probes {
		results = append(results, p.result(p.send(ctx, g.clients[p.as], g.at)))
	}

	return results
}
