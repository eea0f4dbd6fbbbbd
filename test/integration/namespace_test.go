//go:build integration

package integration

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type requestCase struct {
	Name string         `json:"name"`
	As   string         `json:"as"`
	Verb string         `json:"verb"`
	Path string         `json:"path"` // below flex-provisioners, unless it begins with a slash
	Body map[string]any `json:"body"`
	// Pod is a merge patch of the table's pod, instead of a body.
	Pod map[string]any `json:"pod"`
	// Refused is what a policy says; Forbidden, that RBAC refuses before.
	Refused   string `json:"refused"`
	Forbidden bool   `json:"forbidden"`
}

// Only the dispatcher makes pods in flex-provisioners, and only administrators decide what they run.
func TestProvisionersNamespace(t *testing.T) {
	var data struct {
		Pod   map[string]any `json:"pod"`
		Cases []requestCase  `json:"cases"`
	}
	readData(t, "requests.yaml", &data)
	foo := provisionerPod(t, "prov-88888888-8888-4888-8888-888888888888-0", "foo")
	inline := provisionerPod(t, "prov-88888888-8888-4888-8888-888888888889-0", "inline")
	bind(t, foo)
	fill := strings.NewReplacer("{foo}", foo.Name, "{foo uid}", string(foo.UID), "{inline}", inline.Name)

	for i, c := range data.Cases {
		if c.Pod != nil {
			data.Cases[i].Body = merged(data.Pod, c.Pod)
		}
	}
	for _, c := range data.Cases { // until both policies are in force
		if c.Name == "mallory makes a pod" || c.Name == "a provisioner with too many rights deletes a volume" {
			eventually(t, func() error { return judge(send(t, tokenOf(t, c.As), c.request(t, fill)), c.Refused) })
		}
	}
	for _, c := range data.Cases {
		t.Run(c.Name, func(t *testing.T) {
			err := send(t, tokenOf(t, c.As), c.request(t, fill))
			if c.Forbidden {
				err = judgeRBAC(err)
			} else {
				err = judge(err, c.Refused)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func (c requestCase) request(t *testing.T, fill *strings.Replacer) request {
	t.Helper()
	r := request{Verb: c.Verb, Path: fill.Replace(c.Path)}
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
