//go:build cinder

package fake_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
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
	at := gophercloud.AuthOptions{IdentityEndpoint: env["OS_AUTH_URL"]}
	byCredential, byPassword := at, at
	byCredential.ApplicationCredentialID, byCredential.ApplicationCredentialSecret = env["APPCRED_ID"], env["APPCRED_SECRET"]
	byPassword.Username, byPassword.Password, byPassword.DomainName = env["OS_USERNAME"], env["OS_PASSWORD"], env["OS_USER_DOMAIN_NAME"]
	byPassword.TenantName = env["OS_PROJECT_NAME"]
	token(t, byCredential)
	return token(t, byPassword)
}

func token(t *testing.T, options gophercloud.AuthOptions) string {
	t.Helper()
	client, err := openstack.AuthenticatedClient(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return client.Token()
}
