// Command licences checks the licence of every module that the packages are built from, theirs included:
//
//	licences DIRECTORY PACKAGE...
//
// It prints one line for each module, and fails where a licence is not among those that let the project be given on under
// its own, or is none that it knows.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: licences DIRECTORY PACKAGE...")
	}
	modules, err := modulesOf(args[0], args[1:])
	if err != nil {
		return err
	}
	var errs []error
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		licence, err := licenceIn(modules[module])
		if err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", module, err))
			continue
		}
		fmt.Printf("%-12s %s\n", licence, module)
	}
	return errors.Join(errs...)
}

// modulesOf are the modules that the packages are linked from, with their folders.
func modulesOf(dir string, packages []string) (map[string]string, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}"}, packages...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list packages in %s: %w", dir, err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) == 3 {
			modules[strings.TrimSpace(fields[0]+" "+fields[1])] = fields[2]
		}
	}
	if len(modules) == 0 {
		return nil, fmt.Errorf("no modules in %s: name packages", dir)
	}
	return modules, nil
}

// licenceIn reads the licences in a module's folder, of which there can be several.
func licenceIn(dir string) (string, error) {
	var found []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		name := strings.ToUpper(entry.Name())
		if entry.IsDir() || !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "LICENCE") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		licence := identify(string(text))
		if licence == "" {
			return "", fmt.Errorf("%s is none of the licences that are allowed: read it, and extend tools/licences or do without the module", filepath.Join(dir, entry.Name()))
		}
		if !slices.Contains(found, licence) {
			found = append(found, licence)
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("there is no licence in %s", dir)
	}
	return strings.Join(found, "+"), nil
}

// allowed are licences by phrases that only they have, all of which must be there. The first that fits counts: Mozilla's
// names GNU's, and after it copyleft comes before what such a text may quote.
var allowed = []struct {
	name    string
	phrases []string
}{
	{"MPL-2.0", []string{"mozilla public license", "version 2.0", "contributor version"}},
	{"", []string{"gnu general public license"}},
	{"", []string{"gnu lesser general public license"}},
	{"", []string{"gnu affero"}},
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"BSD", []string{"redistribution and use in source and binary forms", "redistributions of source code must retain", "this software is provided by"}},
	{"MIT", []string{"permission is hereby granted, free of charge", "the software is provided \"as is\""}},
	{"ISC", []string{"permission to use, copy, modify, and", "distribute this software for any purpose with or without fee is hereby granted"}},
}

// identify is empty for what is not allowed.
func identify(text string) string {
	text = strings.Join(strings.Fields(strings.ToLower(strings.NewReplacer("“", `"`, "”", `"`, "''", `"`, "``", `"`).Replace(text))), " ")
	for _, licence := range allowed {
		if !slices.ContainsFunc(licence.phrases, func(phrase string) bool { return !strings.Contains(text, phrase) }) {
			return licence.name
		}
	}
	return ""
}
