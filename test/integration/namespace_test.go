//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/request"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type requestCase struct {
	Name string `json:"name"`
	As   string `json:"as"`
	// Holder is one of holders, instead of As.
	Holder string         `json:"holder"`
	Verb   string         `json:"verb"`
	Path   string         `json:"path"` // below flex-provisioners, unless it begins with a slash
	Body   map[string]any `json:"body"`
	// Pod is a merge patch of the table's pod, instead of a body.
	Pod map[string]any `json:"pod"`
	// Secret, Claim and Content are the same for the other tables.
	Secret  map[string]any `json:"secret"`
	Claim   map[string]any `json:"claim"`
	Content map[string]any `json:"content"`
	// Needs is a resource of the core API that older servers do not have: the case is left out there.
	Needs string `json:"needs"`
	// Refused is what a policy says; Forbidden, that RBAC refuses before.
	Refused   string `json:"refused"`
	Forbidden bool   `json:"forbidden"`
}

func (c requestCase) trial(t *testing.T, token string, fill *strings.Replacer) trial {
	t.Helper()
	return trial{name: c.Name, token: token, Request: c.request(t, fill), refused: c.Refused, forbidden: c.Forbidden}
}

func (c requestCase) request(t *testing.T, fill *strings.Replacer) request.Request {
	t.Helper()
	r := request.Request{Verb: c.Verb, Path: fill.Replace(c.Path)}
	body, err := json.Marshal(c.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(fill.Replace(string(body))), &r.Body); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(r.Path, "/") {
		r.Path = "/api/v1/namespaces/" + contract.ProvisionersNamespace + "/" + r.Path
	}
	return r
}

// bind puts the pod on node1, as the scheduler does.
func bind(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	scheduler := apiserver.User{Name: "system:kube-scheduler"}
	err := server.Client(scheduler.Token()).CoreV1().Pods(pod.Namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node1"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("bind pod %s: %v", pod.Name, err)
	}
}
