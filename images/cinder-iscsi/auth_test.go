package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// Every way to log in ends in a volume, and in its removal.
func TestWaysToLogIn(t *testing.T) {
	t.Parallel()
	type files = map[string]string
	ini := func(lines ...string) files {
		return files{"cloud.conf": "[Global]\n" + strings.Join(lines, "\n") + "\n"}
	}
	for _, c := range []struct {
		name    string
		options []fake.Option
		config  func(f *fake.Cinder, i fake.Identity) files
	}{
		{"password and names", nil, func(f *fake.Cinder, i fake.Identity) files {
			return ini("auth-url="+f.AuthURL(), "username="+i.User, "password="+i.Password, "tenant-name="+i.Project)
		}},
		{"password and IDs, endpoint override", nil, func(f *fake.Cinder, i fake.Identity) files {
			return ini("auth-url="+f.AuthURL(), "user-id="+i.UserID(), "password="+i.Password, "tenant-id="+i.ProjectID, "cinder-endpoint="+f.Endpoint()+"/%(project_id)s")
		}},
		{"another domain", []fake.Option{fake.WithKeystone(fake.Identity{User: "k8s", Password: "domain-password-1", Domain: "Users", Project: "k8s"})},
			func(f *fake.Cinder, i fake.Identity) files {
				return ini("auth-url="+f.AuthURL(), "username="+i.User, "password="+i.Password, "tenant-name="+i.Project, "domain-name="+i.Domain)
			}},
		{"application credential", nil, func(f *fake.Cinder, i fake.Identity) files {
			return ini("auth-url="+f.AuthURL(), "application-credential-id="+i.AppCredID, "application-credential-secret="+i.AppCredSecret)
		}},
		{"application credential by name", nil, func(f *fake.Cinder, i fake.Identity) files {
			return ini("auth-url="+f.AuthURL(), "application-credential-name="+i.AppCredName, "application-credential-secret="+i.AppCredSecret, "username="+i.User)
		}},
		{"trust", nil, func(f *fake.Cinder, i fake.Identity) files {
			return ini("auth-url="+f.AuthURL(), "trust-id="+i.TrustID, "trustee-id="+i.UserID(), "trustee-password="+i.Password)
		}},
		{"token", nil, func(f *fake.Cinder, _ fake.Identity) files { return ini("auth-url="+f.AuthURL(), "token="+f.Token()) }},
		{"openrc", nil, func(f *fake.Cinder, i fake.Identity) files {
			return files{"OS_AUTH_URL": f.AuthURL(), "OS_USERNAME": i.User, "OS_PASSWORD": i.Password + "\n", "OS_PROJECT_NAME": i.Project,
				"OS_USER_DOMAIN_NAME": i.Domain, "OS_PROJECT_DOMAIN_NAME": i.Domain, "OS_REGION_NAME": "RegionOne"}
		}},
		{"openrc as the dashboard hands it out", nil, func(f *fake.Cinder, i fake.Identity) files {
			return files{"OS_PASSWORD": i.Password, "k8s-openrc.sh": fmt.Sprintf("#!/usr/bin/env bash\nexport OS_AUTH_URL=%s\nexport OS_USERNAME=\"%s\"\nexport OS_PROJECT_NAME=\"%s\"\n"+
				"if [ -z \"$OS_PROJECT_NAME\" ]; then unset OS_PROJECT_NAME; fi\nread -sr OS_PASSWORD_INPUT\nexport OS_PASSWORD=$OS_PASSWORD_INPUT\nexport OS_REGION_NAME=\"RegionOne\"\n", f.AuthURL(), i.User, i.Project)}
		}},
		{"clouds.yaml and secure.yaml", nil, func(f *fake.Cinder, i fake.Identity) files {
			return files{
				"clouds.yaml": fmt.Sprintf("clouds: {a: {auth: {auth_url: %q, username: %q, project_name: %q}, region_name: RegionOne}}", f.AuthURL(), i.User, i.Project),
				"secure.yaml": fmt.Sprintf("clouds: {a: {auth: {password: %q}}}", i.Password)}
		}},
		{"region and interface", []fake.Option{fake.WithKeystone(), fake.WithRegion("west"), fake.WithInterface("internal")},
			func(f *fake.Cinder, i fake.Identity) files {
				return ini("auth-url="+f.AuthURL(), "username="+i.User, "password="+i.Password, "tenant-name="+i.Project, "region=west", "os-endpoint-type=internal")
			}},
		{"old service type", []fake.Option{fake.WithKeystone(), fake.WithServiceTypes("volume")}, func(f *fake.Cinder, i fake.Identity) files {
			return ini("auth-url="+f.AuthURL(), "username="+i.User, "password="+i.Password, "tenant-name="+i.Project)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.options == nil {
				c.options = []fake.Option{fake.WithKeystone()}
			}
			s := newStage(t, append(c.options, fake.WithPace(fake.Reads(0)))...)
			s.config = c.config(s.cinder, s.cinder.Identity())
			s.provision(t.Context()).want(t, 0, "")
			s.wantOne()
			if got := s.cluster.Volume(name).Annotations["cinder.openstack.org/project-id"]; got != s.cinder.Identity().ProjectID {
				t.Errorf("project %q", got)
			}
			s.delete(t.Context()).want(t, 0, "")
			s.wantNothing()
		})
	}
}

// Without Keystone, a project's name that today's Cinder does not take in a URL is left to the token; older ones need it.
func TestWithoutKeystone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		options  []fake.Option
		endpoint string
		project  string
		path     string
	}{
		{"hexadecimal", nil, "/v3", project, "/v3/" + project + "/volumes/detail"},
		{"hexadecimal, before Yoga", []fake.Option{fake.BeforeYoga()}, "/v3", project, "/v3/" + project + "/volumes/detail"},
		{"in the URL", nil, "/v3/" + project, project, "/v3/" + project + "/volumes/detail"},
		{"a name", nil, "", "kubernetes", "/v3/volumes/detail"},
		{"a name, before Yoga", []fake.Option{fake.BeforeYoga()}, "", "kubernetes", "/v3/kubernetes/volumes/detail"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, append(c.options, fake.WithPace(fake.Reads(0)))...)
			s.config = map[string]string{"cloud.conf": "[Global]\ncinder-endpoint=" + s.cinder.URL() + c.endpoint + "\ntenant-name=" + c.project + "\n"}
			s.provision(t.Context()).want(t, 0, "")
			s.wantOne()
			if calls := s.cinder.Calls().Of("GET /volumes/detail"); calls[0].Path != c.path {
				t.Errorf("asked %s, not %s", calls[0].Path, c.path)
			}
			s.delete(t.Context()).want(t, 0, "")
			s.wantNothing()
		})
	}
}

// A token that ends in the middle is renewed.
func TestTokenEnds(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithKeystone())
	s.useKeystone()
	s.cinder.Fault(fake.On("os-reserve").Do(func(fake.Call) { s.cinder.RevokeTokens() }))
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()
}

// With credentials for another project, neither the next attempt nor an undo finds what an attempt left.
func TestOtherProjectAfterAttempt(t *testing.T) {
	t.Parallel()
	other := fake.Identity{User: "other", Password: "other-password-1", Project: "other"}
	s := newStage(t, fake.WithKeystone(fake.DefaultIdentity, other))
	s.useKeystone()
	s.cinder.Fault(fake.On("os-reserve").Refuse(500, "no database"))
	first := s.provision(t.Context())
	ids := s.cinder.Identities()
	if want := "project=" + ids[0].ProjectID; first.location != want || first.message == "" {
		t.Fatalf("the attempt says location %q and %q, want %q", first.location, first.message, want)
	}
	s.change = func(r *sdk.Request) { r.Location = first.location }
	mine := s.config
	s.config = map[string]string{"cloud.conf": "[Global]\nauth-url=" + s.cinder.AuthURL() + "\nusername=other\npassword=other-password-1\ntenant-name=other\n"}
	const text = "an earlier attempt worked in project=%s, but the credentials are now for project=%s; " +
		"give back those of the former until nothing of volume " + name + " is left there"
	for what, run := range map[string]func(context.Context) result{"provision": s.provision, "undo": s.undo} {
		t.Log(what)
		run(t.Context()).want(t, 1, fmt.Sprintf(text, ids[0].ProjectID, ids[1].ProjectID))
	}
	if n := len(s.cinder.Volumes()); n != 1 {
		t.Errorf("cinder has %d volumes, want that of the first attempt", n)
	}
	s.config = mine
	s.undo(t.Context()).want(t, 0, "")
	s.wantNothing()
}

func TestCatalogWithoutCinder(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithKeystone())
	s.useKeystone()
	s.config["cloud.conf"] += "region=east\n"
	s.provision(t.Context()).want(t, 64, "the catalog has no public endpoint of Cinder's API v3 in region east, but public block-storage in region RegionOne, public volumev3 in region RegionOne; correct region or os-endpoint-type, or name Cinder in cinder-endpoint")
}
