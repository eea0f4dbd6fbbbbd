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

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// The garbage collector runs when the memory in use, ballast included, has grown by gcPercent. That keeps the memory of a large
// dispatcher low. Without the ballast a small one would collect at every megabyte, which takes a quarter of its time in a burst.
// The ballast takes no memory, since it is never written.
const (
	gcPercent = 10
	ballast   = 56 << 20
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
