//go:build e2e

package e2e

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// marked is the password in a Secret that every provisioner pod of the tests mounts and reads. Nobody may ever say it.
var marked = "marked-" + rand.Text()

// password is what a Secret with it has.
var password = map[string]string{"password": marked}

// marks are the forms in which it could be said: as text, and as the data of a Secret.
var marks = []string{marked, base64.StdEncoding.EncodeToString([]byte(marked))}

// said are the places where it was seen.
var said struct {
	sync.Mutex
	places []string
}

// listen looks for the password in what is said, and is called for every version of every object that is watched.
func listen(place, text string) {
	if !slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(text, mark) }) {
		return
	}
	said.Lock()
	defer said.Unlock()
	if !slices.Contains(said.places, place) {
		said.places = append(said.places, place)
	}
}

func listenTo(obj any) {
	if text, err := json.Marshal(obj); err == nil {
		listen(fmt.Sprintf("%T %s", obj, obj.(metav1.Object).GetName()), string(text))
	}
}

// makeSecret makes a Secret for provisioner pods, and returns what removes it.
func makeSecret(ctx context.Context, name string, data map[string]string) (remove func(context.Context) error, err error) {
	secrets := shared.admin.CoreV1().Secrets(contract.ProvisionersNamespace)
	_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	return func(ctx context.Context) error { return secrets.Delete(ctx, name, metav1.DeleteOptions{}) }, err
}

// secret makes a Secret for provisioner pods, which goes with the test.
func (s *scope) secret(name string, data map[string]string) {
	s.Helper()
	remove, err := makeSecret(s.Context(), name, data)
	s.ok(err)
	s.later(remove)
}

// secretsStaySecret searches, after all tests, what the watches told all the while, every object that the API server has,
// every log that is left, and the dispatchers' metrics. The one place where it has to be found is a Secret: a search that
// does not find it there would find it nowhere.
func secretsStaySecret(ctx context.Context) (err error) {
	remove, err := makeSecret(ctx, export, password)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(ctx)) }()
	searched, err := searchObjects(ctx)
	if err != nil {
		return err
	}
	logs := 0
	for _, p := range all(shared.pods, func(*corev1.Pod) bool { return true }) {
		if text, err := shared.admin.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(ctx); err == nil {
			listen("the log of pod "+p.Name, string(text))
			logs++
		}
		if isDispatcher(p) {
			text, err := metricsOf(ctx, p)
			if err != nil {
				fmt.Printf("e2e: the metrics of %s were not searched: %v\n", p.Name, err)
				continue
			}
			listen("the metrics of pod "+p.Name, string(text))
		}
	}
	said.Lock()
	defer said.Unlock()
	own := "secrets " + contract.ProvisionersNamespace + "/" + export
	if !slices.Contains(said.places, own) || searched < 30 || logs == 0 {
		return fmt.Errorf("the search for the marked password does not find it where it is: %d objects, %d logs, found in %q", searched, logs, said.places)
	}
	if places := slices.DeleteFunc(slices.Clone(said.places), func(p string) bool { return p == own }); len(places) > 0 {
		return fmt.Errorf("the marked password is in %s", strings.Join(places, ", "))
	}
	fmt.Printf("e2e: the marked password is in none of %d objects, %d logs, and what was watched\n", searched-1, logs)
	return nil
}

// searchObjects listens to every object of every kind.
func searchObjects(ctx context.Context) (searched int, err error) {
	lists, err := shared.admin.Discovery().ServerPreferredResources()
	if err != nil {
		return 0, fmt.Errorf("list kinds: %w", err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return searched, err
		}
		path := "/apis/" + version.String()
		if version.Group == "" {
			path = "/api/" + version.Version
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(kind.Verbs, "list") {
				continue
			}
			raw, err := shared.admin.Discovery().RESTClient().Get().AbsPath(path, kind.Name).DoRaw(ctx)
			if err != nil {
				return searched, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			var items struct {
				Items []json.RawMessage `json:"items"`
			}
			if err := json.Unmarshal(raw, &items); err != nil {
				return searched, fmt.Errorf("list %s: %w", kind.Name, err)
			}
			for _, item := range items.Items {
				var object metav1.PartialObjectMetadata
				if err := json.Unmarshal(item, &object); err != nil {
					return searched, fmt.Errorf("list %s: %w", kind.Name, err)
				}
				listen(kind.Name+" "+object.Namespace+"/"+object.Name, string(item))
				searched++
			}
		}
	}
	return searched, nil
}
