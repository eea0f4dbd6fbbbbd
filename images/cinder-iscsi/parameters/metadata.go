package parameters

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ownMetadata is the prefix of the keys that the provisioner itself sets, and by which it recognizes its volumes.
const ownMetadata = "flex-provisioner.io/"

// cindersMetadata are keys that Cinder sets on attachment.
var cindersMetadata = []string{"readonly", "attached_mode"}

func readMetadata(p *Parameters, value string, at *field.Path) *field.Error {
	metadata := map[string]string{}
	for _, pair := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == '\n' }) {
		key, v, found := strings.Cut(strings.TrimSpace(pair), "=")
		_, twice := metadata[key]
		switch {
		case !found || !keyForm.MatchString(key) || len(v) > 255:
			return field.Invalid(at, pair, "must be key=value, each of at most 255 characters")
		case strings.HasPrefix(key, ownMetadata) || slices.Contains(cindersMetadata, key):
			return field.Invalid(at, pair, "the provisioner or Cinder sets this key itself; name another")
		case twice:
			return field.Duplicate(at, key)
		}
		metadata[key] = v
	}
	if len(metadata) == 0 {
		return field.Invalid(at, value, "must have at least one key=value")
	}
	p.Metadata = metadata
	return nil
}

func query(p *Parameters, value string, at *field.Path) *field.Error {
	var list []any
	if json.Unmarshal([]byte(value), &list) != nil {
		return field.Invalid(at, value, `must be a JSON list such as [">=", "$free_capacity_gb", 100]`)
	}
	p.SchedulerQuery = value
	return nil
}
