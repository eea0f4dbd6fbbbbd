package fake

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// Exchange is a request to the real Cinder or Keystone and what it answered.
type Exchange struct {
	Name         string
	Method       string
	Path         string
	Server       string // "keystone", else Cinder
	Header       map[string]string
	Body         any // a string is sent as it is
	Status       int
	AnswerHeader map[string]string
	Answer       any
}

// Recorded are the exchanges of a file in the folder test/cinder/recordings.
func Recorded(t testing.TB, folder, name string) []Exchange {
	t.Helper()
	file, err := os.Open(filepath.Join(folder, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []Exchange
	for lines := json.NewDecoder(file); lines.More(); {
		var x Exchange
		if err := lines.Decode(&x); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, x)
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return all
}
