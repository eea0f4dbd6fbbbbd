//go:build e2e

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests mostly wait, and Go would run no more of them at a time than there are cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(runAll(context.Background(), m))
}

func runAll(ctx context.Context, m *testing.M) int {
	takeDown, err := setUp(ctx)
	if takeDown != nil {
		defer takeDown()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	code := m.Run()
	if crashes := crashed(); crashes != "" {
		fmt.Fprintln(os.Stderr, "e2e: the dispatcher crashed: "+crashes)
		return 1
	}
	if err := secretsStaySecret(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	return code
}
