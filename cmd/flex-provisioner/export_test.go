package main

import (
	"context"
	"encoding/hex"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/tracing"
)

func tracingFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tracing.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const goodTracing = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"

func TestReadTracing(t *testing.T) {
	for name, c := range map[string]struct {
		text     string
		endpoint string // empty where the text is wrong
		want     []string
	}{
		"all of it":        {goodTracing + "endpoint: collector.monitoring:4317\nsamplingRatePerMillion: 1000", "collector.monitoring:4317", nil},
		"the usual port":   {goodTracing + "samplingRatePerMillion: 1000000", "localhost:4317", nil},
		"the older API":    {"apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1", "localhost:4317", nil},
		"an IPv6 address":  {goodTracing + "endpoint: '[fd00::1]:4317'\nsamplingRatePerMillion: 1", "[fd00::1]:4317", nil},
		"nothing":          {"", "", []string{`apiVersion: Invalid value: "": say apiserver.config.k8s.io/v1`, `kind: Invalid value: "": say TracingConfiguration`, "samplingRatePerMillion: Required value: without it nothing is sent"}},
		"a URL":            {goodTracing + "endpoint: http://collector:4317\nsamplingRatePerMillion: 1", "", []string{`endpoint: Invalid value: "http://collector:4317": give host and port of a collector that takes OTLP over gRPC, such as localhost:4317`}},
		"no port":          {goodTracing + "endpoint: collector\nsamplingRatePerMillion: 1", "", []string{`endpoint: Invalid value: "collector": give host and port`}},
		"no rate":          {goodTracing + "samplingRatePerMillion: 0", "", []string{"samplingRatePerMillion: Invalid value: 0: give 1 to 1000000, or leave --tracing-config-file out to send nothing"}},
		"more than all":    {goodTracing + "samplingRatePerMillion: 1000001", "", []string{"samplingRatePerMillion: Invalid value: 1000001: give 1 to 1000000"}},
		"another field":    {goodTracing + "samplingRate: 1", "", []string{`unknown field "samplingRate"`, "give apiVersion, kind, endpoint and samplingRatePerMillion in YAML"}},
		"another kind":     {"apiVersion: v1\nkind: ConfigMap\nsamplingRatePerMillion: 1", "", []string{`apiVersion: Invalid value: "v1"`, `kind: Invalid value: "ConfigMap"`}},
		"a word as number": {goodTracing + "samplingRatePerMillion: all", "", []string{"samplingRatePerMillion of type int32"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readTracing(tracingFile(t, c.text))
			switch {
			case c.endpoint != "" && (err != nil || got.Endpoint != c.endpoint):
				t.Errorf("got %+v, %v", got, err)
			case c.endpoint == "" && err == nil:
				t.Errorf("got %+v and no error", got)
			}
			for _, part := range c.want {
				if err != nil && !strings.Contains(err.Error(), part) {
					t.Errorf("the error\n  %v\nlacks\n  %s", err, part)
				}
			}
		})
	}
}

// collected is a collector that keeps what it gets.
type collected struct {
	collector.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []*otlp.Span
	from  map[string]string // the resource's attributes
}

func (c *collected) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			c.from[a.Key] = a.Value.GetStringValue()
		}
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func collect(t *testing.T) (c *collected, endpoint string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = &collected{from: map[string]string{}}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	return c, listener.Addr().String()
}

// TestExport: a collector gets the spans as they were made, those of traces that are not sampled left out.
func TestExport(t *testing.T) {
	got, endpoint := collect(t)
	c, err := readTracing(tracingFile(t, goodTracing+"samplingRatePerMillion: 500000\nendpoint: "+endpoint))
	if err != nil {
		t.Fatal(err)
	}
	send, stop, err := c.export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	sampled, not := tracing.TraceID("11111111-2222-4333-8011-111111111111"), tracing.TraceID("11111111-2222-4333-80ee-111111111111")
	root := tracing.Span{Trace: sampled, ID: trace.SpanID{1}, Name: tracing.Provision, Start: at, End: at.Add(3 * time.Second)}
	child := tracing.Span{Trace: sampled, ID: trace.SpanID{2}, Parent: root.ID, Name: tracing.Attempt, Start: at.Add(time.Second), End: at.Add(2 * time.Second), Failed: true, Message: "disk full",
		Attributes: []attribute.KeyValue{attribute.String("k8s.pod.name", "prov-0")}}
	send([]tracing.Span{child, {Trace: not, ID: trace.SpanID{3}, Name: tracing.Provision, Start: at, End: at}})
	send([]tracing.Span{root})
	stop()
	got.mu.Lock()
	defer got.mu.Unlock()
	if len(got.spans) != 2 {
		t.Fatalf("the collector got %v", got.spans)
	}
	slices.SortFunc(got.spans, func(a, b *otlp.Span) int { return slices.Compare(a.SpanId, b.SpanId) })
	for i, want := range []tracing.Span{root, child} {
		s := got.spans[i]
		parent := ""
		if want.Parent.IsValid() {
			parent = want.Parent.String()
		}
		if hex.EncodeToString(s.TraceId) != want.Trace.String() || hex.EncodeToString(s.SpanId) != want.ID.String() || hex.EncodeToString(s.ParentSpanId) != parent ||
			s.Name != want.Name || s.StartTimeUnixNano != uint64(want.Start.UnixNano()) || s.EndTimeUnixNano != uint64(want.End.UnixNano()) ||
			(s.Status.Code == otlp.Status_STATUS_CODE_ERROR) != want.Failed || s.Status.Message != want.Message {
			t.Errorf("the collector got %v, want %v", s, want)
		}
	}
	if of := got.spans[1].Attributes; len(of) != 1 || of[0].Key != "k8s.pod.name" || of[0].Value.GetStringValue() != "prov-0" {
		t.Errorf("the attempt has the attributes %v", of)
	}
	if got.from["service.name"] != "flex-provisioner" || got.from["service.version"] == "" || got.from["host.name"] == "" {
		t.Errorf("the spans are from %v", got.from)
	}
}

// Where no collector answers, nobody waits for it, and the end of the process not for long.
func TestExportToNobody(t *testing.T) {
	rate := int32(million)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := &tracingConfiguration{Endpoint: listener.Addr().String(), SamplingRatePerMillion: &rate}
	send, stop, err := c.export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 10_000 { // more than the batch holds
		send([]tracing.Span{{Trace: tracing.TraceID("a"), ID: trace.SpanID{1}, Name: tracing.Run}})
	}
	if took := time.Since(began); took > flushTimeout {
		t.Errorf("10000 spans took %s", took)
	}
	began = time.Now()
	if stop(); time.Since(began) > 2*flushTimeout {
		t.Errorf("the end took %s", time.Since(began))
	}
}
