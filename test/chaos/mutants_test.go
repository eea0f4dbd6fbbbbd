package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// call is a request as a mutation sees it: what it is, and its body.
type call struct {
	*http.Request
	what string // POST pods, LIST pods, WATCH pods, GET pods
	body []byte
}

// mutate makes a wrapper of what to do with a call and how to send it on.
func mutate(do func(c call, send func(call) (*http.Response, error)) (*http.Response, error)) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		send := func(c call) (*http.Response, error) {
			r := c.Clone(c.Context())
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
			return next.RoundTrip(r)
		}
		return transport(func(r *http.Request) (*http.Response, error) {
			c := call{Request: r, what: whatOf(r)}
			if r.Body != nil {
				var err error
				if c.body, err = io.ReadAll(r.Body); err != nil {
					return nil, err
				}
			}
			return do(c, send)
		})
	}
}

var resourcePath = regexp.MustCompile(`/(pods|persistentvolumes|persistentvolumeclaims|controllerrevisions|nodes)(/[^/]+)?$`)

func whatOf(r *http.Request) string {
	parts := resourcePath.FindStringSubmatch(r.URL.Path)
	verb := r.Method
	switch {
	case parts == nil:
		return ""
	case verb == http.MethodGet && r.URL.Query().Get("watch") != "":
		verb = "WATCH"
	case verb == http.MethodGet && parts[2] == "":
		verb = "LIST"
	}
	return verb + " " + parts[1]
}

func answer(c call, code int, text string) *http.Response {
	return &http.Response{StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: c.Request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}
}

// editPod changes the pod of a create.
func editPod(c call, edit func(*corev1.Pod)) call {
	var pod corev1.Pod
	if err := json.Unmarshal(c.body, &pod); err != nil {
		panic(err)
	}
	edit(&pod)
	c.body, _ = json.Marshal(pod)
	return c
}

// noPodFinalizer leaves delete pods theirs: without it they are never settled, which any seed shows, slowly.
var noPodFinalizer = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if c.what == "POST pods" {
		c = editPod(c, func(pod *corev1.Pod) {
			if pod.Labels[contract.LabelOperation] == string(contract.Provision) {
				pod.Finalizers = nil
			}
		})
	}
	return send(c)
})

// noVolumeFinalizer also keeps the library from adding it later.
var noVolumeFinalizer = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	switch c.what {
	case "POST pods":
		c = editPod(c, func(pod *corev1.Pod) {
			var volume corev1.PersistentVolume
			if text := pod.Annotations[contract.AnnVolume]; text != "" && yaml.Unmarshal([]byte(text), &volume) == nil {
				volume.Finalizers = nil
				file, _ := yaml.Marshal(volume)
				pod.Annotations[contract.AnnVolume] = string(file)
			}
		})
	case "PUT persistentvolumes", "PATCH persistentvolumes":
		c.body = bytes.ReplaceAll(c.body, []byte(contract.VolumeFinalizer), []byte("kubernetes.io/pv-protection"))
	}
	return send(c)
})

// staleClaim answers every GET of a claim as the first.
func staleClaim(next http.RoundTripper) http.RoundTripper {
	var mu sync.Mutex
	first := map[string]string{}
	return mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
		if c.what != "GET persistentvolumeclaims" {
			return send(c)
		}
		mu.Lock()
		text, ok := first[c.URL.Path]
		mu.Unlock()
		if ok {
			return answer(c, http.StatusOK, text), nil
		}
		response, err := send(c)
		if err != nil || response.StatusCode != http.StatusOK {
			return response, err
		}
		data, err := io.ReadAll(response.Body)
		mu.Lock()
		first[c.URL.Path] = string(data)
		mu.Unlock()
		return answer(c, http.StatusOK, string(data)), err
	})(next)
}

// staleVolume answers every GET of a volume as before it was created.
var staleVolume = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if c.what == "GET persistentvolumes" {
		return answer(c, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`), nil
	}
	return send(c)
})

// noLivePods leaves informers alone, which select by the label's presence.
var noLivePods = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if c.what == "LIST pods" && strings.Contains(c.URL.Query().Get("labelSelector"), "=") {
		return answer(c, http.StatusOK, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`), nil
	}
	return send(c)
})

// noMisfits lets the dispatcher see volumes as they should be.
var noMisfits = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	response, err := send(c)
	if err == nil && strings.HasSuffix(c.what, " persistentvolumes") && c.Method == http.MethodGet {
		response.Body, response.ContentLength = &replaced{response.Body, bufio.NewReader(response.Body), healing, nil}, -1
	}
	return response, err
})

var healing = strings.NewReplacer(`"storage":"1Mi"`, `"storage":"1Gi"`, "ReadOnlyMany", "ReadWriteOnce")

// replaced rewrites a stream line by line.
type replaced struct {
	io.Closer
	from *bufio.Reader
	by   *strings.Replacer
	left []byte
}

func (h *replaced) Read(p []byte) (int, error) {
	if len(h.left) == 0 {
		line, err := h.from.ReadString('\n')
		if line == "" && err != nil {
			return 0, err
		}
		h.left = []byte(h.by.Replace(line))
	}
	n := copy(p, h.left)
	h.left = h.left[n:]
	return n, nil
}

// noLock makes a second pod where the name is taken.
var noLock = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	response, err := send(c)
	if err == nil && c.what == "POST pods" && response.StatusCode == http.StatusConflict {
		return send(editPod(c, func(pod *corev1.Pod) {
			cut := strings.LastIndex(pod.Name, "-")
			pod.Name = fmt.Sprintf("%s-%d", pod.Name[:cut], 5000+len(pod.Name))
		}))
	}
	return response, err
})

// noTombstone removes every pod whose finalizer is taken off, or that is marked to keep it for its name.
var noTombstone = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if c.what == "PATCH pods" {
		c.body = bytes.ReplaceAll(c.body, []byte(`"annotations":{"`+contract.AnnSettled+`":"true"}`),
			[]byte(`"$deleteFromPrimitiveList/finalizers":["`+contract.PodFinalizer+`"]`))
	}
	response, err := send(c)
	if err == nil && c.what == "PATCH pods" && response.StatusCode == http.StatusOK {
		c.Request = c.Clone(c.Context())
		c.Method, c.body = http.MethodDelete, nil
		c.Header.Del("Content-Type")
		gone, err := send(c)
		if err != nil {
			return nil, err
		}
		_ = gone.Body.Close()
	}
	return response, err
})

// noRecords deletes the record of a drained pod as soon as somebody has looked at it right before the pod goes.
var noRecords = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	response, err := send(c)
	if err != nil || c.what != "GET controllerrevisions" || response.StatusCode != http.StatusOK {
		return response, err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var record appsv1.ControllerRevision
	if err := json.Unmarshal(text, &record); err != nil || time.Since(record.CreationTimestamp.Time) < 10*time.Second {
		return answer(c, http.StatusOK, string(text)), err
	}
	for _, step := range []struct{ method, body string }{{http.MethodPatch, `{"metadata":{"finalizers":null}}`}, {http.MethodDelete, ""}} {
		loss := call{Request: c.Clone(c.Context()), body: []byte(step.body)}
		loss.Method = step.method
		loss.Header.Set("Content-Type", "application/merge-patch+json")
		gone, err := send(loss)
		if err != nil {
			return nil, err
		}
		_ = gone.Body.Close()
	}
	return answer(c, http.StatusOK, string(text)), nil
})

// noNodes answers as if there were no Node.
var noNodes = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	switch c.what {
	case "GET nodes":
		return answer(c, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`), nil
	case "LIST nodes":
		return answer(c, http.StatusOK, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`), nil
	}
	return send(c)
})

// hastily lets nodes seem to have been gone for a minute longer than they have.
var hastily = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if c.what == "PATCH persistentvolumes" {
		c.body = goneSince.ReplaceAllFunc(c.body, func(stamp []byte) []byte {
			parts := goneSince.FindSubmatch(stamp)
			at, err := time.Parse(time.RFC3339, string(parts[2]))
			if err != nil {
				panic(err)
			}
			return []byte(string(parts[1]) + at.Add(-time.Minute).Format(time.RFC3339) + `"`)
		})
	}
	return send(c)
})

var goneSince = regexp.MustCompile(`("` + contract.AnnNodeGone + `":"[^/"]*/)([^"]*)"`)

// noFollowing drops what is written to the status of claims.
var noFollowing = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if claim, is := strings.CutSuffix(c.URL.Path, "/status"); is && c.Method == http.MethodPatch && strings.Contains(claim, "/persistentvolumeclaims/") {
		c.Request = c.Clone(c.Context())
		c.URL.Path, c.Method, c.body = claim, http.MethodGet, nil
	}
	return send(c)
})

// noRepair drops the record that a volume is given.
var noRepair = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if c.what == "PATCH persistentvolumes" && bytes.Contains(c.body, []byte(contract.AnnRecord)) {
		c.body = []byte(`{}`)
	}
	return send(c)
})

// oneNamespace lets claims of all namespaces seem to be of the first, so that none of them takes turns with another.
func oneNamespace(plan *sim.Plan) func(http.RoundTripper) http.RoundTripper {
	var seen, meant []string
	for i := plan.Claims - 1; i >= 0; i-- { // the longest numbers first, since they begin with others
		if tenant := plan.Tenant(i); tenant != plan.Tenant(0) {
			claim := fmt.Sprintf("claim-%d", i)
			seen = append(seen, `"namespace":"`+tenant+`"`, `"namespace":"`+plan.Tenant(0)+`"`)
			meant = append(meant, claim, tenant)
		}
	}
	hiding := strings.NewReplacer(seen...)
	return mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
		c.Request = c.Clone(c.Context())
		for i := 0; i < len(meant); i += 2 {
			claim, tenant := meant[i], meant[i+1]
			if strings.HasSuffix(c.URL.Path, "/persistentvolumeclaims/"+claim) {
				c.URL.Path = strings.Replace(c.URL.Path, "/"+plan.Tenant(0)+"/", "/"+tenant+"/", 1)
			}
			if c.what == "POST pods" {
				c = editPod(c, func(pod *corev1.Pod) { pod.Annotations = inNamespace(pod.Annotations, plan.Tenant(0), tenant, claim) })
			}
		}
		response, err := send(c)
		if err == nil && c.Method == http.MethodGet {
			response.Body, response.ContentLength = &replaced{response.Body, bufio.NewReader(response.Body), hiding, nil}, -1
		}
		return response, err
	})
}

// inNamespace moves the claim that a pod is for from one namespace to another.
func inNamespace(annotations map[string]string, from, to, claim string) map[string]string {
	if annotations[contract.AnnClaim] != from+"/"+claim {
		return annotations
	}
	moved := strings.NewReplacer(`"namespace":"`+from+`"`, `"namespace":"`+to+`"`, "namespace: "+from+"\n", "namespace: "+to+"\n", from+"/"+claim, to+"/"+claim)
	for name, text := range annotations {
		annotations[name] = moved.Replace(text)
	}
	return annotations
}

// noTruth lets a volume that is expanded have more than its pod was asked for.
var noTruth = mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
	if c.what == "PATCH persistentvolumes" {
		c.body = capacity.ReplaceAll(c.body, []byte(`"capacity":{"storage":"99Gi"}`))
	}
	return send(c)
})

var capacity = regexp.MustCompile(`"capacity":\{"storage":"[^"]*"\}`)

// todaysMount lets delete and expand pods mount what the newest provision pod mounted.
func todaysMount() func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		var mu sync.Mutex
		today := ""
		return mutate(func(c call, send func(call) (*http.Response, error)) (*http.Response, error) {
			if c.what != "POST pods" {
				return send(c)
			}
			return send(editPod(c, func(pod *corev1.Pod) {
				mu.Lock()
				defer mu.Unlock()
				for _, v := range pod.Spec.Volumes {
					if v.PersistentVolumeClaim == nil {
						continue
					}
					if pod.Labels[contract.LabelOperation] == string(contract.Provision) || today == "" {
						today = v.PersistentVolumeClaim.ClaimName
					}
					v.PersistentVolumeClaim.ClaimName = today
				}
			}))
		})(next)
	}
}
