package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCompletion: a bash that has sourced the script offers what the program says, for what was typed at a place of the line.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t)
	script, code := w.run("", "completion", "bash")
	if code != 0 {
		t.Fatal(script)
	}
	// A program in its place notes what it is asked, and answers.
	const program = `#!/bin/sh
printf '<%s>' "$@" > "$0.asked"
case "$*" in
*-o*|*--output*) printf 'table\nwide\nyaml\tas a document\njson\n:4\n' ;;
*broken*) printf 'nothing\n:1\n' ;;
*) printf 'data\nstatus\tShow claims\nstop-deletes\tKeep all\n:4\n' ;;
esac
echo 'Completion ended with directive' >&2
`
	if err := os.WriteFile(filepath.Join(dir, "kubectl-flex"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, words, asked, offered, options string }{
		{"kubectl-flex st", "kubectl-flex st", "<__complete><st>", "status stop-deletes", "+o default"},
		{"kubectl-flex why ", "kubectl-flex why ''", "<__complete><why><>", "data status stop-deletes", "+o default"},
		{"kubectl-flex status --output=y", "kubectl-flex status --output = y", "<__complete><status><--output=y>", "yaml", "+o default"},
		{"kubectl-flex status --output=", "kubectl-flex status --output =", "<__complete><status><--output=>", "table wide yaml json", "+o default"},
		{"kubectl-flex broken ", "kubectl-flex broken ''", "<__complete><broken><>", "", ""},
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "-euc", script+`
compopt() { options="$*"; } # bash has it only where a key was pressed
options=
COMP_LINE='`+c.line+`' COMP_POINT=${#COMP_LINE} COMP_WORDS=(`+c.words+`) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
_kubectl_flex || true
echo "${COMPREPLY[*]}|$options"
complete -p kubectl-flex`)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		asked, _ := os.ReadFile(filepath.Join(dir, "kubectl-flex.asked"))
		want := c.offered + "|" + c.options + "\ncomplete -o default -F _kubectl_flex kubectl-flex\n"
		if err != nil || string(out) != want || string(asked) != c.asked {
			t.Errorf("%q: %v, asked %s, offers\n%swant %s and\n%s", c.line, err, asked, out, c.asked, want)
		}
	}
	for shell, want := range map[string]string{"zsh": "#compdef kubectl-flex", "fish": "complete -c kubectl-flex"} {
		if got, code := w.run("", "completion", shell); code != 0 || !strings.Contains(got, want) {
			t.Errorf("completion %s: exit code %d:\n%.200s", shell, code, got)
		}
	}
	if got, code := w.run("", "completion", "csh"); code != exitUsage {
		t.Errorf("completion csh: exit code %d:\n%s", code, got)
	}
}
