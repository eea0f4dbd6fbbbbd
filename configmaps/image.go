package configmaps

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The grammar of image references, after the comment that opens reference.go of github.com/distribution/reference
// v0.6.0, which the container runtimes use:
//
//	reference := name [ ":" tag ] [ "@" digest ]
//	name      := [domain '/'] path-component ['/' path-component]*
//
// One rule is stricter: a digest is SHA-256 or SHA-512 and complete, since no runtime verifies another.
const (
	imageHostPart  = `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
	imageDomain    = `(?:` + imageHostPart + `(?:\.` + imageHostPart + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
	imageComponent = `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
	imageTag       = `[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`
	imageDigest    = `(?:sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128})`
)

var (
	imagePattern = regexp.MustCompile(`^((?:` + imageDomain + `/)?` + imageComponent + `(?:/` + imageComponent + `)*)` +
		`(?::` + imageTag + `)?(?:@` + imageDigest + `)?$`)
	// imageIdentifier matches names that a runtime takes for the hash of an image.
	imageIdentifier = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

// maxImageName is distribution's RepositoryNameTotalLengthMax.
const maxImageName = 255

func parseImage(c *Config, value string, path *field.Path) field.ErrorList {
	c.Image = value
	parts := imagePattern.FindStringSubmatch(value)
	switch {
	case parts == nil && strings.ToLower(value) != value && imagePattern.MatchString(strings.ToLower(value)):
		return field.ErrorList{field.Invalid(path, value, "the repository's name must be lower case")}
	case parts == nil:
		return field.ErrorList{field.Invalid(path, value,
			"must be an image reference such as registry.example.com/team/provisioner:v1 or name@sha256:…")}
	case len(parts[1]) > maxImageName:
		return field.ErrorList{tooLong(path, "the name without tag and digest may have at most 255 characters")}
	case imageIdentifier.MatchString(parts[1]):
		return field.ErrorList{field.Invalid(path, value,
			"64 hexadecimal digits are an image's hash, not its name; write name@sha256:…")}
	}

	return nil
}
