package main

import (
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/internal/version"
)

func TestVersionOf(t *testing.T) {
	const digest = "@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for image, want := range map[string]string{
		"registry.example/flex-provisioner:v0.1.0":               "v0.1.0",
		"registry.example:5000/flex-provisioner:v0.1.0-rc.1":     "v0.1.0-rc.1",
		"registry.example:5000/flex-provisioner":                 "",
		"registry.example/flex-provisioner:v0.1.0" + digest:      "v0.1.0",
		"registry.example:5000/flex-provisioner" + digest:        "",
		"registry.invalid/flex-provisioner/flex-provisioner:dev": "",
		"flex-provisioner:v0.1":                                  "",
		"":                                                       "",
	} {
		if got := versionOf(image); got != want {
			t.Errorf("%s: %q, want %q", image, got, want)
		}
	}
}

// TestVersionsDiffer: there is a warning where both versions are known and differ.
func TestVersionsDiffer(t *testing.T) {
	for dispatcher, want := range map[string]string{
		"":       "",
		"v0.1.0": "",
		"v0.2.0": "this program is v0.1.0, and the dispatcher is v0.2.0: causes and remedies may be those of another " +
			"version; take the plugin of the dispatcher's release",
	} {
		if got := versionsOf("v0.1.0", inspect.DispatcherOptions{Version: dispatcher}).Warning; got != want {
			t.Errorf("%q: %q, want %q", dispatcher, got, want)
		}
	}
}

// TestVersion: what is printed of both sides. The client's version depends on the build.
func TestVersion(t *testing.T) {
	client := version.String()
	labeled := func(w *world) {
		w.dispatch.Labels = map[string]string{"app.kubernetes.io/version": client}
		w.dispatch.Spec.Template.Spec.Containers[0].Image = "registry.example/flex-provisioner@sha256:0"
	}
	for name, c := range map[string]struct {
		scene func(w *world)
		args  []string
		want  string
		code  int
	}{
		"the same": {scene: labeled, want: "Client:      CLIENT\n" +
			"Dispatcher:  CLIENT, image registry.example/flex-provisioner@sha256:0, 1 of 1 ready\nSnapshots:   not served\n"},
		"snapshots": {scene: func(w *world) { labeled(w); w.nightly() }, want: "Client:      CLIENT\n" +
			"Dispatcher:  CLIENT, image registry.example/flex-provisioner@sha256:0, 1 of 1 ready\nSnapshots:   snapshot.storage.k8s.io/v1\n"},
		"another": {scene: func(*world) {}, want: "Client:      CLIENT\n" +
			"Dispatcher:  v0.1.0, image registry.example/flex-provisioner:v0.1.0, 1 of 1 ready\nSnapshots:   not served\n" +
			"warning: this program is CLIENT, and the dispatcher is v0.1.0: causes and remedies may be those of " +
			"another version; take the plugin of the dispatcher's release\n"},
		"unknown": {scene: func(w *world) { w.dispatch.Spec.Template.Spec.Containers[0].Image = "dispatcher:dev" },
			want: "Client:      CLIENT\nDispatcher:  of unknown version, image dispatcher:dev, 1 of 1 ready\nSnapshots:   not served\n"},
		"client": {scene: func(w *world) { w.forbid("deployments") }, args: []string{"--client"},
			want: "Client:      CLIENT\n"},
		"forbidden": {scene: func(w *world) { w.forbid("deployments") }, code: 1,
			want: "Client:      CLIENT\nerror: namespace flex-system has no Deployment flex-provisioner that may be read: " +
				"name the dispatcher's with --system-namespace, or say --client\n"},
		"json": {scene: labeled, args: []string{"-o", "json"}, want: `{
  "client": "CLIENT",
  "dispatcher": {
    "version": "CLIENT",
    "image": "registry.example/flex-provisioner@sha256:0",
    "ready": 1,
    "wanted": 1
  },
  "snapshots": "not served"
}
`},
		"jsonpath": {scene: labeled, args: []string{"-o", "jsonpath={.dispatcher.ready} {.client}"}, want: "1 CLIENT"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.scene(w)
			output, code := w.run("", append([]string{"version"}, c.args...)...)
			if want := strings.ReplaceAll(c.want, "CLIENT", client); output != want || code != c.code {
				t.Errorf("exit code %d, printed\n%s, want\n%s", code, output, want)
			}
		})
	}
}
