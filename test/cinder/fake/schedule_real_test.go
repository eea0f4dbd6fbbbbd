//go:build cinder

package fake_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestScheduleReal runs the schedule on the Cinder that make cinder-up started.
func TestScheduleReal(t *testing.T) {
	env := environment(t)
	c := &client{endpoint: env["CINDER_ENDPOINT"], token: "admin:" + env["CINDER_PROJECT"]}
	if env["CINDER_AUTH"] == "keystone" {
		c.token, c.member = login(t, env), true
	}
	run(t, schedule, c)
}

func environment(t *testing.T) map[string]string {
	t.Helper()
	b, err := os.ReadFile("../../../.cinder/env")
	if err != nil {
		t.Fatalf("%v: make cinder-up", err)
	}
	env := map[string]string{}
	for _, line := range strings.Split(string(b), "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			env[key] = value
		}
	}
	return env
}

// login gets a token by password, and checks that the application credential gets one too.
func login(t *testing.T, env map[string]string) string {
	t.Helper()
	domain := map[string]any{"name": env["OS_USER_DOMAIN_NAME"]}
	token(t, env["OS_AUTH_URL"], map[string]any{"identity": map[string]any{"methods": []string{"application_credential"},
		"application_credential": map[string]any{"id": env["APPCRED_ID"], "secret": env["APPCRED_SECRET"]}}})
	return token(t, env["OS_AUTH_URL"], map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{"user": map[string]any{
			"name": env["OS_USERNAME"], "domain": domain, "password": env["OS_PASSWORD"]}}},
		"scope": map[string]any{"project": map[string]any{"name": env["OS_PROJECT_NAME"], "domain": domain}}})
}

func token(t *testing.T, url string, auth map[string]any) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"auth": auth})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/auth/tokens", bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("no token: %s", response.Status)
	}
	return response.Header.Get("X-Subject-Token")
}
