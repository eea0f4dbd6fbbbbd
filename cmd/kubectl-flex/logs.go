package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/podlog"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newLogs(o *options) *cobra.Command {
	follow, attempt := false, -1
	c := &cobra.Command{
		Use:   "logs CLAIM|PV|POD",
		Short: "Print the log of a claim's provisioner pod, also of the last failed attempt",
		Long: `Print the log of the newest provisioner pod of a claim or volume that has run. The last failed pod
of a claim that waits stays for it. Characters that a terminal would obey are left out.`,
		Example: "  kubectl flex logs data -f\n  kubectl flex logs data --attempt 0",
		Args:    args(1, 1, "the name of a claim, a volume or a provisioner pod"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("attempt") && attempt < 0 {
				return usageFault(c, fmt.Errorf("--attempt=%d: say 0 or more", attempt))
			}
			return o.logs(c.Context(), args[0], attempt, follow)
		},
		ValidArgsFunction: o.completeNames,
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "Go on until the pod ends")
	c.Flags().IntVar(&attempt, "attempt", -1, "Number of the attempt (default: the newest that has run)")
	return c
}

func (o *options) logs(ctx context.Context, name string, attempt int, follow bool) error {
	r, uid, err := o.findOwn(ctx, name)
	if err != nil {
		return err
	}
	pod, err := r.o.PodOf(uid, attempt)
	if _, short := inspect.SplitName("", name); attempt < 0 {
		if _, _, _, ok := podspec.ParseName(short); ok {
			pod, err = r.o.PodNamed(short)
		}
	}
	if err != nil {
		return fmt.Errorf("find the pod of %s: %w", name, err)
	}
	stream, err := r.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: podspec.ContainerName, Follow: follow}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	defer stream.Close()
	fmt.Fprintf(o.ErrOut, "pod %s/%s:\n", pod.Namespace, pod.Name)
	return copyLines(o.Out, stream)
}

// copyLines copies a log without escape sequences of terminals.
func copyLines(out io.Writer, log io.Reader) error {
	reader := bufio.NewReaderSize(log, podlog.MaxBytes)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 {
			if _, err := io.WriteString(out, contract.Lines(string(line))); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull): // a line that is longer than the buffer comes in parts
			return err
		}
	}
}
