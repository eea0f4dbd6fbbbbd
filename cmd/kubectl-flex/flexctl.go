package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// findFlexctl is the path of the program flexctl: the flag's, or else the one beside this program, or else the one on the PATH. It is empty
// where there is none.
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
		return "", nil // images need none
	}
	return filepath.Abs(found)
}
