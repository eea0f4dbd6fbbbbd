package recorder

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ownEvents is how many messages of one key within keptFor get an Event of their own. Those that come after them
	// update the last one, and rest for seriesRest each, so that a cause that changes its words all the time costs
	// little.
	ownEvents  = 10
	seriesRest = 30 * time.Second
	// keptFor is how long the API server keeps an Event after it was written last.
	keptFor = time.Hour
	// maxSeries is how many series are remembered. Beyond that a repetition becomes an Event of its own.
	maxSeries = 1000
)

// series are the Events of one key that this process wrote.
type series struct {
	name    string // of the last one
	message uint64 // of it, hashed
	count   int32  // of it
	events  int
	at      time.Time // when it was written
}

// of is the series as it is once an event is written. update reports whether that changes the last Event instead of
// creating one: it says the same, or there are many.
func (s series) of(k key, e *event, now time.Time) (next series, update bool) {
	if now.Sub(s.at) >= keptFor {
		s = series{}
	}

	said := hash(e.message)
	if s.events > 0 && (s.message == said || s.events >= ownEvents) {
		return series{name: s.name, message: said, count: s.count + 1, events: s.events, at: now}, true
	}

	return series{name: nameOf(k, e), message: said, count: 1, events: s.events + 1, at: now}, false
}

// rests returns the time before which the series gets no other event, zero for none.
func (s series) rests() time.Time {
	if s.events < ownEvents {
		return time.Time{}
	}

	return s.at.Add(seriesRest)
}

// remember keeps a series. All are forgotten where there are too many.
func remember(all map[key]series, k key, s series) {
	if len(all) >= maxSeries {
		clear(all)
	}

	all[k] = s
}

// expireSeries forgets the series whose Events the API server does not keep any more.
func expireSeries(all map[key]series, now time.Time) {
	maps.DeleteFunc(all, func(_ key, s series) bool { return now.Sub(s.at) >= keptFor })
}

func hash(texts ...string) uint64 {
	h := fnv.New64a()
	for _, text := range texts {
		_, _ = h.Write([]byte(text))
		_, _ = h.Write([]byte{0})
	}

	return h.Sum64()
}

// nameOf is the name of an event's Event. It ends with the time, as the names of client-go's recorder do, because the
// timestamps of Events are whole seconds. It is the same at each try, so that a creation that was not answered is not
// repeated.
func nameOf(k key, e *event) string {
	suffix := fmt.Sprintf(".%016x%08x", e.at.UnixNano(), uint32(hash(k.uid, string(k.reason), k.of, e.message)))
	const longest = 253 - len(".0123456789abcdef01234567")

	return strings.TrimRight(k.name[:min(len(k.name), longest)], "-.") + suffix
}

func typeOf(e *event) string {
	if e.warning {
		return corev1.EventTypeWarning
	}

	return corev1.EventTypeNormal
}

// object is the Event to create.
func (s series) object(e *event) *corev1.Event {
	namespace, at := e.about.Namespace, metav1.NewTime(e.at)
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}

	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: s.name},
		InvolvedObject: e.about, Type: typeOf(e), Reason: string(e.reason), Message: e.message,
		FirstTimestamp: at, LastTimestamp: at, Count: s.count,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	}
}

// patch is what changes the last Event of the series.
func (s series) patch(e *event) ([]byte, error) {
	return json.Marshal(map[string]any{
		"type": typeOf(e), "message": e.message, "count": s.count, "lastTimestamp": metav1.NewTime(e.at),
	})
}

// component is the source of all events, by which kubectl flex knows them.
const component = "flex-provisioner"
