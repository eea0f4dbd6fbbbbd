// Command bench measures the dispatcher. Bursts, isolation, memory and deletion run on a control plane that it starts
// itself, with a player in the place of nodes, and beside a bare program in the same run; real pods run on the cluster of
// test/cluster. It prints a table, writes JSON, and with -check fails where a ratio or a count falls short of its goal.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

type settings struct {
	cases      string
	kubeconfig string
	runs       int
	sizes      string
	n          int
	check      bool
	json       string
	pleg       string
	inside     bool
}

func main() {
	var s settings
	flag.StringVar(&s.cases, "cases", "burst,isolation,memory,odd,pods", "which `cases` to run, separated by commas: "+strings.Join(caseNames(), ", "))
	flag.StringVar(&s.kubeconfig, "kubeconfig", ".cluster/kubeconfig", "`file` that says how to reach the cluster with the real kubelet")
	flag.IntVar(&s.runs, "runs", 3, "how often each burst is run; those of 10,000 claims once")
	flag.StringVar(&s.sizes, "sizes", "500,1000,10000", "`claims` of the bursts")
	flag.DurationVar(&raised.Sync, "sync", 0, "how often the controller-manager looks at all claims and volumes again, as its --pvclaimbinder-sync-period, which is 15s by default")
	flag.BoolVar(&withSnapshots, "snapshots", false, "serve snapshots on the control planes, and run the snapshot-controller: claims cost the same")
	flag.StringVar(&s.pleg, "pleg", "default", "`how` the kubelet of the cluster learns that containers end: default or evented")
	flag.BoolVar(&s.inside, "inside", false, "run in the node's namespaces already")
	flag.IntVar(&s.n, "n", 12, "claims, and bare pods, one at a time on the real kubelet")
	flag.BoolVar(&s.check, "check", false, "fail where a ratio or a count falls short of its goal")
	flag.StringVar(&s.json, "json", "bin/bench.json", "`file` that gets the figures")
	table := flag.String("table", "", "print the figures of a `file` that -json wrote as tables, and end")
	list := flag.Bool("list", false, "print the cases that would be run, and end")
	flag.Parse()
	if s.check {
		within30Minutes()
	}
	if *list {
		fmt.Println(s.cases)
		return
	}
	if *table != "" {
		if err := printTable(os.Stdout, *table); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	klog.SetOutput(os.Stderr)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// within30Minutes leaves out of a check, unless it is asked for, the burst of 10,000 claims, which alone takes 15 minutes on
// a slow machine, and half of the pods.
func within30Minutes() {
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"n": "6", "sizes": "500,1000"} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err) // the flags are those above
			}
		}
	}
}

// benchCase is one of the cases of the report.
type benchCase struct {
	name string
	run  func(ctx context.Context, s settings, r *report) error
}

var cases = []benchCase{
	{"burst", runBursts},
	{"isolation", runIsolation},
	{"memory", runMemory},
	{"odd", runOdd},
	{"pods", podsInside},
}

func caseNames() (names []string) {
	for _, c := range cases {
		names = append(names, c.name)
	}
	return names
}

func run(ctx context.Context, s settings) error {
	wanted := strings.Split(s.cases, ",")
	for _, w := range wanted {
		if !slices.Contains(caseNames(), w) {
			return fmt.Errorf("-cases=%s: no case %q: one of %s", s.cases, w, strings.Join(caseNames(), ", "))
		}
	}
	began := time.Now()
	r := &report{Date: began.UTC().Format(time.DateOnly), Commit: commit(ctx)}
	for _, c := range cases {
		if !slices.Contains(wanted, c.name) {
			continue
		}
		done := len(r.Figures)
		err := c.run(ctx, s, r)
		printFigures(os.Stdout, r.Figures[done:])
		if err != nil {
			return fmt.Errorf("case %s: %w", c.name, err)
		}
	}
	r.Machine, r.Took = machine(), time.Since(began).Round(time.Second).String()
	fmt.Printf("\n%s; took %s\n", r.Machine, r.Took)
	if err := r.write(s.json); err != nil {
		return err
	}
	if missed := r.missed(); s.check && len(missed) > 0 {
		return fmt.Errorf("short of the goals:\n  %s", strings.Join(missed, "\n  "))
	}
	return nil
}
