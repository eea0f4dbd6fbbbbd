package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/flow"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// cinder is the author of the classes of Cinder: the image's own code, with a Cinder and a Keystone of a bad day.
type cinder struct {
	w        *World
	fake     *fake.Cinder
	password string // in the Secret that pods mount
	rotated  string // of the user, which the Secret may have to follow yet
}

const (
	credentials = "cinder-cloud-config"
	inCinder    = "cinder/"
	oldPassword = "demo-password-1"
	newPassword = "demo-password-2"
)

var plenty = fake.Quota{Volumes: 1000, Gigabytes: 100000}

func newCinder(w *World, t testing.TB) *cinder {
	user := fake.DefaultIdentity
	user.Password = oldPassword
	f := fake.NewInProcess(t, w.plan.Seed, fake.WithKeystone(user), fake.WithPace(700*time.Millisecond))
	f.SetQuota("", plenty)
	return &cinder{w: w, fake: f, password: oldPassword, rotated: oldPassword}
}

func (n *cinder) provision(c *container) (*sdk.Volume, error) {
	f, err := n.flow(c, c.request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(c.asked, 50*time.Second)
	defer cancel()
	return f.Provision(ctx)
}

func (n *cinder) remove(c *container) error {
	request := c.request
	request.Parameters, request.Properties = parameters.Known(request.Parameters), parameters.KnownProperties(request.Properties)
	f, err := n.flow(c, request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.asked, 50*time.Second)
	defer cancel()
	var volume *corev1.PersistentVolume
	if text := c.pod.Annotations[contract.AnnVolume]; text != "" {
		volume = &corev1.PersistentVolume{}
		if err := yaml.Unmarshal([]byte(text), volume); err != nil {
			return err
		}
	}
	return f.Delete(ctx, volume)
}

// flow is the image's main, with the Secret as it is now.
func (n *cinder) flow(c *container, request contract.Request) (*flow.Flow, error) {
	f := &flow.Flow{Request: request, Log: slog.New(slog.DiscardHandler), SetLocation: c.setLocation}
	var err error
	if f.Parameters, err = parameters.Parse(request.Parameters); err != nil {
		return nil, sdk.Refuse(err)
	}
	if f.Properties, err = parameters.ParseProperties(request.Properties); err != nil {
		return nil, sdk.Refuse(err)
	}
	text := fmt.Sprintf("[Global]\nauth-url = %s\nusername = demo\npassword = %s\ndomain-name = Default\ntenant-name = demo\n", n.fake.AuthURL(), n.inSecret())
	config, err := cloud.Parse(cloud.Files{"cloud.conf": []byte(text)}, "")
	if err != nil {
		return nil, sdk.Refuse(err)
	}
	config.Transport = &wire{n: n, c: c, next: n.fake.Transport()}
	f.Connect = config.Connect
	f.Cluster, err = cluster.NewForConfig(c.config(), namespace)
	return f, err
}

func (n *cinder) inSecret() string {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.password
}

// wire is the way from a container to Cinder, at each of whose calls the container may be killed, and the call or its
// answer be lost.
type wire struct {
	n    *cinder
	c    *container
	next http.RoundTripper
}

// RoundTrip is one call.
func (l *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	c, what := l.c, opOf(r)
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		what = actionOf(what, body)
	}
	to := 200 * time.Millisecond
	if c.chance("cinder-slow") {
		to = 15 * time.Second
	}
	if err := l.step(r.Context(), to, what+" there"); err != nil {
		if what == "POST volumes" {
			c.lateAnyway(err, func() {
				if response, err := l.next.RoundTrip(r.WithContext(l.n.w.ctx)); err == nil {
					_ = response.Body.Close()
				}
			})
		}
		return nil, err
	}
	switch {
	case c.chance("cinder-500"):
		if what == "os-attach" {
			l.n.breakAttach(r)
		}
		return l.failed(r, what, 500, `{"computeFault": {"code": 500, "message": "The server has either erred or is incapable of performing the requested operation."}}`)
	case c.chance("cinder-503"):
		return l.failed(r, what, 503, "<html><body><h1>503 Service Unavailable</h1></body></html>")
	case c.chance("cinder-refused"):
		return nil, syscall.ECONNREFUSED
	}
	l.prepare(r, what)
	response, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	l.n.w.trace.add(c.pod.Name, "cinder: %s -> %d", what, response.StatusCode)
	if err := l.step(r.Context(), 200*time.Millisecond, what+" back"); err != nil {
		return nil, err
	}
	if c.chance("cinder-lost") {
		l.n.w.trace.add(c.pod.Name, "cinder: the answer to %s is lost", what)
		return nil, syscall.ECONNRESET
	}
	return response, nil
}

// step is a moment in which the container may be killed; it does nothing after that.
func (l *wire) step(ctx context.Context, to time.Duration, what string) error {
	c := l.c
	if c.chance("pod-killed") {
		l.n.w.trace.add(c.pod.Name, "is killed at %s", what)
		c.kill()
	}
	timer := time.NewTimer(c.w.dice.between(time.Millisecond, to, "cinder", what, c.pod.Name))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	if c.ctx.Err() != nil {
		return errKilled
	}
	return ctx.Err()
}

func (l *wire) failed(r *http.Request, what string, code int, body string) (*http.Response, error) {
	l.n.w.trace.add(l.c.pod.Name, "cinder: %s -> %d", what, code)
	return apiserver.Respond(r, code, []byte(body)), nil
}

// breakAttach leaves what a Cinder leaves that ended in the middle of os-attach.
func (n *cinder) breakAttach(r *http.Request) {
	for _, v := range n.fake.Volumes() {
		if strings.Contains(r.URL.Path, v.ID) {
			n.fake.BeginAttach(v.ID)
		}
	}
}

// prepare draws the faults that are in Cinder, and checks what takes storage away.
func (l *wire) prepare(r *http.Request, what string) {
	switch what {
	case "POST volumes":
		if l.c.chance("cinder-create-error") {
			l.n.fake.Fail(fake.NoBackend)
		}
	case "DELETE volume":
		if l.c.chance("cinder-delete-error") {
			l.n.fake.Fail(fake.NotDeleted)
		}
		l.n.checkLoss(l.c, r, "deletes")
	case "os-terminate_connection", "os-detach", "os-unreserve":
		l.n.checkLoss(l.c, r, what+" takes")
	}
}

// checkLoss sees that no volume of a bound claim loses its storage or the way to it.
func (n *cinder) checkLoss(c *container, r *http.Request, how string) {
	for _, v := range n.fake.Volumes() {
		if !strings.Contains(r.URL.Path, v.ID) {
			continue
		}
		if pv, ok := n.w.volume(v.Name); ok && pv.Annotations[flow.AnnVolumeID] == v.ID {
			n.w.mayDelete(c, inCinder+v.Name, how)
		}
	}
}

// state is Cinder's volumes. One that is attached once, with an export, is available to us; an attachment that Cinder began
// and did not end does not matter as long as the volume stays.
func (n *cinder) state() map[string]storageState {
	state := map[string]storageState{}
	for _, v := range n.attachedFirst() {
		key, s := inCinder+v.Name, storageState(v.Status)
		attached := slices.DeleteFunc(v.Attachments, func(a fake.Attachment) bool { return a.Status == "attaching" })
		if v.Status == "in-use" && len(attached) == 1 && v.Exported && attached[0].Instance == "" {
			s = available
		} else if v.Status == "available" {
			s = "not attached"
		}
		if state[key] != "" {
			key = "a second: " + inCinder + v.ID + "/" + v.Name
		}
		state[key] = s
	}
	return state
}

// attachedFirst are Cinder's volumes, those that a killed container had asked for and that came late after the one that serves.
func (n *cinder) attachedFirst() []fake.Volume {
	volumes := n.fake.Volumes()
	slices.SortStableFunc(volumes, func(a, b fake.Volume) int { return strings.Compare(b.Status, a.Status) })
	return volumes
}

// strangeSecrets are those without a volume, and volumes whose Secret is missing or not Cinder's.
func (n *cinder) strangeSecrets(volumes map[string]*corev1.PersistentVolume) []string {
	var list []string
	passwords := map[string]string{}
	for _, v := range n.attachedFirst() {
		if passwords[v.Name] == "" {
			passwords[v.Name] = v.CHAPPassword
		}
	}
	secrets := map[string]*corev1.Secret{}
	for _, s := range apiserver.List[*corev1.Secret](n.w.server, apiserver.Secrets) {
		secrets[s.Name] = s
		if volumes[s.Name] == nil && !n.w.keptByAdmin(s.Name) {
			list = append(list, fmt.Sprintf("secret %s is an orphan", s.Name))
		}
	}
	for _, name := range sorted(volumes) {
		if volumes[name].Spec.ISCSI == nil || n.w.keptByAdmin(name) || n.w.books.wentBefore(inCinder+name) {
			continue
		}
		if s := secrets[name]; s == nil || string(s.Data["node.session.auth.password"]) != passwords[name] {
			list = append(list, fmt.Sprintf("volume %s has not the secret that Cinder knows", name))
		}
	}
	return list
}

// do carries out an action of the plan.
func (n *cinder) do(a Action, mend func(func())) {
	switch a.Do {
	case "cinder-quota-zero":
		n.fake.SetQuota("", fake.Quota{})
		mend(func() { n.fake.SetQuota("", plenty) })
	case "secret-rotate":
		n.rotated = map[string]string{oldPassword: newPassword, newPassword: oldPassword}[n.rotated]
		n.fake.ChangePassword(n.rotated)
		mend(func() { n.w.set(func() { n.password = n.rotated }) })
	case "secret-delete":
		n.w.set(func() { n.w.noSecret = true })
		mend(func() { n.w.set(func() { n.w.noSecret = false }) })
	}
}

// mend also does what an administrator would about volumes that Cinder could not delete.
func (n *cinder) mend() {
	n.fake.SetQuota("", plenty)
	n.w.set(func() { n.password = n.rotated })
	n.resetStuck()
}

// resetStuck looks again and again: a deletion that was to fail may be asked for only now.
func (n *cinder) resetStuck() {
	for _, v := range n.fake.Volumes() {
		if v.Status == "error_deleting" {
			n.w.trace.add("admin", "resets the state of %s", v.ID)
			n.fake.SetStatus(v.ID, "available")
		}
	}
	n.w.later(time.Minute, 2*time.Minute, n.resetStuck, "admin", "resets")
}

func opOf(r *http.Request) string {
	switch {
	case strings.HasSuffix(r.URL.Host, "keystone.example"):
		return "log in"
	case strings.HasSuffix(r.URL.Path, "/action"):
		return "action"
	case r.Method == http.MethodGet:
		return "GET"
	case r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/attachments/"):
		return "DELETE attachment"
	case r.Method == http.MethodDelete:
		return "DELETE volume"
	}
	return "POST volumes"
}

// actionOf is the name of an action on a volume: the only key of the body.
func actionOf(what string, body []byte) string {
	var action map[string]json.RawMessage
	if what == "action" && json.Unmarshal(body, &action) == nil {
		for name := range action {
			return name
		}
	}
	return what
}
