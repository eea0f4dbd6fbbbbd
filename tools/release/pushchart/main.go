// Command pushchart pushes the archive of a chart to a registry, as helm does, but with no time, so that the same archive has
// the same digest. It prints the reference by digest.
//
//	pushchart [-insecure] flex-provisioner-0.1.0.tgz registry.example/flex/charts
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/registry"
)

func main() {
	insecure := flag.Bool("insecure", false, "allow a registry without TLS")
	flag.Parse()
	reference, err := push(flag.Args(), *insecure)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pushchart:", err)
		os.Exit(1)
	}
	fmt.Println(reference)
}

func push(args []string, insecure bool) (string, error) {
	if len(args) != 2 {
		return "", errors.New("usage: pushchart [-insecure] ARCHIVE REPOSITORY")
	}
	chart, err := loader.Load(args[0])
	if err != nil {
		return "", fmt.Errorf("read chart %s: %w", args[0], err)
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return "", fmt.Errorf("read chart: %w", err)
	}
	var options []registry.ClientOption
	if insecure {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return "", fmt.Errorf("registry: %w", err)
	}
	repository := args[1] + "/" + chart.Metadata.Name
	pushed, err := client.Push(data, repository+":"+chart.Metadata.Version, registry.PushOptCreationTime("1970-01-01T00:00:00Z"))
	if err != nil {
		return "", fmt.Errorf("push chart %s to %s: %w", args[0], repository, err)
	}
	return repository + "@" + pushed.Manifest.Digest, nil
}
