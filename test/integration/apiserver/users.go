package apiserver

import (
	"encoding/csv"
	"fmt"
	"os"
	"strings"
)

// User has a static token at the API server.
type User struct {
	Name   string
	Groups []string
}

// Admin may do everything. Every server knows this user.
var Admin = User{Name: "admin", Groups: []string{"system:masters"}}

// Token is the user's bearer token.
func (u User) Token() string { return "token-of-" + u.Name }

// UID is what the API server knows the user by.
func (u User) UID() string { return "uid-of-" + u.Name }

func writeTokens(path string, users []User) error {
	var text strings.Builder
	w := csv.NewWriter(&text)
	for _, u := range append([]User{Admin, Controllers}, users...) {
		if err := w.Write([]string{u.Token(), u.Name, u.UID(), strings.Join(u.Groups, ",")}); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	w.Flush()
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
