//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// programs is the folder of the programs of cmd/, which are built before the first test.
var programs string

// flex runs kubectl flex as the user of a kubeconfig, and returns what it printed and its exit code.
func (s *scope) flex(kubeconfig string, args ...string) (printed string, code int) {
	s.Helper()
	return s.typed("", kubeconfig, args...)
}

// typed runs kubectl flex for a user who types the input.
func (s *scope) typed(input, kubeconfig string, args ...string) (printed string, code int) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 7*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, programs+"/kubectl-flex", append([]string{"--kubeconfig", kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// says waits until a command prints all of the texts in the test's namespace, and ends with the code.
func (s *scope) says(kubeconfig string, code int, texts []string, args ...string) (printed string) {
	s.Helper()
	s.wait(soon, "kubectl flex "+strings.Join(args, " "), func() string {
		ended := 0
		printed, ended = s.flex(kubeconfig, append(args, "-n", s.name)...)
		return unsaid(printed, ended, code, texts)
	})
	return printed
}

// unsaid says what an answer lacks.
func unsaid(printed string, ended, code int, texts []string) string {
	if ended != code {
		return fmt.Sprintf("exit code %d, want %d: %s", ended, code, printed)
	}
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			return "no " + text + ": " + printed
		}
	}
	return ""
}

// audit returns what the audit printed about the names, and its exit code, which is 4 if something was found.
func (s *scope) audit(names ...string) (lines string, code int) {
	s.Helper()
	printed, code := s.flex(kubeconfig(), "audit")
	s.Logf("audit: exit code %d\n%s", code, printed)
	all := strings.Split(printed, "\n")
	for i := 0; i+1 < len(all); i++ {
		for _, name := range names {
			if strings.Contains(all[i], name) && !strings.HasPrefix(all[i], " ") {
				lines += all[i] + "\n" + all[i+1] + "\n"
			}
		}
	}
	if nothing := strings.HasSuffix(printed, "nothing found\n"); nothing != (code == 0) || code == 1 {
		s.Errorf("exit code %d with the output\n%s", code, printed)
	}
	return lines, code
}
