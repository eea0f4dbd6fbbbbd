package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// trace is what happened, formatted only when somebody wants to read it.
type trace struct {
	start time.Time
	mu    sync.Mutex
	lines []line
}

type line struct {
	at     time.Duration
	actor  string
	format string
	args   []any
}

func (t *trace) add(actor, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{time.Since(t.start), actor, format, args})
}

// String is one line for each step: when, who, what.
func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out strings.Builder
	for _, l := range t.lines {
		fmt.Fprintf(&out, "%12.6f %-16s %s\n", l.at.Seconds(), l.actor, fmt.Sprintf(l.format, l.args...))
	}
	return out.String()
}
