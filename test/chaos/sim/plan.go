package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
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
	// Lists reports whether the API server knows no streaming lists, so that informers list and then watch.
	Lists bool
	// Sizes reports whether the binder writes how much a claim has, and that claims may be expanded. Plans that found a bug before
	// it did go without, so that they still lead there.
	Sizes bool
	// Snapshots reports whether classes have snapshots, but those of Cinder. CRDs is when their CustomResourceDefinitions come.
	Snapshots bool
	CRDs      time.Duration
}

// Class is a storage class with its ConfigMap.
type Class struct {
	Name          string
	Retain        bool
	Delayed       bool // waits for the first consumer
	MaxConcurrent int
	TTL           time.Duration
	Cinder        bool // its image is cinder-iscsi
	NodeLocal     bool // its storage is on the node that the pod ran on
	Mounts        bool // its storage is where the claim is that its pods mount
	DeleteLimit   int
	GiveUp        time.Duration // after which the storage of a node that is gone is given up; 0 is never
	Stager        string        // of its volumes, which are flex-node's: iscsi, whose volumes are attached, or loop
}

// class is the class of a name, an empty one where there is none.
func (p *Plan) class(name string) Class {
	if i := slices.IndexFunc(p.Classes, func(c Class) bool { return c.Name == name }); i >= 0 {
		return p.Classes[i]
	}
	return Class{}
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

type theme struct {
	name    string
	rates   map[string]float64 // upper bounds
	actions []string
	most    int // of the actions
	prepare func(*Plan, *rand.Rand)
}

// themes are what a seed may choose from. A seed takes some of them, so that no schedule is too wild to be understood.
var themes = []theme{
	{"dispatcher", map[string]float64{"kill-dispatcher": 0.1}, []string{"dispatcher-kill"}, 4, nil},
	{"leaders", map[string]float64{"exit-1": 0.5}, []string{"dispatcher-second", "dispatcher-stale"}, 4, nil},
	{"lag", map[string]float64{"lag": 0.5}, []string{"watch-lag", "watch-lag-pods", "watch-lag-claims", "watch-lag-volumes"}, 6, nil},
	{"watches", nil, []string{"watch-cut", "compact"}, 4, nil},
	{"api-before", map[string]float64{"api-429": 0.1, "api-500": 0.2, "api-503": 0.2, "api-409": 0.2, "api-timeout": 0.1}, nil, 0, nil},
	{"api-after", map[string]float64{"lost-504": 0.2, "lost-reset": 0.2, "lost-500": 0.2}, nil, 0, nil},
	{"pods", map[string]float64{"pod-killed": 0.15}, []string{"pod-kill", "pod-evict", "pod-delete"}, 8, nil},
	{"nodes", nil, []string{"node-dead", "node-cut", "node-deleted"}, 4, nil},
	{"kubelet", map[string]float64{"kubelet-slow": 0.5}, nil, 0, nil},
	{"image", nil, []string{"image-broken"}, 3, nil},
	{"outcomes", map[string]float64{"exit-1": 0.5, "exit-64": 0.2, "exit-69": 0.4, "exit-75": 0.4, "oom": 0.2, "slow": 0.2, "stubborn": 0.5}, nil, 0, nil},
	{"breach", map[string]float64{"no-volume": 0.4, "misfit": 0.4}, nil, 0, nil},
	{"claims", nil, []string{"claim-delete", "claim-recreate", "claim-annotate", "claim-create"}, 12, nil},
	{"sizes", nil, []string{"claim-expand", "claim-expand", "claim-shrink"}, 10, nil},
	{"config", nil, []string{"config-edit", "config-identity", "config-break", "config-delete"}, 6, nil},
	{"class", nil, []string{"class-delete", "class-parameters"}, 3, nil},
	{"volumes", nil, []string{"volume-retain", "volume-unretain", "volume-delete"}, 4, nil},
	{"cinder", map[string]float64{"cinder-500": 0.2, "cinder-503": 0.2, "cinder-refused": 0.2, "cinder-lost": 0.3, "cinder-slow": 0.2,
		"cinder-create-error": 0.3, "cinder-delete-error": 0.1}, []string{"cinder-quota-zero", "secret-rotate", "secret-delete"}, 3, nil},
	{"quota", nil, []string{"quota-zero"}, 3, nil},
	{"backend", map[string]float64{"backend-error": 0.3, "backend-slow": 0.3}, nil, 0, nil},
}

// laterThemes are drawn when all else was, so that the other faults of a seed are what they were before there were these.
var laterThemes = []theme{
	{"binder", map[string]float64{"binder-slow": 1}, nil, 0, nil},
	{"record", map[string]float64{"forged-record": 1}, nil, 0, nil},
	{"clocks", map[string]float64{"node-clock": 1, "leader-clock": 1}, nil, 0, nil},
	{"slow-answers", map[string]float64{"api-slow": 0.1}, []string{"volume-retain", "claim-delete", "config-identity"}, 4, nil},
	{"pause", map[string]float64{"dispatcher-pause": 0.02, "exit-1": 0.5}, []string{"config-identity", "claim-delete"}, 4, nil},
	{"old-lists", map[string]float64{"exit-1": 0.5}, []string{"dispatcher-old-lists", "claim-delete", "claim-expand"}, 6, nil},
	{"late", map[string]float64{"backend-late": 1, "pod-killed": 0.15}, []string{"claim-delete"}, 3, nil},
	{"lost-node", map[string]float64{"exit-1": 0.8}, []string{"node-lost"}, 2, spare},
	{"kubelet-rejects", map[string]float64{"kubelet-rejects": 1}, []string{"node-dead", "node-dead", "config-identity", "claim-delete"}, 12, nil},
	{"foreign", map[string]float64{"exit-1": 0.5}, []string{"class-foreign"}, 3, nil},
	{"admission", nil, []string{"admission-refuses"}, 4, nil},
	{"other-class", map[string]float64{"other-class": 0.5, "binder-slow": 1}, nil, 0, alike},
	{"attributes", map[string]float64{"claim-attributes": 0.5}, nil, 0, nil},
	{"node-local", map[string]float64{"exit-1": 0.5}, []string{"claim-delete"}, 3, nodeLocal},
	{"limit", nil, []string{"volumes-age", "claim-delete"}, 12, limited},
	{"restored", nil, []string{"volume-restore"}, 4, nil},
	{"retain", map[string]float64{"lag": 0.5}, []string{"volume-retain", "claim-delete", "watch-lag-volumes"}, 9, nil},
}

// latestThemes are drawn when all of laterThemes were, for the same reason.
var latestThemes = []theme{
	{"admins", map[string]float64{"lag": 0.3, "binder-slow": 0.5, "exit-1": 0.3, "kubelet-slow": 0.5, "kill-dispatcher": 0.03}, administration, 30, nil},
	{"elsewhere", map[string]float64{"exit-1": 0.3, "lag": 0.2, "kill-dispatcher": 0.02}, []string{"class-elsewhere", "class-elsewhere", "claim-create", "claim-delete",
		"claim-recreate", "claim-expand"}, 16, mounting},
}

// newestThemes are drawn when all of latestThemes were, for the same reason.
var newestThemes = []theme{
	{"drains", map[string]float64{"exit-1": 0.7, "exit-75": 0.2, "stubborn": 0.5}, []string{"node-drain", "node-drain", "node-drain", "claim-delete", "config-identity"}, 12, spare},
}

// goneThemes are drawn when all of newestThemes were, for the same reason.
var goneThemes = []theme{
	{"gone-nodes", map[string]float64{"kill-dispatcher": 0.03, "exit-1": 0.3, "lag": 0.2}, []string{"node-gone", "node-gone", "node-dead", "node-cut", "claim-delete",
		"claim-delete", "claim-recreate"}, 12, givingUp},
}

// snapshotThemes are drawn when all of goneThemes were, for the same reason, and only where no storage is special.
var snapshotThemes = []theme{
	{"snapshots", map[string]float64{"kill-dispatcher": 0.03, "exit-1": 0.3, "exit-75": 0.2, "lag": 0.3, "pod-killed": 0.1, "binder-slow": 0.3}, snapshotting, 40, withSnapshots},
}

// attachThemes are drawn when all of snapshotThemes were, for the same reason, and only where no volume is special.
var attachThemes = []theme{
	{"attach", map[string]float64{"kill-dispatcher": 0.01, "exit-1": 0.2, "exit-75": 0.1, "lag": 0.2, "pod-killed": 0.2,
		"backend-late": 1, "api-slow": 0.02}, attaching, 80, withAttachments},
}

func withAttachments(p *Plan, r *rand.Rand) {
	p.Nodes, p.Length = max(3, p.Nodes), p.Length+2*time.Minute
	for i := range p.Classes {
		if i == 0 || r.IntN(2) == 0 {
			p.Classes[i].Stager, p.Classes[i].Cinder = stagerISCSI, false
		}
	}
	if last := &p.Classes[len(p.Classes)-1]; len(p.Classes) > 1 && last.Stager != "" {
		last.Stager = contract.StagerLoop
	}
}

func withSnapshots(p *Plan, r *rand.Rand) {
	p.Snapshots, p.Classes[0].Cinder = true, false
	p.Claims, p.Tenants = p.Claims+3, 1 // some are restored
	if r.IntN(4) == 0 {
		p.CRDs = time.Duration(r.Int64N(int64(p.Length)))
	}
}

// spare is for claims whose node is chosen for them, and another node.
func spare(p *Plan, _ *rand.Rand) {
	p.Nodes = max(2, p.Nodes)
	p.Classes[0].Delayed = true
}

// alike are classes of one image.
func alike(p *Plan, _ *rand.Rand) {
	p.Classes[0].Cinder = false
	p.Classes = append(p.Classes[:1], Class{Name: "class-1"})
}

func nodeLocal(p *Plan, _ *rand.Rand) {
	p.Nodes = max(2, p.Nodes)
	p.Classes[0].NodeLocal, p.Classes[0].Cinder = true, false
}

func givingUp(p *Plan, r *rand.Rand) {
	nodeLocal(p, r)
	p.Classes[0].Mounts, p.Classes[0].Retain, p.Classes[0].Delayed = false, false, r.IntN(2) == 0
	p.Classes[0].GiveUp = time.Minute + time.Duration(r.IntN(4))*time.Minute
}

func mounting(p *Plan, _ *rand.Rand) {
	p.Classes[0].Mounts, p.Classes[0].NodeLocal, p.Classes[0].Cinder, p.Classes[0].Retain = true, false, false, false
}

func limited(p *Plan, r *rand.Rand) { p.Classes[0].DeleteLimit = 1 + r.IntN(2) }

// NewPlan draws a plan from a seed: of the named themes, or where none is named of some of all.
func NewPlan(seed uint64, only ...string) Plan {
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
	p.takeSome(r, themes, 2, 10, only)
	for range r.IntN(2 * p.Claims) { // claims come and go in every schedule
		p.Actions = append(p.Actions, p.action(r, []string{"claim-delete", "claim-delete", "claim-recreate"}[r.IntN(3)]))
	}
	p.Tenants = 1 + r.IntN(min(3, p.Claims))
	p.takeSome(r, laterThemes, 0, 5, only)
	p.takeSome(r, latestThemes, 0, 1, only)
	p.takeSome(r, newestThemes, 0, 1, only)
	if r.IntN(8) == 0 || len(only) > 0 { // they take the classes' other kinds of storage
		p.takeSome(r, goneThemes, 1, 1, only)
	}
	special := slices.ContainsFunc(p.Classes, func(c Class) bool { return c.NodeLocal || c.Mounts })
	if !special && (r.IntN(6) == 0 || len(only) > 0) {
		p.takeSome(r, snapshotThemes, 1, 1, only)
	}
	special = special || p.Snapshots || slices.ContainsFunc(p.Actions, func(a Action) bool {
		return strings.HasPrefix(a.Do, "admin-") || a.Do == "volume-restore"
	})
	if !special && (r.IntN(5) == 0 || len(only) > 0) {
		p.takeSome(r, attachThemes, 1, 1, only)
	}
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return int(a.At - b.At) })
	return p
}

func (p *Plan) takeSome(r *rand.Rand, from []theme, least, most int, only []string) {
	order := r.Perm(len(from))
	n := least + r.IntN(most-least+1)
	for i, of := range order {
		if slices.Contains(only, from[of].name) || len(only) == 0 && i < n {
			p.take(r, from[of], len(only) > 0)
		}
	}
}

// take draws from a theme: all of its faults, or some.
func (p *Plan) take(r *rand.Rand, t theme, all bool) {
	if t.prepare != nil {
		t.prepare(p, r)
	}
	for _, name := range sorted(t.rates) {
		if r.IntN(2) == 0 || all {
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

// onlyDrains reports whether nothing goes wrong but that attempts fail and nodes are drained.
func (p *Plan) onlyDrains() bool {
	for name := range p.Rates {
		if !strings.HasPrefix(name, "exit-") && name != "stubborn" {
			return false
		}
	}
	return !slices.ContainsFunc(p.Actions, func(a Action) bool {
		return a.Do != "node-drain" && !strings.HasPrefix(a.Do, "claim-") && !strings.HasPrefix(a.Do, "config-")
	})
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
	delete(p.Rates, "dispatcher-pause")
	p.Actions = slices.DeleteFunc(p.Actions, func(a Action) bool { return strings.HasPrefix(a.Do, "dispatcher-") })
	return p
}
