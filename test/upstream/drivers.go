package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Driver is what drivers/ says of a class.
type Driver struct {
	name string
	// can has the capabilities of the class and the file systems that its volumes may be asked to have.
	can map[string]bool
}

// ReadDrivers reads the files of the classes, each CLASS.yaml. Other files there are variants of these, for some of the tests.
func ReadDrivers(folder string) ([]Driver, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []Driver
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read driver: %w", err)
		}
		var driver struct {
			DriverInfo struct {
				Name            string
				SupportedFsType map[string]struct{}
				Capabilities    map[string]bool
			}
		}
		if err := yaml.Unmarshal(text, &driver); err != nil {
			return nil, fmt.Errorf("read driver of %s: %w", file, err)
		}
		info := driver.DriverInfo
		if info.Name != strings.TrimSuffix(filepath.Base(file), ".yaml") {
			continue
		}
		can := map[string]bool{}
		maps.Copy(can, info.Capabilities)
		for what := range info.SupportedFsType {
			can[what] = true
		}
		all = append(all, Driver{info.Name, can})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no classes", folder)
	}
	return all, nil
}
