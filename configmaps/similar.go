package configmaps

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// innocent are names that are as near to a reserved key as a misspelling, and yet likely to be meant: delete,
// host-path, resources and secrets are no plausible reading of them. A device is what many a backend asks for.
var innocent = []string{"delta", "device", "home-path", "resourceid", "secretid"}

// resembles is the reserved key that a key is probably a misspelling of; "" where it is none. It is strict, because a
// property that is refused costs a new name and a node selector that is taken for a property costs the node.
func resembles(key string) string {
	if slices.Contains(innocent, key) {
		return ""
	}
	nearest, least := "", far
	written := kebab(key)
	for _, k := range reserved {
		if d := distance(written, k.name); d < least {
			nearest, least = k.name, d
		}
	}
	return nearest
}

// misspelled is the error of a key that resembles a reserved one. It does not show the value: it may be a token.
func misspelled(key, meant string) *field.Error {
	return field.Forbidden(dataPath.Key(key), fmt.Sprintf("looks like a misspelling of the reserved key %q: write %q, or if a property is meant "+
		"give it a name that is less like it, for example %q", meant, meant, "backend-"+key))
}

// distance counts the slips that turn a reserved name into the key: letters doubled, lost, wrong or swapped. It is far
// for more than two in a name of six letters or more, and more than one in a shorter one. Lost separators count for
// nothing, so nodeSelector is node-selector.
func distance(key, name string) int {
	if len(key) > longest {
		return far
	}
	joined, letters := squeeze(key), squeeze(name)
	if joined == letters {
		return 0
	}
	bound := 1
	if len(letters) >= 6 {
		bound = 2
		if slips(joined, letters) == 1 {
			return 1
		}
	}
	if d := slips(key, name); d <= bound && !otherWord(key, name) {
		return d
	}
	return far
}

// otherWord spots another word in the place of a reserved one: two slips in one word, and its first letter is among
// them. Hands slip inside of words, so root-path is not host-path and revision is not provision.
func otherWord(key, name string) bool {
	words, names := strings.Split(key, "-"), strings.Split(name, "-")
	if len(words) != len(names) {
		words, names = []string{squeeze(key)}, []string{squeeze(name)}
	}
	for i := range words {
		if slips(words[i], names[i]) == 2 && words[i] != "" && words[i][0] != names[i][0] {
			return true
		}
	}
	return false
}

// kebab writes a key as reserved keys are written.
func kebab(key string) string {
	return strings.ToLower(separators.Replace(key))
}

var separators = strings.NewReplacer("_", "-", ".", "-")

func squeeze(key string) string { return strings.ReplaceAll(key, "-", "") }

// far is the distance of names that have nothing to do with each other.
const far = 3

// longest bounds the names that slips compares; no reserved name comes near it.
const longest = 32

// slips is the Damerau-Levenshtein distance (its restricted form, optimal string alignment) of two names in bytes, or
// far. Keys are compared by the ten thousand when a ConfigMap is full of them, so it does not allocate.
func slips(a, b string) int {
	if len(a)-len(b) >= far || len(b)-len(a) >= far || len(a) > longest || len(b) > longest {
		return far
	}
	// rows[i][j] is the distance of a[:i] and b[:j].
	var rows [longest + 1][longest + 1]int8
	for i := range len(a) + 1 {
		rows[i][0] = int8(i)
	}
	for j := range len(b) + 1 {
		rows[0][j] = int8(j)
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := int8(1)
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return min(int(rows[len(a)][len(b)]), far)
}
