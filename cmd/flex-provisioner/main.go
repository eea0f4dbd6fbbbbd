// Command flex-provisioner is the dispatcher: it runs a provisioner pod for each claim of the storage classes that have a
// provisioner ConfigMap.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flex-provisioner:", err)
		os.Exit(1)
	}
}
