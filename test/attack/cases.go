package attack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// views are the points of view, each with a file in testdata.
var views = []string{"tenant", "image", "configmaps", "namespaces", "dispatcher", "backend", "snapshots"}

// table is a file of testdata.
type table struct {
	// View is whose point of view it is, in a sentence.
	View string `json:"view"`
	// Bases are objects that cases change. One that is made from another says so in the field from.
	Bases map[string]map[string]any `json:"bases"`
	Cases []attempt                 `json:"cases"`
}

// attempt is one case: a request, a connection that a backend answers, or a story.
type attempt struct {
	Name string `json:"name"`
	// Attacks says what would be lost.
	Attacks string `json:"attacks"`

	// RefusedBy names what refuses it, a colon and a piece of what that says. It is a policy, or how the names of several
	// begin, "rbac", "apiserver" for what else Kubernetes itself refuses, "mapper", or "dispatcher" with the reason of its
	// event.
	RefusedBy string `json:"refused-by"`
	// Accepted is why it is accepted on purpose. docs/security.md says the same.
	Accepted string `json:"accepted"`
	// Passes is why it has to go through: it is not hostile, and only looks like what is.
	Passes string `json:"passes"`
	// Before is "accepted" where it went through before there were rules against it.
	Before string `json:"before"`
	// Alone reports whether nothing else may run meanwhile.
	Alone bool `json:"alone"`

	// A request: who sends it, and what. A path without a slash in front is one in the namespace of the provisioners. Base
	// and Patch (RFC 7386) make the body, or Body has it whole. Nothing remains of it: it is a dry run.
	As   string         `json:"as"`
	Verb string         `json:"verb"`
	Path string         `json:"path"`
	Body map[string]any `json:"body"`
	// Base is also the connection of a backend that Patch changes.
	Base  string         `json:"base"`
	Patch map[string]any `json:"patch"`
	// Answers are fields that the object has to have in the answer to a request: what was forged is replaced or dropped.
	Answers map[string]any `json:"answers"`
	// Maps is what is left of a connection: fields of the volume source.
	Maps map[string]any `json:"maps"`

	// A story takes several steps: a function with arguments.
	Story string         `json:"story"`
	With  map[string]any `json:"with"`
}

// hostile reports whether the case counts as an attack.
func (a attempt) hostile() bool { return a.Passes == "" }

// refuser is who refuses the case, and a piece of what is said.
func (a attempt) refuser() (who, says string) {
	who, says, _ = strings.Cut(a.RefusedBy, ":")
	return who, strings.TrimSpace(says)
}

// object is the body of the case's request, nil for none.
func (t table) object(a attempt) map[string]any {
	switch {
	case a.Body != nil:
		return a.Body
	case a.Base != "":
		return request.Merged(t.base(a.Base), a.Patch)
	}
	return nil
}

func (t table) base(name string) map[string]any {
	base := t.Bases[name]
	if from, made := base["from"].(string); made {
		return request.Merged(t.base(from), request.Merged(base, map[string]any{"from": nil}))
	}
	return base
}

func readTable(view string) (table, error) {
	var t table
	text, err := os.ReadFile(filepath.Join("testdata", view+".yaml"))
	if err != nil {
		return t, err
	}
	if err := yaml.UnmarshalStrict(text, &t); err != nil {
		return t, fmt.Errorf("read testdata/%s.yaml: %w", view, err)
	}
	return t, nil
}

// many is text that is repeated: {5000 x}.
var many = regexp.MustCompile(`\{(\d+) ([^{}]+)\}`)

// filled is the text with what stands in braces replaced.
func filled(text string, names map[string]string) string {
	var pairs []string
	for name, value := range names {
		pairs = append(pairs, "{"+name+"}", value)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	return many.ReplaceAllStringFunc(text, func(found string) string {
		parts := many.FindStringSubmatch(found)
		count, _ := strconv.Atoi(parts[1]) // digits, as the pattern says
		return strings.Repeat(parts[2], count)
	})
}

// filledObject is the object with its texts filled.
func filledObject(object map[string]any, names map[string]string) (map[string]any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal([]byte(filled(string(text), names)), &out)
}

// lacks names what of the wanted fields the object does not have.
func lacks(object, want map[string]any) string {
	for key, value := range want {
		have := object[key]
		inner, isMap := value.(map[string]any)
		if below, ok := have.(map[string]any); isMap && (ok || have == nil) {
			if lack := lacks(below, inner); lack != "" {
				return key + "." + lack
			}
			continue
		}
		if fmt.Sprint(have) != fmt.Sprint(value) {
			return fmt.Sprintf("%s is %v, want %v", key, have, value)
		}
	}
	return ""
}

// accepted are the cases that go through on purpose, as rows of docs/security.md.
func accepted(tables []table) []string {
	var rows []string
	for _, t := range tables {
		for _, a := range t.Cases {
			if a.Accepted != "" {
				rows = append(rows, fmt.Sprintf("| %s | %s |", a.Name, a.Accepted))
			}
		}
	}
	slices.Sort(rows)
	return rows
}
