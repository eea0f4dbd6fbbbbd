package mapper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// Connection is the connection info of a volume. Its printed form shows the type only, since the rest has passwords.
type Connection struct {
	// Type is driver_volume_type in lower case.
	Type string
	// Encrypted reports whether the volume is encrypted. Only the host of an instance gets the key.
	Encrypted bool
	// ReadOnly reports whether the volume is exported read-only.
	ReadOnly bool
	data     json.RawMessage
}

// String hides what the connection holds.
func (c Connection) String() string { return c.Type + " connection" }

// GoString hides what the connection holds.
func (c Connection) GoString() string { return c.String() }

// maxConnection is the limit in bytes on connection info. That of a large Fibre Channel network is much smaller.
const maxConnection = 1 << 20

// Decode decodes connection info in every form of Cinder: that of initialize_connection, with or without the outer "connection_info", and
// the flat form of attachments. Errors never quote the input.
func Decode(data []byte) (Connection, error) {
	if len(data) > maxConnection {
		return Connection{}, fmt.Errorf("connection info has %d bytes; it may have %d", len(data), maxConnection)
	}
	var outer struct {
		Info json.RawMessage `json:"connection_info"`
	}
	if err := json.Unmarshal(data, &outer); err != nil {
		return Connection{}, errors.New("connection info is not a JSON object")
	}
	if isObject(outer.Info) {
		data = outer.Info
	}
	var info struct {
		Type text            `json:"driver_volume_type"`
		Data json.RawMessage `json:"data"`
	}
	if err := decode(data, &info); err != nil {
		return Connection{}, err
	}
	if info.Type == "" {
		return Connection{}, errors.New("connection info has no driver_volume_type")
	}
	if isObject(info.Data) {
		data = info.Data
	}
	var common struct {
		Encrypted  flag `json:"encrypted"`
		AccessMode text `json:"access_mode"`
	}
	if err := decode(data, &common); err != nil {
		return Connection{}, err
	}
	mode := strings.ToLower(string(common.AccessMode))
	if mode != "" && mode != "rw" && mode != "ro" {
		return Connection{}, fmt.Errorf("access_mode %s is neither rw nor ro", form.Quote(string(common.AccessMode)))
	}
	return Connection{
		Type:      strings.ToLower(string(info.Type)),
		Encrypted: bool(common.Encrypted),
		ReadOnly:  mode == "ro",
		data:      data,
	}, nil
}

func isObject(data json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) }

// decode decodes JSON. Its error names the field of a wrong type without its value.
func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var wrong *json.UnmarshalTypeError
	var shape shapeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &shape):
		return fmt.Errorf("connection info has a field that is no %s", string(shape))
	case errors.As(err, &wrong):
		return fmt.Errorf("connection info: field %s is of the wrong type", wrong.Field)
	}
	return errors.New("connection info is not a JSON object")
}

// shapeError says which type a field should have.
type shapeError string

func (e shapeError) Error() string { return "no " + string(e) }

// text is a string. Drivers write some strings as numbers.
type text string

// UnmarshalJSON accepts a string, a number or null.
func (t *text) UnmarshalJSON(data []byte) error {
	var s string
	var n json.Number
	switch {
	case string(data) == "null":
	case json.Unmarshal(data, &s) == nil:
		*t = text(s)
	case json.Unmarshal(data, &n) == nil:
		*t = text(n)
	default:
		return shapeError("text")
	}
	return nil
}

// number is an integer, written as a number or as a string. Set reports whether there is one.
type number struct {
	Value int64
	Set   bool
}

// UnmarshalJSON accepts a whole number, a string with one, or null.
func (n *number) UnmarshalJSON(data []byte) error {
	var t text
	if err := t.UnmarshalJSON(data); err != nil {
		return shapeError("whole number")
	}
	if t == "" {
		return nil
	}
	value, err := strconv.ParseInt(string(t), 10, 64)
	if err != nil {
		return shapeError("whole number")
	}
	*n = number{value, true}
	return nil
}

// flag is a boolean, written as such or in the form of Python. Every other value is true, since the only flag is for volumes that must
// not be mounted.
type flag bool

// UnmarshalJSON accepts every value.
func (f *flag) UnmarshalJSON(data []byte) error {
	switch strings.ToLower(strings.Trim(string(data), `"`)) {
	case "false", "null", "", "0", "none":
		*f = false
	default:
		*f = true
	}
	return nil
}

// list is a list, or a single item without brackets.
type list[T any] []T

// UnmarshalJSON accepts a list, an item or null.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	if bytes.HasPrefix(data, []byte("[")) {
		return json.Unmarshal(data, (*[]T)(l))
	}
	var one T
	if err := json.Unmarshal(data, &one); err != nil {
		return err
	}
	*l = list[T]{one}
	return nil
}
