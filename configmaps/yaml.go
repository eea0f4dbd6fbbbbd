package configmaps

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// decode reads a YAML value strictly: no unknown or doubled field, and a word where text is wanted. It goes through JSON
// without telling YAML the target, which would otherwise quietly turn an unquoted yes into the text "true".
func decode(value string, into any) error {
	for _, line := range strings.Split(value, "\n")[1:] {
		// The YAML library reads the first document and forgets the others.
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") {
			return errors.New("must be one YAML document")
		}
	}
	text, err := yaml.YAMLToJSONStrict([]byte(value))
	if err != nil {
		return err
	}
	// The standard library tells best which type is wrong where; it takes a field's name in any case.
	err = json.Unmarshal(text, into)
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		return errors.New(strings.TrimPrefix(mismatch.Field+" ", " ") + "is " + mismatch.Value + ", must be " + kinds[mismatch.Type.Kind()])
	}
	if err != nil {
		return err
	}
	faults, err := strictjson.UnmarshalStrict(text, into)
	return errors.Join(append(faults, err)...)
}

// kinds are YAML's words for what Go decodes into.
var kinds = map[reflect.Kind]string{
	reflect.String: "text: put it in quotes",
	reflect.Map:    "a map",
	reflect.Struct: "a map",
	reflect.Slice:  "a list",
	reflect.Int64:  "a whole number",
}

// notDecoded tells the decoder's complaint, which may have several lines, and what the value should look like.
func notDecoded(path *field.Path, value string, err error, form string) field.ErrorList {
	complaint := contract.OneLine(err.Error())
	return field.ErrorList{field.Invalid(path, value, "must be "+form+": "+complaint)}
}
