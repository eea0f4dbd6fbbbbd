package fake_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// recorded is how each recording is replayed.
var recorded = []struct {
	file    string
	options []fake.Option
	// before is done before the exchange of that name: what the recorder did by calls that the fake does not serve.
	before map[string]func(*replay)
	end    int // volumes that are left
}{
	{file: "noauth", end: 8, before: map[string]func(*replay){
		"type-list": func(p *replay) {
			fake.WithType(fake.Type{Name: "multi", Description: "m", ExtraSpecs: map[string]string{"multiattach": "<is> True", "volume_backend_name": fake.Backend}})(p.f)
		},
		"create-no-valid-host": func(p *replay) {
			fake.WithType(fake.Type{Name: "nohost", ExtraSpecs: map[string]string{"volume_backend_name": "nowhere"}})(p.f)
		},
		"create-over-gigabytes": func(p *replay) {
			p.f.SetQuota("33333333333333333333333333333333", fake.Quota{Volumes: 1, Gigabytes: 2})
		},
	}},
	{file: "keystone", options: []fake.Option{fake.WithKeystone(
		fake.Identity{User: "demo", Password: "demopw", Project: "demo", AppCredID: "452a392fe9c3482fab110b8233de1e34", AppCredName: "csi", AppCredSecret: "SCRUBBED-APPCRED-SECRET"},
		fake.Identity{User: "admin", Password: "adminpw", Project: "admin", Roles: []string{"reader", "admin", "member"}},
	)}},
	{file: "faults", before: map[string]func(*replay){
		"init-target-daemon-dead": func(p *replay) { p.f.Fault(fake.On("os-initialize_connection").Refuse(500, broken)) },
	}},
	{file: "rbd", options: []fake.Option{fake.WithConnection(fake.RBD())}},
}

const broken = "The server has either erred or is incapable of performing the requested operation."

// deviations lists all in which the fake is not as recorded, by file and name of the exchange, and why.
var deviations = map[string]struct {
	places []string // where answers differ: a path into the answer, or "status"
	reason string
}{
	"keystone/member-reset-status-403": {[]string{"status", ""}, "the fake refuses nothing by policy"},
	"keystone/token-appcred-deleted":   {[]string{"status", ""}, "the fake's application credentials stay"},
	"faults/init-target-daemon-dead":   {[]string{"header Openstack-Api-Version"}, "a fault answers in place of all else"},
	"rbd/snapshot-attaching-done":      {[]string{".volume.os-vol-host-attr:host"}, "the fake's backend has one name, whatever it connects with"},
}

// inPassing are the exchanges that saw a passing status; before all others the recorder waited for its end.
var inPassing = []string{"show-creating", "show-deleting", "delete-again-while-deleting"}

// TestLikeness sends the recorded requests to the fake: status, headers and bodies must be as recorded but for ids, times,
// secrets, addresses, and the deviations above.
func TestLikeness(t *testing.T) {
	used := map[string]bool{}
	for _, r := range recorded {
		t.Run(r.file, func(t *testing.T) {
			f := fake.New(t, append(r.options, fake.WithPace(time.Hour))...)
			p := &replay{f: f, known: map[string]string{}}
			for _, x := range fake.Recorded(t, "../recordings", r.file) {
				if !slices.Contains(inPassing, x.Name) {
					f.Settle()
				}
				if before := r.before[x.Name]; before != nil {
					before(p)
				}
				key := r.file + "/" + x.Name
				d := p.send(t, x)
				for _, diff := range d {
					if slices.ContainsFunc(deviations[key].places, func(place string) bool { return strings.HasPrefix(diff, place) }) {
						used[key] = true
						continue
					}
					t.Errorf("%s: %s", x.Name, diff)
				}
			}
			f.Settle()
			if got := len(f.Volumes()); got != r.end {
				t.Errorf("%d volumes are left, not %d:\n%s", got, r.end, f.Volumes())
			}
		})
	}
	for key := range deviations {
		if !used[key] {
			t.Errorf("deviation %s is not there any more: remove it", key)
		}
	}
}

// replay knows which of the fake's ids and secrets stand for the recorded ones.
type replay struct {
	f     *fake.Cinder
	known map[string]string
}

// send makes the recorded request to the fake and returns what is different in the answer.
func (p *replay) send(t *testing.T, x fake.Exchange) []string {
	t.Helper()
	base := p.f.Endpoint()
	if x.Server == "keystone" {
		base = p.f.AuthURL()
	}
	base = strings.TrimSuffix(base, "/v3")
	body, raw := x.Body.(string)
	if x.Body != nil && !raw {
		b, err := json.Marshal(x.Body)
		if err != nil {
			t.Fatal(err)
		}
		body = string(b)
	}
	r, err := http.NewRequestWithContext(t.Context(), x.Method, base+p.translate(x.Path), strings.NewReader(p.translate(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	for key, value := range x.Header {
		r.Header.Set(key, p.translate(value))
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("%s: %v", x.Name, err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", x.Name, err)
	}
	var got any
	if len(b) > 0 && json.Unmarshal(b, &got) != nil {
		got = string(b)
	}
	var diffs []string
	if response.StatusCode != x.Status {
		diffs = append(diffs, fmt.Sprintf("status %d, recorded %d", response.StatusCode, x.Status))
	}
	for key, want := range x.AnswerHeader {
		if have := response.Header.Get(key); have != "" || key != "Content-Type" || x.Status != http.StatusNoContent {
			p.compare("header "+key, want, have, &diffs)
		}
	}
	p.compare("", x.Answer, got, new([]string)) // learns ids that stand in other fields' texts
	p.compare("", x.Answer, got, &diffs)
	return diffs
}

// translate writes the fake's ids and secrets for the recorded ones.
func (p *replay) translate(s string) string {
	var pairs []string
	for _, old := range slices.Sorted(maps.Keys(p.known)) {
		pairs = append(pairs, old, p.known[old])
	}
	return strings.NewReplacer(pairs...).Replace(s)
}

var (
	id       = regexp.MustCompile(`^([0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|req-[0-9a-f-]{36})$`)
	moment   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z?`)
	host     = regexp.MustCompile(`http://127\.0\.0\.1:\d+|127\.0\.0\.1:32\d\d`)
	replaced = regexp.MustCompile(`^SCRUBBED-`) // a name for each secret
	blotted  = regexp.MustCompile(`^Scrubbed`)  // one for all of this length
)

// compare adds to diffs where got is not as recorded. Ids and secrets that it meets for the first time it learns.
func (p *replay) compare(path string, want, got any, diffs *[]string) {
	differ := func() { *diffs = append(*diffs, fmt.Sprintf("%s: %s, recorded %s", path, text(got), text(want))) }
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		if !ok {
			differ()
			return
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if value, ok := have[key]; ok {
				p.compare(path+"."+key, want[key], value, diffs)
			} else {
				*diffs = append(*diffs, fmt.Sprintf("%s.%s: is not there, recorded %s", path, key, text(want[key])))
			}
		}
		for key := range have {
			if _, ok := want[key]; !ok {
				*diffs = append(*diffs, fmt.Sprintf("%s.%s: %s, recorded none", path, key, text(have[key])))
			}
		}
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			differ()
			return
		}
		for i := range want {
			p.compare(fmt.Sprintf("%s[%d]", path, i), want[i], have[i], diffs)
		}
	case string:
		if have, ok := got.(string); !ok || !p.same(path, want, have) {
			differ()
		}
	default:
		if want != got {
			differ()
		}
	}
}

func (p *replay) same(path, want, got string) bool {
	switch {
	case strings.Contains(path, "audit_ids"):
		return got != ""
	case id.MatchString(want) && !id.MatchString(got):
		return false
	case blotted.MatchString(want):
		return len(got) == len(want)
	case id.MatchString(want) || replaced.MatchString(want):
		if _, ok := p.known[want]; !ok {
			p.known[want] = got
		}
		return p.known[want] == got
	}
	plain := func(s string) string {
		return host.ReplaceAllString(moment.ReplaceAllStringFunc(s, func(m string) string {
			return regexp.MustCompile(`\d`).ReplaceAllString(m, "0")
		}), "HOST")
	}
	return plain(p.translate(want)) == plain(got)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
