// Command flex-provisioner is the dispatcher: it runs a provisioner pod for each claim of the storage classes that have a
// provisioner ConfigMap.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// The garbage collector runs when what is in use has grown by gcPercent, ballast included. That keeps a large dispatcher's
// memory low, and a small one from collecting every megabyte, which would be a quarter of its work in a burst. Nobody
// touches the ballast, so that it takes no memory.
const (
	gcPercent = 10
	ballast   = 96 << 20
)

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		defer runtime.KeepAlive(make([]byte, ballast))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	klog.Flush()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flex-provisioner:", contract.Paragraph(err.Error()))
		os.Exit(1)
	}
}
