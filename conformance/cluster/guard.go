package cluster

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

func (t *trial) checkPods() {
	config := t.config
	if config == nil {
		config = &configmaps.Config{}
	}
	pods := t.watcher.all()
	for _, s := range pods {
		if faults := privileges(s.Pod, config); len(faults) > 0 {
			t.fail(nil, "provisioner pods have the privileges of their class alone", s.Name+": "+strings.Join(faults, "; "), "does somebody change pods on their way? the dispatcher makes them so")
			return
		}
	}
	if len(pods) == 0 {
		t.end(conformance.Skipped, "not checked: there were no pods")
	}
}

func noSecrets(s *stage) string {
	if s.config != nil && len(s.config.Secrets) == 0 && len(s.secrets) == 0 {
		return "the class mounts no Secrets (its key secrets), and its provisioner made none that was seen"
	}
	return ""
}

// learnSecret notes the content of the Secret of a claim's volume, which the provisioner created.
func (t *trial) learnSecret(c *claim) {
	lack, err := t.missingRights(t.ctx, toSecrets)
	t.must(err)
	if lack != "" {
		return
	}
	secret := &corev1.Secret{}
	there, err := t.api.exists(t.ctx, t.options.ProvisionersNamespace, "secrets", c.volumeName(), secret)
	t.must(err)
	if there {
		t.learn(secret)
	}
}

// setting matches keys of Secrets that have the names of environment variables.
var setting = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

func (t *trial) learn(secret *corev1.Secret) {
	for key, value := range secret.Data {
		text := strings.TrimSpace(string(value))
		if (conformance.Guarded(key) || setting.MatchString(key)) && !strings.Contains(text, "\n") {
			text = key + "=" + text
		}
		t.secrets = append(t.secrets, conformance.SecretWords(text)...)
	}
}

// checkSecrets never shows the secret that it found.
func (t *trial) checkSecrets() {
	if t.config != nil {
		for _, name := range t.config.Secrets {
			secret := &corev1.Secret{}
			t.must(t.api.get(t.ctx, t.options.ProvisionersNamespace, "secrets", name, secret))
			t.learn(secret)
		}
	}
	texts, unread := t.texts()
	for _, where := range showingSecrets(texts, t.secrets) {
		t.fail(nil, "no secret in "+where, "a line of the class's Secrets is in "+where,
			"do not print what is read from "+contract.SecretsDir+"; no set -x")
	}
	switch pods := len(t.watcher.all()); {
	case len(unread) == pods:
		t.end(conformance.Skipped, "not checked: all pods were gone before their logs could be read")
	case len(unread) > 0:
		t.note = fmt.Sprintf("but for the logs of %d of %d pods, which were gone too soon", len(unread), pods)
	}
}

// isOwnEvent reports whether an event is about this run's claims: it is on one of them, on their pods or volumes, or names one.
func (s *stage) isOwnEvent(e corev1.Event) bool {
	text := e.InvolvedObject.Name + " " + e.Message
	return strings.Contains(text, s.prefix) || slices.ContainsFunc(s.claims, func(c *claim) bool { return strings.Contains(text, string(c.UID)) })
}

// texts has all texts that others can read, by their place. unread lists the pods whose logs were not read.
func (t *trial) texts() (texts map[string]string, unread []string) {
	texts = map[string]string{}
	for _, at := range []place{claims, provisioners, volumes} {
		for _, e := range t.events(at) {
			if t.isOwnEvent(e) {
				texts["the events on "+e.InvolvedObject.Kind+" objects"] += e.Message + "\n"
			}
		}
	}
	for _, s := range t.watcher.all() {
		texts["the log of a "+string(s.operation())+" pod"] += s.log + "\n"
		for _, status := range s.Status.ContainerStatuses {
			if end := status.State.Terminated; end != nil {
				texts["the message of a "+string(s.operation())+" pod"] += end.Message + "\n"
			}
		}
		if !s.logged && started(s.Pod) {
			unread = append(unread, s.Name)
		}
		pod, err := json.Marshal(s.Pod)
		t.must(err)
		texts["the object of a "+string(s.operation())+" pod"] += string(pod)
	}
	return texts, unread
}
