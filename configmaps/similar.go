package configmaps

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// notMisspelled are names of likely properties that are as near to a reserved key as a misspelling: to delete, devices,
// host-path, resources and secrets.
var notMisspelled = []string{"delta", "device", "home-path", "resourceid", "secretid"}

// misspellingOf is the reserved key that a key is probably a misspelling of; "" if it is none. It rather refuses too
// much: a refused property needs another name, but a node selector that is taken for a property has no effect.
func misspellingOf(key string) string {
	if slices.Contains(notMisspelled, key) {
		return ""
	}

	nearest, least := "", maxDistance
	written := kebab(key)
	for _, k := range reserved {
		if d := keyDistance(written, k.name); d < least {
			nearest, least = k.name, d
		}
	}

	return nearest
}

// misspelledError is the error for a key that resembles a reserved one. It does not show the value, which may be a
// token.
func misspelledError(key, meant string) *field.Error {
	fault := fmt.Sprintf("looks like a misspelling of the reserved key %q: write %q, or if a property is meant "+
		"give it a name that is less like it, for example %q", meant, meant, "backend-"+key)

	return field.Forbidden(dataPath.Key(key), fault)
}

// keyDistance is the number of edits from a reserved name to the key: letters inserted, lost, replaced or swapped. It
// is maxDistance for more than two edits of a name of six letters or more, and for more than one edit of a shorter
// name. Missing separators do not count, so nodeSelector is node-selector.
func keyDistance(key, name string) int {
	if len(key) > maxCompared {
		return maxDistance
	}

	joined, letters := withoutDashes(key), withoutDashes(name)
	if joined == letters {
		return 0
	}

	bound := 1
	if len(letters) >= 6 {
		bound = 2
		if editDistance(joined, letters) == 1 {
			return 1
		}
	}

	if d := editDistance(key, name); d <= bound && !isOtherWord(key, name) {
		return d
	}

	return maxDistance
}

// isOtherWord reports whether a word of the key differs from the reserved one by two edits, and in its first letter.
// Such a word is another word and no misspelling: root-path is not host-path, and revision is not provision.
func isOtherWord(key, name string) bool {
	words, names := strings.Split(key, "-"), strings.Split(name, "-")
	if len(words) != len(names) {
		words, names = []string{withoutDashes(key)}, []string{withoutDashes(name)}
	}

	for i := range words {
		if editDistance(words[i], names[i]) == 2 && words[i] != "" && words[i][0] != names[i][0] {
			return true
		}
	}

	return false
}

// Nearest is the name that a written one is probably a misspelling of, empty for none.
func Nearest(written string, names []string) string {
	nearest, least := "", maxDistance
	for _, name := range names {
		if d := keyDistance(written, name); d < least && name != written {
			nearest, least = name, d
		}
	}

	return nearest
}

// kebab writes a key in the form of reserved keys.
func kebab(key string) string {
	return strings.ToLower(separators.Replace(key))
}

var separators = strings.NewReplacer("_", "-", ".", "-")

func withoutDashes(key string) string { return strings.ReplaceAll(key, "-", "") }

// maxDistance is the distance of all names that do not resemble each other.
const maxDistance = 3

// maxCompared is the longest name that is compared. All reserved names are much shorter.
const maxCompared = 32

// editDistance is the Damerau-Levenshtein distance (its restricted form, optimal string alignment) of two names in
// bytes, at most maxDistance. It does not allocate, since a ConfigMap may have ten thousand keys.
func editDistance(a, b string) int {
	shorter, longer := min(len(a), len(b)), max(len(a), len(b))
	if longer-shorter >= maxDistance || longer > maxCompared {
		return maxDistance
	}

	// rows[i][j] is the distance of a[:i] and b[:j].
	var rows [maxCompared + 1][maxCompared + 1]int8
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
			if swapped(a[:i], b[:j]) {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}

	return min(int(rows[len(a)][len(b)]), maxDistance)
}

// swapped reports whether the last two letters of a are those of b the other way round.
func swapped(a, b string) bool {
	if len(a) < 2 || len(b) < 2 {
		return false
	}

	return a[len(a)-1] == b[len(b)-2] && a[len(a)-2] == b[len(b)-1]
}
