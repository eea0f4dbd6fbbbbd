package fake_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// step is a call, its answer, and the status that volume "v" has afterwards. In path and body, {v}, {w} and {m} stand for
// volumes' ids, {a} for the newest attachment's: in a body, of the volume before it in the path.
type step struct {
	name         string
	method, path string
	body         string
	version      string // microversion
	status       int
	member       int    // the status for who is no administrator; 0: the same
	contains     string // a part of the answer, with the same names
	after        string // "" where it does not matter
}

const (
	connector = `{"connector": {"initiator": "iqn.2026-01.io.flex-provisioner:n", "host": "n", "ip": "127.0.0.1"}}`
	nobody    = "00000000-0000-0000-0000-000000000000"
	noauth    = "admin:" + fake.NoauthProject
)

// schedule is run on the fake, and on the real Cinder by TestScheduleReal.
var schedule = []step{
	{name: "create", method: "POST", path: "/volumes", body: `{"volume": {"size": 1, "name": "v", "metadata": {"k": "v"}}}`, status: 202, contains: `"status":"creating"`, after: "available"},
	{name: "create another", method: "POST", path: "/volumes", body: `{"volume": {"size": 1, "name": "w"}}`, status: 202},
	{name: "create multiattach", method: "POST", path: "/volumes", body: `{"volume": {"size": 1, "name": "m", "volume_type": "multiattach"}}`, status: 202, contains: `"multiattach":true`},
	{name: "find by name", method: "GET", path: "/volumes/detail?name=v", status: 200, contains: `"id":"{v}"`},
	{name: "unserved path", method: "GET", path: "/volumes/{v}/nothing", status: 404, contains: `"title":"Not Found"`},
	{name: "reserve", method: "POST", path: "/volumes/{v}/action", body: `{"os-reserve": null}`, status: 202, after: "attaching"},
	{name: "reserve again", method: "POST", path: "/volumes/{v}/action", body: `{"os-reserve": null}`, status: 400, contains: "Volume status must be available to reserve, but the status is attaching.", after: "attaching"},
	{name: "clone of attaching", method: "POST", path: "/volumes", body: `{"volume": {"size": 1, "name": "c", "source_volid": "{v}"}}`, status: 400, contains: "Originating source volume status must be one of 'available, in-use' values"},
	{name: "connect", method: "POST", path: "/volumes/{v}/action", body: `{"os-initialize_connection": ` + connector + `}`, status: 200, contains: `"target_iqn":"iqn.2010-10.org.openstack:volume-{v}"`, after: "attaching"},
	{name: "attach", method: "POST", path: "/volumes/{v}/action", body: `{"os-attach": {"host_name": "n", "mountpoint": "/x", "mode": "rw"}}`, status: 202, after: "in-use"},
	{name: "attach again", method: "POST", path: "/volumes/{v}/action", body: `{"os-attach": {"host_name": "n", "mountpoint": "/x", "mode": "rw"}}`, status: 202, member: 500, after: "in-use"},
	{name: "attach to another host", method: "POST", path: "/volumes/{v}/action", body: `{"os-attach": {"host_name": "n2", "mountpoint": "/x", "mode": "rw"}}`, status: 400, contains: "volume is already attached", after: "in-use"},
	{name: "detach another's", method: "POST", path: "/volumes/{v}/action", body: `{"os-detach": {"attachment_id": "` + nobody + `"}}`, status: 409, after: "in-use"},
	{name: "clone with another type", method: "POST", path: "/volumes", body: `{"volume": {"size": 1, "name": "c", "source_volid": "{v}", "volume_type": "nowhere"}}`, status: 400, contains: "(requested type is not compatible; either match source volume, or omit type argument)."},
	{name: "unreserve in use", method: "POST", path: "/volumes/{v}/action", body: `{"os-unreserve": null}`, status: 202, after: "in-use"},
	{name: "terminate", method: "POST", path: "/volumes/{v}/action", body: `{"os-terminate_connection": ` + connector + `}`, status: 202, after: "in-use"},
	{name: "detach", method: "POST", path: "/volumes/{v}/action", body: `{"os-detach": {}}`, status: 202, after: "available"},
	{name: "attach unconnected and unreserved", method: "POST", path: "/volumes/{w}/action", body: `{"os-attach": {"host_name": "n", "mountpoint": "/x", "mode": "rw"}}`, status: 202},
	{name: "reserve multiattach", method: "POST", path: "/volumes/{m}/action", body: `{"os-reserve": null}`, status: 202},
	{name: "reserve multiattach while attaching", method: "POST", path: "/volumes/{m}/action", body: `{"os-reserve": null}`, status: 400, contains: "to reserve, but the status is attaching."},
	{name: "connect multiattach", method: "POST", path: "/volumes/{m}/action", body: `{"os-initialize_connection": ` + connector + `}`, status: 200},
	{name: "attach multiattach", method: "POST", path: "/volumes/{m}/action", body: `{"os-attach": {"host_name": "n", "mountpoint": "/x", "mode": "rw"}}`, status: 202},
	{name: "attach multiattach twice", method: "POST", path: "/volumes/{m}/action", body: `{"os-attach": {"host_name": "n2", "mountpoint": "/x", "mode": "rw"}}`, status: 202},
	{name: "terminate multiattach", method: "POST", path: "/volumes/{m}/action", body: `{"os-terminate_connection": ` + connector + `}`, status: 409},
	{name: "detach multiattach one", method: "POST", path: "/volumes/{m}/action", body: `{"os-detach": {"attachment_id": "{a}"}}`, status: 202},
	{name: "terminate multiattach other", method: "POST", path: "/volumes/{m}/action", body: `{"os-terminate_connection": ` + connector + `}`, status: 202},
	{name: "detach multiattach other", method: "POST", path: "/volumes/{m}/action", body: `{"os-detach": {"attachment_id": "{a}"}}`, status: 202},
	{name: "detach the other", method: "POST", path: "/volumes/{w}/action", body: `{"os-detach": {}}`, status: 202},
	{name: "reserve to detach", method: "POST", path: "/volumes/{w}/action", body: `{"os-reserve": null}`, status: 202},
	{name: "detach what is only reserved", method: "POST", path: "/volumes/{w}/action", body: `{"os-detach": {}}`, status: 202},
	{name: "it is available", method: "GET", path: "/volumes/{w}", status: 200, contains: `"status":"available"`},
	{name: "begin an attachment", method: "POST", path: "/attachments", body: `{"attachment": {"volume_uuid": "{w}", ` + connector[1:] + `}`, version: "3.54", status: 200},
	{name: "it does not show", method: "GET", path: "/volumes/{w}", status: 200, contains: `"attachments":[]`},
	{name: "unreserve what is being attached", method: "POST", path: "/volumes/{w}/action", body: `{"os-unreserve": null}`, status: 202},
	{name: "it is in use", method: "GET", path: "/volumes/{w}", status: 200, contains: `"status":"in-use"`},
	{name: "delete what is being attached", method: "DELETE", path: "/volumes/{w}", status: 400},
	{name: "attachments", method: "GET", path: "/attachments/detail?volume_id={w}", version: "3.27", status: 200, contains: `"status":"attaching"`},
	{name: "delete the attachment", method: "DELETE", path: "/attachments/{a}", version: "3.27", status: 200},
	{name: "it is available again", method: "GET", path: "/volumes/{w}", status: 200, contains: `"status":"available"`},
	{name: "no host", method: "POST", path: "/volumes", body: `{"volume": {"size": 1, "name": "e", "volume_type": "nowhere"}}`, status: 202},
	{name: "no host, seen", method: "GET", path: "/volumes/{e}", status: 200, contains: `"status":"error"`},
	{name: "no host, why", method: "GET", path: "/messages?resource_uuid={e}", version: "3.5", status: 200, contains: "Could not find any available weighted backend."},
	{name: "delete no host", method: "DELETE", path: "/volumes/{e}", status: 202},
	{name: "delete", method: "DELETE", path: "/volumes/{v}", status: 202},
	{name: "delete another", method: "DELETE", path: "/volumes/{w}", status: 202},
	{name: "delete multiattach", method: "DELETE", path: "/volumes/{m}", status: 202},
	{name: "delete what is gone", method: "DELETE", path: "/volumes/{v}", status: 404, contains: "Volume {v} could not be found."},
	{name: "reserve what is gone", method: "POST", path: "/volumes/{v}/action", body: `{"os-reserve": null}`, status: 404},
	{name: "nothing is left", method: "GET", path: "/volumes/detail?name=v", status: 200, contains: `"volumes":[]`},
}

func TestSchedule(t *testing.T) {
	types := []fake.Option{fake.WithMultiattachType("multiattach"), fake.WithType(fake.Type{Name: "nowhere", ExtraSpecs: map[string]string{"volume_backend_name": "nowhere"}})}
	t.Run("noauth", func(t *testing.T) {
		f := fake.New(t, types...)
		run(t, schedule, &client{endpoint: f.Endpoint(), token: noauth})
		if s := f.State(); !s.Empty() {
			t.Errorf("left:\n%s", s)
		}
	})
	t.Run("member", func(t *testing.T) {
		f := fake.New(t, append(types, fake.WithKeystone())...)
		run(t, schedule, &client{endpoint: f.Endpoint(), token: f.Token(), member: true})
		if s := f.State(); !s.Empty() {
			t.Errorf("left:\n%s", s)
		}
	})
}

// A member of a project does not see the volumes of others, nor the hosts of attachments, and nothing with a revoked token.
func TestMember(t *testing.T) {
	f := fake.New(t, fake.WithKeystone(fake.DefaultIdentity, fake.Identity{User: "other", Project: "other"}))
	mine := f.AddVolume(fake.Volume{Status: "in-use"})
	other := f.AddVolume(fake.Volume{Project: f.Identities()[1].ProjectID})
	c := &client{endpoint: f.Endpoint(), token: f.Token()}
	for _, s := range []step{
		{path: "/volumes/" + mine.ID, status: 200, contains: `"host_name":null`},
		{path: "/volumes/" + other.ID, status: 404},
		{path: "/volumes", status: 200, contains: mine.ID},
	} {
		s.method = "GET"
		status, answer, err := c.call(t.Context(), s)
		if err != nil || status != s.status || !strings.Contains(answer, s.contains) || s.status == 200 && strings.Contains(answer, other.ID) {
			t.Errorf("%s: %d %s %v, want %d %s", s.path, status, answer, err, s.status, s.contains)
		}
	}
	f.RevokeTokens()
	if status, answer, err := c.call(t.Context(), step{method: "GET", path: "/volumes"}); err != nil || status != 401 {
		t.Errorf("with a revoked token: %d %s %v, want 401", status, answer, err)
	}
}

// client calls a Cinder, real or not.
type client struct {
	endpoint, token string
	member          bool // it is no administrator
	names           map[string]string
}

func (c *client) call(ctx context.Context, s step) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, s.method, c.endpoint+c.named(s.path), strings.NewReader(c.named(s.body)))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-Auth-Token", c.token)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", "application/json")
	if s.version != "" {
		r.Header.Set("OpenStack-API-Version", "volume "+s.version)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, strings.ReplaceAll(strings.ReplaceAll(string(b), `": `, `":`), `, "`, `,"`), err
}

func (c *client) named(s string) string {
	for name, id := range c.names {
		s = strings.ReplaceAll(s, "{"+name+"}", id)
	}
	return s
}

// settled waits until a volume is in no passing status, and returns the one it is in.
func (c *client) settled(t *testing.T, path string) (status, answer string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		code, answer, err := c.call(t.Context(), step{method: "GET", path: path})
		if err != nil {
			t.Fatal(err)
		}
		if code == http.StatusNotFound {
			return "gone", answer
		}
		switch status = field(answer, "status"); status {
		case "creating", "deleting", "extending", "detaching":
			select {
			case <-time.After(20 * time.Millisecond):
			case <-t.Context().Done():
			}
		default:
			return status, answer
		}
	}
	t.Fatalf("%s is still %s", path, status)
	return "", ""
}

func field(answer, name string) string {
	_, rest, _ := strings.Cut(answer, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func run(t *testing.T, steps []step, c *client) {
	t.Helper()
	c.names = map[string]string{}
	for _, s := range steps {
		if strings.Contains(s.body, "{a}") {
			_, answer := c.settled(t, s.path[:strings.LastIndex(s.path, "/")])
			c.names["a"] = field(answer, "attachment_id")
		}
		status, answer, err := c.call(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		want := s.status
		if c.member && s.member != 0 {
			want = s.member
		}
		if status != want || !strings.Contains(answer, c.named(s.contains)) {
			t.Errorf("%s: %d %s, want %d %s", s.name, status, answer, want, s.contains)
		}
		t.Logf("%s: %d %.300s", s.name, status, hidden(answer))
		c.learn(t, s, status, answer)
		if s.after != "" {
			if got, _ := c.settled(t, "/volumes/"+c.names["v"]); got != s.after {
				t.Errorf("%s: the volume is %s, want %s", s.name, got, s.after)
			}
		}
	}
}

// learn takes the ids of what was made, and waits for it; and for what was deleted to be gone.
func (c *client) learn(t *testing.T, s step, status int, answer string) {
	t.Helper()
	switch {
	case status == 202 && s.method == "POST" && s.path == "/volumes":
		c.names[field(answer, "name")] = field(answer, "id")
		c.settled(t, s.path+"/"+field(answer, "id"))
	case status == 200 && s.path == "/attachments":
		c.names["a"] = field(answer, "id")
	case status == 202 && s.method == "DELETE":
		if got, _ := c.settled(t, s.path); got != "gone" {
			t.Errorf("%s: it is %s, want gone", s.name, got)
		}
	}
}

// hidden keeps a connection's secret out of the log.
func hidden(answer string) string {
	if strings.Contains(answer, "auth_password") {
		return fmt.Sprintf("(%d bytes with a secret)", len(answer))
	}
	return answer
}
