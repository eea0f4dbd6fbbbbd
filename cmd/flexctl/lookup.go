package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// lookUp finds a field by its dotted path in a JSON object. Keys of properties and annotations may contain dots, so at each step a key
// that is equal to the rest of the path comes first. optional are fields of the object that are empty when missing.
func lookUp(data []byte, field string, optional []string) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // sizes have more digits than a float64 keeps
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("look up %s: %w", field, err)
	}
	if object, ok := value.(map[string]any); ok && object[field] == nil && slices.Contains(optional, field) {
		return "", nil
	}
	for rest, done := field, ""; rest != ""; {
		key := rest
		if object, ok := value.(map[string]any); !ok || object[rest] == nil {
			key, _, _ = strings.Cut(rest, ".")
		}
		child, ok := child(value, key)
		if !ok {
			return nil, missingError(value, done, key, optional)
		}
		value, done = child, strings.TrimPrefix(done+"."+key, ".")
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, key), ".")
	}
	return value, nil
}

func child(value any, key string) (any, bool) {
	switch value := value.(type) {
	case map[string]any:
		child, ok := value[key]
		return child, ok
	case []any:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(value) {
			return value[i], true
		}
	}
	return nil, false
}

func missingError(value any, parent, key string, optional []string) error {
	where := "there"
	if parent != "" {
		where = "in " + parent
	}
	switch value := value.(type) {
	case map[string]any:
		known := slices.Sorted(maps.Keys(value))
		if parent == "" {
			known = slices.Compact(slices.Sorted(slices.Values(slices.Concat(known, optional))))
		}
		return fmt.Errorf("no field %q %s; known are %s", key, where, strings.Join(known, ", "))
	case []any:
		return fmt.Errorf("no item %q %s; it has %d, counted from 0", key, where, len(value))
	}
	return fmt.Errorf("no field %q %s: it is a plain value", key, where)
}
