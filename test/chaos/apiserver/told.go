package apiserver

import (
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Client is a client of a double of the API server, with the limits on requests that the dispatcher has for events.
func Client(server http.RoundTripper) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://apiserver", Transport: server, QPS: 50, Burst: 300,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}})
}

// Told are the events that were written to the server, as "Type Reason message", in the order of their last writes.
func Told(server *Server) (told []string) {
	list := List[*corev1.Event](server, Events)
	version := func(e *corev1.Event) int { n, _ := strconv.Atoi(e.ResourceVersion); return n }
	slices.SortFunc(list, func(a, b *corev1.Event) int { return version(a) - version(b) })
	for _, e := range list {
		told = append(told, e.Type+" "+e.Reason+" "+e.Message)
	}
	return told
}

// Noted are the events that are written between the start of a recorder and its stop.
func Noted(start func(kubernetes.Interface) (stop func()), record func()) []string {
	server := New()
	stop := start(Client(server))
	record()
	stop()
	return Told(server)
}
