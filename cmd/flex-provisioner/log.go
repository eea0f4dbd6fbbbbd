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
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	return nil
}

// printable writes records without escape sequences of terminals.
type printable struct{ out io.Writer }

func (p printable) Write(record []byte) (int, error) {
	if _, err := io.WriteString(p.out, contract.Lines(string(record))); err != nil {
		return 0, err
	}
	return len(record), nil
}
