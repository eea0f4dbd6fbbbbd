package main

import (
	"context"
	"fmt"
	"os"
	"sync"
)

// workers do what comes into their queue, so much at a time.
type workers struct {
	queue chan func(context.Context) error
	done  sync.WaitGroup
}

// startWorkers says who they are in what they print of errors.
func startWorkers(ctx context.Context, who string, n int) *workers {
	w := &workers{queue: make(chan func(context.Context) error, 1<<17)}
	for range n {
		w.done.Go(func() {
			for do := range w.queue {
				if err := do(ctx); err != nil && ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "bench: %s: %v\n", who, err)
				}
			}
		})
	}
	return w
}

// end is called when the observer has ended, which fills the queue.
func (w *workers) end() {
	close(w.queue)
	w.done.Wait()
}
