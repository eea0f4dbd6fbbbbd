package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// processorProfile is of 15 seconds, in which a burst of 1,000 claims is at work all the time.
const processorProfile = "/debug/pprof/profile?seconds=15"

// profile takes the processor time of the API server and of the dispatcher from now on, and the dispatcher's memory when the
// returned function is called.
func (s *stage) profile(ctx context.Context, what string) func() {
	if s.profiles == "" {
		return func() {}
	}
	file := func(name string) string { return filepath.Join(s.profiles, name+"-"+what) }
	var taken sync.WaitGroup
	taken.Go(func() {
		text, err := s.plane.admin.Discovery().RESTClient().Get().RequestURI(processorProfile).DoRaw(ctx)
		save(file("apiserver"), text, err)
	})
	if s.ours == nil {
		return taken.Wait
	}
	taken.Go(func() { s.ours.keep(ctx, file("cpu"), processorProfile) })
	return func() {
		taken.Wait()
		s.ours.keep(ctx, file("heap"), "/debug/pprof/heap")
		s.ours.keep(ctx, file("allocs"), "/debug/pprof/allocs")
	}
}

// keep writes one of the dispatcher's profiles to file.pb.gz.
func (d *process) keep(ctx context.Context, file, path string) {
	text, err := d.get(ctx, path)
	save(file, []byte(text), err)
}

func save(file string, profile []byte, err error) {
	if err == nil {
		err = os.WriteFile(file+".pb.gz", profile, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: profile:", err)
	}
}
