package audit

import (
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// ParseListing reads the log of a pod that lists. Lines that do not begin with contract.ListPrefix are for people. What it
// returns is as the image wrote it.
func ParseListing(log string) map[string]contract.Storage {
	found := map[string]contract.Storage{}
	for line := range strings.Lines(log) {
		if line, ok := strings.CutPrefix(line, contract.ListPrefix); ok {
			name, remove, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name != "" {
				found[name] = contract.Storage{Name: name, Remove: strings.TrimSpace(remove)}
			}
		}
	}
	return found
}

// shownName is a name of storage as a person may see it. Every volume of Kubernetes has a name of this form; what is called
// otherwise is on the storage for other reasons, or is there to deceive.
func shownName(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return strconv.QuoteToASCII(contract.Clip(name, validation.DNS1123SubdomainMaxLength))
}

// plainWords is what an image may say of removing storage: words, of characters that mean nothing to a shell, and one
// command after another.
var plainWords = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+( (&&|[A-Za-z0-9_./:=@%+,-]+))*$`)

// advice is how a person would remove storage, in the words of the image that listed it. It is a comment, so that nothing
// runs when it is copied into a shell together with the lines around it, and left out where it is more than plain words:
// an image could have anything run in this way, by an administrator.
func advice(s contract.Storage) string {
	switch remove := s.Remove; {
	case remove == "":
		return "# by the means of the storage itself"
	case len(validation.IsDNS1123Subdomain(s.Name)) > 0:
		return "# by the means of the storage itself: its name is no volume's, and what the image says of removing it is not shown"
	case len(remove) > contract.MaxMessage || !plainWords.MatchString(remove):
		return "# by the means of the storage itself: what the image says of removing it is not shown, since a shell could do more with it"
	default:
		return "# the image says: " + remove
	}
}
