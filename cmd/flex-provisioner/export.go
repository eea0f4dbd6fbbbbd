package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/tracing"
	"github.com/flex-provisioner/flex-provisioner/version"
)

// tracingConfiguration is the content of --tracing-config-file, as the API server takes it. The type of k8s.io/component-base would bring
// Kubernetes' metrics along.
type tracingConfiguration struct {
	APIVersion             string `json:"apiVersion"`
	Kind                   string `json:"kind"`
	Endpoint               string `json:"endpoint"`
	SamplingRatePerMillion *int32 `json:"samplingRatePerMillion"`
}

// Values of a tracingConfiguration: its version and kind, and the default endpoint.
const (
	tracingAPIVersion = "apiserver.config.k8s.io/v1"
	tracingKind       = "TracingConfiguration"
	tracingEndpoint   = "localhost:4317"
	million           = 1_000_000
)

// readTracing reads the file. The error has the field, its value and the remedy for each fault.
func readTracing(name string) (*tracingConfiguration, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("name a file that can be read: %w", err)
	}
	c := &tracingConfiguration{Endpoint: tracingEndpoint}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, fmt.Errorf("give apiVersion, kind, endpoint and samplingRatePerMillion in YAML: %w", err)
	}
	return c, c.faults().ToAggregate()
}

func (c *tracingConfiguration) faults() (faults field.ErrorList) {
	invalid := func(name string, value any, remedy string) {
		faults = append(faults, field.Invalid(field.NewPath(name), value, remedy))
	}
	if c.APIVersion != tracingAPIVersion && c.APIVersion != tracingAPIVersion+"beta1" {
		invalid("apiVersion", c.APIVersion, "say "+tracingAPIVersion)
	}
	if c.Kind != tracingKind {
		invalid("kind", c.Kind, "say "+tracingKind)
	}
	if host, port, err := net.SplitHostPort(c.Endpoint); err != nil || host == "" || port == "" || strings.Contains(host, "/") {
		invalid("endpoint", c.Endpoint, "give host and port of a collector that takes OTLP over gRPC, such as "+tracingEndpoint)
	}
	switch rate := c.SamplingRatePerMillion; {
	case rate == nil:
		faults = append(faults, field.Required(field.NewPath("samplingRatePerMillion"), "without it nothing is sent; 1000000 sends the traces of all claims"))
	case *rate < 1 || *rate > million:
		invalid("samplingRatePerMillion", *rate, "give 1 to 1000000, or leave --tracing-config-file out to send nothing")
	}
	return faults
}

// flushTimeout is how long the process waits for the collector when it ends.
const flushTimeout = 3 * time.Second

// export sends spans to the collector in the background until stop is called. Nothing waits for the collector: if it is slow or not
// reachable, spans are dropped, and the log says so.
func (c *tracingConfiguration) export(ctx context.Context) (send func([]tracing.Span), stop func(), err error) {
	log := klog.FromContext(ctx)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Error(err, "Traces are lost", "endpoint", c.Endpoint) }))
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(c.Endpoint), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, nil, fmt.Errorf("send traces to %s: %w", c.Endpoint, err)
	}
	self, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(semconv.ServiceName("flex-provisioner"), semconv.ServiceVersion(version.String())))
	if err != nil {
		return nil, nil, fmt.Errorf("say where traces come from: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(self), sdktrace.WithIDGenerator(ids{}), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	tracer := provider.Tracer("github.com/flex-provisioner/flex-provisioner")
	send = func(spans []tracing.Span) {
		for _, s := range spans {
			if tracing.Sampled(s.Trace, *c.SamplingRatePerMillion) {
				record(tracer, s)
			}
		}
	}
	stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
			log.Error(err, "Traces are lost", "endpoint", c.Endpoint)
		}
	}
	return send, stop, nil
}

// record adds a span to the batch.
func record(tracer trace.Tracer, s tracing.Span) {
	ctx := context.WithValue(context.Background(), spanKey{}, s)
	if s.Parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: s.Trace, SpanID: s.Parent, TraceFlags: trace.FlagsSampled}))
	}
	_, span := tracer.Start(ctx, s.Name, trace.WithTimestamp(s.Start), trace.WithAttributes(s.Attributes...))
	if s.Failed {
		span.SetStatus(codes.Error, s.Message)
	}
	span.End(trace.WithTimestamp(s.End))
}

// ids returns the IDs of the span in the context. They are derived from the claim and not random.
type ids struct{}

type spanKey struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	s := ctx.Value(spanKey{}).(tracing.Span)
	return s.Trace, s.ID
}

func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(spanKey{}).(tracing.Span).ID
}
