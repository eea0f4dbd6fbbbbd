package main

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// Every way to log in to Keystone ends in a volume, and in its removal. What the files may say is in the tests of package cloud.
func TestWaysToLogIn(t *testing.T) {
	t.Parallel()
	type files = map[string]string
	const domain = "\nuser-domain-name=Users\ntenant-domain-name=Users"
	for how, config := range map[string]func(f *fake.Cinder, i fake.Identity) files{
		"password": func(_ *fake.Cinder, i fake.Identity) files {
			return files{"cloud.conf": "username=" + i.User + "\npassword=" + i.Password + "\ntenant-name=" + i.Project + domain}
		},
		"endpoint override": func(f *fake.Cinder, i fake.Identity) files {
			return files{"cloud.conf": "username=" + i.User + "\npassword=" + i.Password + "\ntenant-name=" + i.Project + domain +
				"\ncinder-endpoint=" + f.Endpoint() + "/%(project_id)s"}
		},
		"application credential": func(_ *fake.Cinder, i fake.Identity) files {
			return files{"cloud.conf": "application-credential-id=" + i.AppCredID + "\napplication-credential-secret=" + i.AppCredSecret}
		},
		"token": func(f *fake.Cinder, _ fake.Identity) files { return files{"cloud.conf": "token=" + f.Token()} },
		"openrc": func(f *fake.Cinder, i fake.Identity) files {
			return files{"OS_AUTH_URL": f.AuthURL(), "OS_USERNAME": i.User, "OS_PASSWORD": i.Password + "\n", "OS_PROJECT_NAME": i.Project,
				"OS_USER_DOMAIN_NAME": i.Domain, "OS_PROJECT_DOMAIN_NAME": i.Domain}
		},
	} {
		t.Run(how, func(t *testing.T) {
			s := newStage(t, fake.WithPace(0),
				fake.WithKeystone(fake.Identity{User: "k8s", Password: "domain-password-1", Domain: "Users", Project: "k8s"}))
			s.config = config(s.cinder, s.cinder.Identity())
			if text, found := s.config["cloud.conf"]; found {
				s.config["cloud.conf"] = "[Global]\nauth-url=" + s.cinder.AuthURL() + "\n" + text + "\n"
			}
			got := s.provision(t.Context())
			got.want(t, 0, "")
			s.wantOne()
			if calls := s.cinder.Calls(); len(calls)-calls.Count("*") != 1 {
				t.Errorf("not one of these calls is to keystone:\n%s", calls)
			}
			id := s.cinder.Identity().ProjectID
			if at := s.cluster.Volume(name).Annotations["cinder.openstack.org/project-id"]; at != id || got.location != "project="+id {
				t.Errorf("project %q, location %q, want %q", at, got.location, id)
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
