package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Formats of the log.
const (
	formatText = "text"
	formatJSON = "json"
)

// setUpLogging sets the logger of this process and its libraries. The format is klog's text, which quotes values but prints those of
// several lines indented, or one JSON object a line.
func setUpLogging(out io.Writer, format, verbosity string) error {
	v, err := strconv.Atoi(verbosity)
	if err != nil {
		return fmt.Errorf("--v=%s: give a number: %w", verbosity, err)
	}
	var logger logr.Logger
	switch format {
	case formatText:
		logger = textlogger.NewLogger(textlogger.NewConfig(textlogger.Verbosity(v), textlogger.Output(printable{out})))
	case formatJSON:
		logger = logr.FromSlogHandler(slog.NewJSONHandler(printable{out}, &slog.HandlerOptions{Level: slog.Level(-v)})) // what logr's verbosities are to slog
	default:
		return fmt.Errorf("--logging-format=%s: say text or json", format)
	}
	klog.SetLoggerWithOptions(logger.WithSink(bounded{logger.WithCallDepth(1).GetSink()}), klog.ContextualLogger(true))
	return nil
}

// maxLogged is the limit in bytes on each text in a record. Tenants, images and authors of ConfigMaps write
// annotations of 256 KiB, which errors quote, of this program and of its libraries.
const maxLogged = 2048

// bounded shortens texts that are too long.
type bounded struct{ logr.LogSink }

func (b bounded) Info(level int, message string, keysAndValues ...any) {
	b.LogSink.Info(level, contract.Clip(message, maxLogged), short(keysAndValues)...)
}

func (b bounded) Error(err error, message string, keysAndValues ...any) {
	if text := textOf(err); len(text) > maxLogged {
		err = errors.New(contract.Clip(text, maxLogged))
	}
	b.LogSink.Error(err, contract.Clip(message, maxLogged), short(keysAndValues)...)
}

func (b bounded) WithValues(keysAndValues ...any) logr.LogSink {
	return bounded{b.LogSink.WithValues(short(keysAndValues)...)}
}

func (b bounded) WithName(name string) logr.LogSink { return bounded{b.LogSink.WithName(name)} }

// WithCallDepth keeps the file and line in a record those of the caller.
func (b bounded) WithCallDepth(depth int) logr.LogSink {
	if sink, ok := b.LogSink.(logr.CallDepthLogSink); ok {
		return bounded{sink.WithCallDepth(depth)}
	}
	return b
}

// short are the values. Of a text with more than maxLogged bytes so much stays.
func short(keysAndValues []any) []any {
	values := slices.Clone(keysAndValues)
	for i, value := range values {
		if text := textOf(value); len(text) > maxLogged {
			values[i] = contract.Clip(text, maxLogged)
		}
	}
	return values
}

// textOf is the text of a string, an error or a Stringer. It is empty for what has none, such as a nil pointer whose
// method panics: the sinks of klog and slog write of that what they can.
func textOf(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()

	switch v := value.(type) {
	case string:
		return v
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	}
	return ""
}

// printable writes records without escape sequences of terminals.
type printable struct{ out io.Writer }

func (p printable) Write(record []byte) (int, error) {
	if _, err := io.WriteString(p.out, contract.Lines(string(record))); err != nil {
		return 0, err
	}
	return len(record), nil
}
