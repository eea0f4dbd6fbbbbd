//go:build integration

package integration

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// trial is one request of the tables with the answer that it has to get.
type trial struct {
	name  string
	token string
	request.Request
	// refused is what a policy says, invalid what the API server itself says before, forbidden that RBAC refuses.
	refused, invalid string
	forbidden        bool
}

// run is nil where the answer is as it should be.
func (c trial) run(t *testing.T) error {
	t.Helper()
	err := send(t, c.token, c.Request)
	switch {
	case c.invalid != "":
		return judgeInvalid(err, c.invalid)
	case c.forbidden:
		return judgeRBAC(err)
	}
	return judge(err, c.refused)
}

// hostile says that the request must not succeed.
func (c trial) hostile() bool { return c.refused != "" || c.invalid != "" || c.forbidden }

// suite is all tables: volumes, Secrets and what else a pod's token could be good for, requests in the provisioners'
// namespace, claims. What they need exists until the test ends.
func suite(t *testing.T) []trial {
	t.Helper()
	var all []trial
	for table, read := range map[string]func(*testing.T, map[string]string) []trial{
		"volumes": volumeTrials, "pods": podTrials, "privileges": privilegeTrials, "claims": claimTrials,
		"requests": requestTrials("requests.yaml"), "dispatcher": requestTrials("dispatcher.yaml"),
		"controllers": requestTrials("controllers.yaml"), "snapshots": requestTrials("snapshots.yaml"), "attachments": attachmentTrials} {
		for _, c := range read(t, holderTokens(t)) {
			c.name = table + "/" + c.name
			all = append(all, c)
		}
	}
	return all
}

// holders are those whose tokens the cases use: a ServiceAccount and the pod that its token is bound to.
var holders = map[string]struct{ account, pod string }{
	"foo":                     {"foo", "prov-11111111-1111-4111-8111-111111111111-0"},
	"foo deleting":            {"foo", "del-11111111-1111-4111-8111-111111111111-0"},
	"foo expanding":           {"foo", "exp-11111111-1111-4111-8111-111111111111-0"},
	"foo snapshotting":        {"foo", "snap-11111111-1111-4111-8111-111111111111-0"},
	"foo removing a snapshot": {"foo", "sdl-11111111-1111-4111-8111-111111111111-0"},
	"foo without pod":         {"foo", ""},
	"hostpath":                {"hostpath", "prov-22222222-2222-4222-8222-222222222222-17"},
	"nfs-subdir":              {"nfs-subdir", "prov-33333333-3333-4333-8333-333333333333-9999"},
	"inline":                  {"inline", "prov-44444444-4444-4444-8444-444444444444-1"},
	"wide":                    {"wide", "prov-55555555-5555-4555-8555-555555555555-0"},
	"narrow":                  {"narrow", "prov-56565656-5656-4565-8565-565656565656-0"},
	"unlisted":                {"unlisted", "prov-66666666-6666-4666-8666-666666666666-0"},
	"cinder":                  {"cinder", "prov-11111111-1111-4111-8111-111111111111-1"},
	"cinder deleting":         {"cinder", "del-11111111-1111-4111-8111-111111111111-1"},
	"cinder expanding":        {"cinder", "exp-11111111-1111-4111-8111-111111111111-1"},
	"cinder snapshotting":     {"cinder", "snap-11111111-1111-4111-8111-111111111111-1"},
	"cinder without pod":      {"cinder", ""},
	"cinder 12":               {"cinder", "prov-12121212-1212-4212-8212-121212121212-0"},
	"cinder 12 deleting":      {"cinder", "del-12121212-1212-4212-8212-121212121212-0"},
	"cinder 13":               {"cinder", "prov-13131313-1313-4313-8313-131313131313-0"},
	"cinder 14":               {"cinder", "prov-14141414-1414-4414-8414-141414141414-0"},
	"mistaken":                {"mistaken", "prov-15151515-1515-4515-8515-151515151515-0"},
	"mistaken 12":             {"mistaken", "prov-12121212-1212-4212-8212-121212121212-1"},
}

// holderTokens makes the pods where they are not there, and their tokens.
func holderTokens(t *testing.T) map[string]string {
	t.Helper()
	tokens := map[string]string{}
	for name, holder := range holders {
		var pod *corev1.Pod
		if holder.pod != "" {
			pod = ensurePod(t, holder.pod, holder.account)
		}
		tokens[name] = token(t, contract.ProvisionersNamespace, holder.account, pod)
	}
	return tokens
}

func ensurePod(t *testing.T, name, account string) *corev1.Pod {
	t.Helper()
	pod, err := server.Client(apiserver.Admin.Token()).CoreV1().Pods(contract.ProvisionersNamespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return provisionerPod(t, name, account)
	}
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func volumeTrials(t *testing.T, tokens map[string]string) []trial {
	t.Helper()
	data := readVolumes(t)
	var all []trial
	for _, c := range data.Cases {
		volume, known := data.Volumes[c.Volume]
		if !known || tokens[c.Holder] == "" {
			t.Fatalf("%s: volume %q or holder %q is unknown", c.Name, c.Volume, c.Holder)
		}
		if c.Needs != "" && !serves(t, c.Needs) {
			continue
		}
		all = append(all, trial{name: c.Name, token: tokens[c.Holder], refused: c.Refused, invalid: c.Invalid,
			Request: request.Request{Verb: "POST", Path: "/api/v1/persistentvolumes", Body: request.Merged(volume, c.Patch)}})
	}
	return all
}

func podTrials(t *testing.T, tokens map[string]string) []trial {
	t.Helper()
	var data struct {
		Secrets  map[string]map[string]any `json:"secrets"`
		Existing []corev1.Secret           `json:"existing"`
		Cases    []requestCase             `json:"cases"`
	}
	readData(t, "pods.yaml", &data)
	for _, secret := range data.Existing {
		ensureSecret(t, secret)
	}
	var all []trial
	for _, c := range data.Cases {
		if tokens[c.Holder] == "" {
			t.Fatalf("%s: holder %q is unknown", c.Name, c.Holder)
		}
		if c.Secret != nil {
			c.Body = request.Merged(data.Secrets["own"], c.Secret)
		}
		all = append(all, c.trial(t, tokens[c.Holder], strings.NewReplacer()))
	}
	return all
}

func ensureSecret(t *testing.T, secret corev1.Secret) {
	t.Helper()
	if secret.Namespace == "" {
		secret.Namespace = contract.ProvisionersNamespace
	}
	_, err := server.Client(apiserver.Admin.Token()).CoreV1().Secrets(secret.Namespace).Create(t.Context(), &secret, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func requestTrials(file string) func(*testing.T, map[string]string) []trial {
	return func(t *testing.T, tokens map[string]string) []trial {
		t.Helper()
		return readRequests(t, file, tokens)
	}
}

func readRequests(t *testing.T, file string, tokens map[string]string) []trial {
	t.Helper()
	var data struct {
		Pod     map[string]any `json:"pod"`
		Content map[string]any `json:"content"`
		Cases   []requestCase  `json:"cases"`
	}
	readData(t, file, &data)
	foo := ensurePod(t, "prov-88888888-8888-4888-8888-888888888888-0", "foo")
	inline := ensurePod(t, "prov-88888888-8888-4888-8888-888888888889-0", "inline")
	if foo.Spec.NodeName == "" {
		bind(t, foo)
	}
	fill := strings.NewReplacer("{foo}", foo.Name, "{foo uid}", string(foo.UID), "{inline}", inline.Name)
	var all []trial
	for _, c := range data.Cases {
		if c.Needs != "" && !serves(t, c.Needs) {
			continue
		}
		if c.Pod != nil {
			c.Body = request.Merged(data.Pod, c.Pod)
		}
		if c.Content != nil {
			c.Body = request.Merged(data.Content, c.Content)
		}
		token := tokens[c.Holder]
		if c.Holder == "" {
			token = tokenOf(t, c.As)
		}
		all = append(all, c.trial(t, token, fill))
	}
	return all
}

func claimTrials(t *testing.T, _ map[string]string) []trial {
	t.Helper()
	var data struct {
		Claim map[string]any `json:"claim"`
		Cases []requestCase  `json:"cases"`
	}
	readData(t, "claims.yaml", &data)
	ensureClaim(t, data.Claim)
	var all []trial
	for _, c := range data.Cases {
		if c.Claim != nil {
			c.Body = request.Merged(data.Claim, c.Claim)
		}
		all = append(all, c.trial(t, tokenOf(t, c.As), strings.NewReplacer()))
	}
	return all
}

// ensureClaim makes the claim "existing", as tom, who says so.
func ensureClaim(t *testing.T, body map[string]any) {
	t.Helper()
	text, err := yaml.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var claim corev1.PersistentVolumeClaim
	if err := yaml.Unmarshal(text, &claim); err != nil {
		t.Fatal(err)
	}
	claim.Name, claim.Annotations = "existing", map[string]string{contract.AnnCreatedBy: "tom", contract.AnnCreatedByUID: "uid-of-tom"}
	if _, err := toms(t).Create(t.Context(), &claim, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// serves says that the API server has the resource, or subresource, of the core API, or the GROUP/VERSION/RESOURCE.
func serves(t *testing.T, resource string) bool {
	t.Helper()
	version := "v1"
	if parts := strings.Split(resource, "/"); len(parts) == 3 {
		version, resource = parts[0]+"/"+parts[1], parts[2]
	}
	list, err := server.Client(apiserver.Admin.Token()).Discovery().ServerResourcesForGroupVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}
