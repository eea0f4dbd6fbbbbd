//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
)

// commands are the indented blocks below a heading of a page, without their indentation.
func (s *scope) commands(page, heading string) []string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(repository, page))
	s.ok(err)
	_, below, found := strings.Cut(string(text), "\n"+heading+"\n")
	if !found {
		s.Fatalf("%s has no heading %q", page, heading)
	}
	below, _, _ = strings.Cut(below, "\n## ")
	var blocks []string
	for paragraph := range strings.SplitSeq(below, "\n\n") {
		paragraph = strings.TrimRight(paragraph, "\n")
		if bare := strings.TrimLeft(paragraph, " \n"); len(paragraph)-len(bare) >= 4 {
			indent := paragraph[:strings.Index(paragraph, bare)]
			blocks = append(blocks, strings.ReplaceAll(bare, "\n"+strings.TrimLeft(indent, "\n"), "\n"))
		}
	}
	return blocks
}

// follow runs commands of a page on the node, as the admin, with some of their words replaced, and returns what they printed.
func (s *scope) follow(block string, replace ...string) string {
	s.Helper()
	root, err := filepath.Abs(repository)
	s.ok(err)
	script := "set -eux -o pipefail; export KUBECONFIG=" + root + "/.cluster/pki/admin.kubeconfig PATH=" + root + "/.cluster/bin:$PATH\n"
	out, err := command(s.Context(), "test/cluster/enter.sh", "bash", "-c", script+strings.NewReplacer(replace...).Replace(block))
	s.ok(err)
	return out
}
