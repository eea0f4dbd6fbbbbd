package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// findFlexctl is the path of the program flexctl: the flag's, or else the one beside this program, or else the one on the PATH.
func findFlexctl(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find flexctl: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", fmt.Errorf("find flexctl: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), "flexctl")
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	found, err := exec.LookPath("flexctl")
	if err != nil {
		return "", errors.New("find flexctl: it is neither beside this program nor on the PATH; make build puts it into bin")
	}
	return filepath.Abs(found)
}
