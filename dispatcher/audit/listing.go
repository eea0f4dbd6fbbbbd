package audit

import (
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ParseListing reads the log of a pod that lists. Lines without contract.ListPrefix are for people. The result is as
// the image wrote it, and not to be trusted.
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

// displayName is the name of storage for a terminal. A name that no PersistentVolume can have is quoted.
func displayName(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}

	return strconv.QuoteToASCII(contract.Clip(name, validation.DNS1123SubdomainMaxLength))
}

// safeCommand matches commands of words without special characters of a shell, joined by &&.
var safeCommand = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+,-]+( (&&|[A-Za-z0-9_./:=@%+,-]+))*$`)

// removalComment is the image's command to remove storage, as a shell's comment: nothing runs when an administrator
// copies it into a shell together with the lines around it. A command that is not safe is left out, since an image
// could have an administrator run anything by it.
func removalComment(s contract.Storage) string {
	switch remove := s.Remove; {
	case remove == "":
		return "# by the means of the storage itself"
	case len(validation.IsDNS1123Subdomain(s.Name)) > 0:
		return "# by the means of the storage itself: its name is no volume's, " +
			"and what the image says of removing it is not shown"
	case len(remove) > contract.MaxMessage || !safeCommand.MatchString(remove):
		return "# by the means of the storage itself: what the image says of removing it is not shown, " +
			"since a shell could do more with it"
	default:
		return "# the image says: " + remove
	}
}
