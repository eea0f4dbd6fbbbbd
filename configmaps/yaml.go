package configmaps

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// decode decodes a YAML value strictly: an unknown or duplicate field is an error, and so is a boolean or number in
// place of text. It converts to JSON without the target's type. With that type the YAML library would silently turn an
// unquoted yes into the text "true".
func decode(value string, into any) error {
	for _, line := range strings.Split(value, "\n")[1:] {
		// The YAML library reads the first document and ignores the others.
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "...") {
			return errors.New("must be one YAML document")
		}
	}

	text, err := yaml.YAMLToJSONStrict([]byte(value))
	if err != nil {
		return err
	}

	// The standard library has the best messages for a wrong type. The strict decoder comes second, since the standard
	// library ignores the case of field names.
	err = json.Unmarshal(text, into)
	if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
		return errors.New(strings.TrimPrefix(mismatch.Field+" ", " ") + "is " + mismatch.Value + ", must be " +
			kinds[mismatch.Type.Kind()])
	}

	if err != nil {
		return err
	}

	faults, err := strictjson.UnmarshalStrict(text, into)

	return errors.Join(append(faults, err)...)
}

// kinds are YAML's names of Go's types.
var kinds = map[reflect.Kind]string{
	reflect.String: "text: put it in quotes",
	reflect.Map:    "a map",
	reflect.Struct: "a map",
	reflect.Slice:  "a list",
	reflect.Int64:  "a whole number",
}

// decodeError has the form of a valid value, and the decoder's message as one line.
func decodeError(path *field.Path, value string, err error, form string) field.ErrorList {
	message := contract.OneLine(err.Error())
	return field.ErrorList{field.Invalid(path, value, "must be "+form+": "+message)}
}
