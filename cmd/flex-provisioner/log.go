package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Formats of the log.
const (
	formatText = "text"
	formatJSON = "json"
)

// logTo lets all that this process logs, libraries included, go through one place: as text in klog's own format, which quotes text, but
// prints what has several lines as it is, indented, or as one JSON object a line.
func logTo(out io.Writer, format, verbosity string) error {
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
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	return nil
}

// printable writes records without what a terminal would act on.
type printable struct{ out io.Writer }

func (p printable) Write(record []byte) (int, error) {
	if _, err := io.WriteString(p.out, contract.Lines(string(record))); err != nil {
		return 0, err
	}
	return len(record), nil
}
