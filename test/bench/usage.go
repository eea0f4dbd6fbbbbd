package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	usedByBench      = "bench"
	usedByDispatcher = "dispatcher"
)

// usage is the processor time, in milliseconds, of each process by its name: those of the control plane, the bench itself,
// which plays the nodes, watches, and is the bare program, and the dispatcher where there is one.
func (s *stage) usage() (tally, error) {
	pids := s.plane.server.Processes()
	pids[usedByBench] = os.Getpid()
	if s.ours != nil {
		pids[usedByDispatcher] = s.ours.cmd.Process.Pid
	}
	used := tally{}
	for name, pid := range pids {
		of, err := processorTime(pid)
		if err != nil {
			return nil, err
		}
		used[name] = float64(of.Milliseconds())
	}
	return used, nil
}

// all is the sum.
func (t tally) all() (sum float64) {
	for _, count := range t {
		sum += count
	}
	return sum
}

// processorTime is what a process has used.
func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	return ticks(fields[11:13]) // in user mode and in the kernel
}

// ticks is the sum of what the kernel counts in hundredths of a second.
func ticks(fields []string) (sum time.Duration, err error) {
	for _, field := range fields {
		count, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("read processor time: %w", err)
		}
		sum += time.Duration(count) * 10 * time.Millisecond
	}
	return sum, nil
}
