package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan is one schedule: all that a run is made from.
type Plan struct {
	Seed   uint64
	Claims int
	// Tenants is in how many namespaces the claims are: in the first all but one for each of the others. 0 is 1.
	Tenants int
	Nodes   int
	// Classes by name.
	Classes []Class
	// Rates are how often what may go wrong does, by name, between 0 and 1.
	Rates map[string]float64
	// Actions are what happens when.
	Actions []Action
	// Length is when the faults end.
	Length time.Duration
	// Lists says that the API server knows no streaming lists, so that informers list and then watch.
	Lists bool
	// Sizes says that the binder writes how much a claim has, and that claims may be expanded. Plans that found a bug before
	// it did go without, so that they still lead there.
	Sizes bool
}

// Class is a storage class with its ConfigMap.
type Class struct {
	Name          string
	Retain        bool
	Delayed       bool // waits for the first consumer
	MaxConcurrent int
	TTL           time.Duration
	Cinder        bool // its image is cinder-iscsi
}

// class is the class of a name.
func (p *Plan) class(name string) Class {
	i := slices.IndexFunc(p.Classes, func(c Class) bool { return c.Name == name })
	return p.Classes[i]
}

// Action is one thing that happens.
type Action struct {
	At  time.Duration
	Do  string
	N   int           // which of several
	For time.Duration // until it is mended, where it is
}

func (a Action) String() string {
	return fmt.Sprintf("%9.3fs %s %d for %.1fs", a.At.Seconds(), a.Do, a.N, a.For.Seconds())
}

// themes are what a seed may choose from. A seed takes some of them, so that no schedule is too wild to be understood.
var themes = []struct {
	name    string
	rates   map[string]float64 // upper bounds
	actions []string
	most    int // of the actions
}{
	{"dispatcher", map[string]float64{"kill-dispatcher": 0.1}, []string{"dispatcher-kill"}, 4},
	{"leaders", map[string]float64{"exit-1": 0.5}, []string{"dispatcher-second", "dispatcher-stale"}, 4},
	{"lag", map[string]float64{"lag": 0.5}, []string{"watch-lag", "watch-lag-pods", "watch-lag-claims", "watch-lag-volumes"}, 6},
	{"watches", nil, []string{"watch-cut", "compact"}, 4},
	{"api-before", map[string]float64{"api-429": 0.1, "api-500": 0.2, "api-503": 0.2, "api-409": 0.2, "api-timeout": 0.1}, nil, 0},
	{"api-after", map[string]float64{"lost-504": 0.2, "lost-reset": 0.2, "lost-500": 0.2}, nil, 0},
	{"pods", map[string]float64{"pod-killed": 0.15}, []string{"pod-kill", "pod-evict", "pod-delete"}, 8},
	{"nodes", nil, []string{"node-dead", "node-cut", "node-deleted"}, 4},
	{"kubelet", map[string]float64{"kubelet-slow": 0.5}, nil, 0},
	{"image", nil, []string{"image-broken"}, 3},
	{"outcomes", map[string]float64{"exit-1": 0.5, "exit-64": 0.2, "exit-69": 0.4, "exit-75": 0.4, "oom": 0.2, "slow": 0.2, "stubborn": 0.5}, nil, 0},
	{"breach", map[string]float64{"no-volume": 0.4, "misfit": 0.4}, nil, 0},
	{"claims", nil, []string{"claim-delete", "claim-recreate", "claim-annotate", "claim-create"}, 12},
	{"sizes", nil, []string{"claim-expand", "claim-expand", "claim-shrink"}, 10},
	{"config", nil, []string{"config-edit", "config-identity", "config-break", "config-delete"}, 6},
	{"class", nil, []string{"class-delete", "class-parameters"}, 3},
	{"volumes", nil, []string{"volume-retain", "volume-unretain", "volume-delete"}, 4},
	{"cinder", map[string]float64{"cinder-500": 0.2, "cinder-503": 0.2, "cinder-refused": 0.2, "cinder-lost": 0.3, "cinder-slow": 0.2,
		"cinder-create-error": 0.3, "cinder-delete-error": 0.1}, []string{"cinder-quota-zero", "secret-rotate", "secret-delete"}, 3},
	{"quota", nil, []string{"quota-zero"}, 3},
	{"backend", map[string]float64{"backend-error": 0.3, "backend-slow": 0.3}, nil, 0},
}

// NewPlan draws a plan from a seed.
func NewPlan(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, 0x666c6578))
	p := Plan{Seed: seed, Claims: 1 + r.IntN(5), Nodes: 1 + r.IntN(3), Rates: map[string]float64{},
		Length: time.Duration(30+r.IntN(300)) * time.Second, Lists: r.IntN(4) == 0, Sizes: true}
	for i := range 1 + r.IntN(2) {
		c := Class{Name: fmt.Sprintf("class-%d", i), Retain: r.IntN(6) == 0, Delayed: r.IntN(4) == 0, Cinder: r.IntN(3) == 0}
		if r.IntN(3) == 0 {
			c.MaxConcurrent = 1 + r.IntN(2)
		}
		if r.IntN(3) == 0 {
			c.TTL = time.Duration(30+r.IntN(200)) * time.Second
		}
		p.Classes = append(p.Classes, c)
	}
	for i := range p.Claims {
		p.Actions = append(p.Actions, Action{At: time.Duration(r.Int64N(int64(p.Length / 2))), Do: "claim-create", N: i})
	}
	for _, i := range r.Perm(len(themes))[:2+r.IntN(9)] {
		p.take(r, i)
	}
	for range r.IntN(2 * p.Claims) { // claims come and go in every schedule
		p.Actions = append(p.Actions, p.action(r, []string{"claim-delete", "claim-delete", "claim-recreate"}[r.IntN(3)]))
	}
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return int(a.At - b.At) })
	for _, later := range []string{"binder-slow", "forged-record"} { // drawn last, so that the seeds' other faults are what they were before there were these
		if r.IntN(4) == 0 {
			p.Rates[later] = r.Float64()
		}
	}
	p.Tenants = 1 + r.IntN(min(3, p.Claims))
	if r.IntN(4) == 0 {
		p.Rates["node-clock"] = r.Float64()
	}
	return p
}

func (p *Plan) take(r *rand.Rand, theme int) {
	t := themes[theme]
	for _, name := range sorted(t.rates) {
		if r.IntN(2) == 0 {
			p.Rates[name] = t.rates[name] * r.Float64()
		}
	}
	if t.most == 0 {
		return
	}
	for range 1 + r.IntN(t.most) {
		a := p.action(r, t.actions[r.IntN(len(t.actions))])
		p.Actions = append(p.Actions, a)
		if a.Do == "dispatcher-stale" { // claims come of which the old caches know nothing
			for range p.Claims {
				a.At += time.Duration(r.Int64N(int64(4 * time.Second)))
				p.Actions = append(p.Actions, Action{At: a.At, Do: "claim-create", N: r.IntN(100)})
			}
		}
	}
}

func (p *Plan) action(r *rand.Rand, do string) Action {
	long := time.Second << r.IntN(8) // 1 to 128 s
	return Action{At: time.Duration(r.Int64N(int64(p.Length))), Do: do, N: r.IntN(100), For: time.Duration(r.Int64N(int64(long)) + 1e6)}
}

// Tenant is the namespace of a claim, by its number.
func (p *Plan) Tenant(claim int) string {
	if other := claim - (p.Claims - max(1, p.Tenants)); other > 0 {
		return fmt.Sprintf("team-%d", other)
	}
	return "team"
}

// String is the plan for people.
func (p Plan) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d: %d claims of %d namespaces, %d nodes, faults for %s, lists %v\n", p.Seed, p.Claims, max(1, p.Tenants), p.Nodes, p.Length, p.Lists)
	for _, c := range p.Classes {
		fmt.Fprintf(&out, "  %+v\n", c)
	}
	for _, name := range sorted(p.Rates) {
		fmt.Fprintf(&out, "  rate %-16s %.3f\n", name, p.Rates[name])
	}
	for _, a := range p.Actions {
		fmt.Fprintf(&out, "  %s\n", a)
	}
	return out.String()
}

// Alone is the plan with a single dispatcher that nobody kills.
func (p Plan) Alone() Plan {
	delete(p.Rates, "kill-dispatcher")
	p.Actions = slices.DeleteFunc(p.Actions, func(a Action) bool { return strings.HasPrefix(a.Do, "dispatcher-") })
	return p
}
