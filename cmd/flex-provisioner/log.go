package main

import (
	"fmt"
	"io"
	"strconv"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// logTo lets all that this process logs, libraries included, go through one place, in klog's own format. klog quotes text,
// but prints what has several lines as it is, indented.
func logTo(out io.Writer, verbosity string) error {
	v, err := strconv.Atoi(verbosity)
	if err != nil {
		return fmt.Errorf("--v=%s: give a number: %w", verbosity, err)
	}
	config := textlogger.NewConfig(textlogger.Verbosity(v), textlogger.Output(printable{out}))
	klog.SetLoggerWithOptions(textlogger.NewLogger(config), klog.ContextualLogger(true))
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
