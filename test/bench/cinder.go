package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// runCinder measures cinder-iscsi against the Cinder of "make cinder-up", beside a bare program with the same calls: case 8.
// Both are in the image's own test, which knows how to run the program without a pod.
func runCinder(ctx context.Context, _ settings, r *report) error {
	file := filepath.Join(apiserver.Repo(), "bin", "bench-cinder.json")
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-tags", "cinder", "-run", "^TestRate$", "./images/cinder-iscsi")
	cmd.Dir, cmd.Env = apiserver.Repo(), append(os.Environ(), "RATE_JSON="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -tags cinder -run TestRate ./images/cinder-iscsi: %w: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	var figures struct{ Ours, Bare, InCalls float64 }
	if err := json.Unmarshal(text, &figures); err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	const c = "8 Cinder: volumes made, four at a time"
	r.add(figure{Case: c, What: "bare program with the same calls", Unit: "1/s"}, figures.Bare)
	r.add(figure{Case: c, What: "cinder-iscsi", Unit: "1/s"}, figures.Ours)
	r.add(figure{Case: c, What: "cinder-iscsi : bare program", Unit: "ratio", AtLeast: 0.9}, figures.Ours/figures.Bare)
	r.add(figure{Case: c, What: "share of the program's time in calls to Cinder", Unit: "ratio", Note: "the rest is nearly all waiting between two looks at a volume that Cinder is making"}, figures.InCalls)
	return nil
}
