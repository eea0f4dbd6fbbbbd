package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sample has an operator of each kind that is chosen at run time, within each other and over lines.
const sample = `package main

import "fmt"

const small = 1 < 2

func judge(a, b int, s string) bool {
	switch {
	case a < b && s != "x" || a > 6,
		a >= 4 &&
			b <= 2:
		return a == 5 && small
	}
	return s == "y" || b > a
}

func main() {
	for a := range 9 {
		for b := range 9 {
			for _, s := range []string{"x", "y", "z"} {
				fmt.Print(judge(a, b, s), " ")
			}
		}
	}
}
`

// TestInstrument: a program with all mutants in it prints what the program prints, and with one of them on what the mutant prints
// that gremlins would have made of the file.
func TestInstrument(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "main.go")
	write(t, name, sample)
	data, pkg, err := instrument(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.mod"), "module example.com/judge\n\ngo 1.26.0\n")
	write(t, name, string(data))
	write(t, filepath.Join(dir, "helpers.go"), fmt.Sprintf(helpers, pkg))
	program := filepath.Join(dir, "judge")
	output(t, dir, "", "go", "build", "-o", program, ".")
	plain := filepath.Join(t.TempDir(), "main.go")
	write(t, plain, sample)
	want := output(t, dir, "", "go", "run", plain)
	if got := output(t, dir, "", program); got != want {
		t.Errorf("with no mutant on: %s, want %s", got, want)
	}
	for _, m := range []struct{ from, to string }{
		{"a < b", "a <= b"}, {"a < b", "a >= b"}, {"a < b &&", "a < b ||"}, {`s != "x"`, `s == "x"`}, {`"x" ||`, `"x" &&`}, {"a > 6", "a >= 6"}, {"a > 6", "a <= 6"},
		{"a >= 4", "a > 4"}, {"a >= 4", "a < 4"}, {"a >= 4 &&", "a >= 4 ||"}, {"b <= 2", "b < 2"}, {"b <= 2", "b > 2"}, {"a == 5", "a != 5"}, {"&& small", "|| small"},
		{`s == "y"`, `s != "y"`}, {`"y" ||`, `"y" &&`}, {"b > a", "b >= a"}, {"b > a", "b <= a"},
	} {
		mutated := strings.Replace(sample, m.from, m.to, 1)
		write(t, plain, mutated)
		mutant := changed([]byte(sample), []byte(strings.ReplaceAll(mutated, " ", "  ")), "main.go")
		if !(&order{Built: []string{program}}).has(mutant) {
			t.Errorf("%s: %s is not in the program", m.to, mutant)
		}
		other := output(t, dir, "", "go", "run", plain)
		if got := output(t, dir, mutant, program); got != other || got == want {
			t.Errorf("%s, %s:\n%s, want\n%s, which is not\n%s", m.to, mutant, got, other, want)
		}
	}
}

func TestSubtracts(t *testing.T) {
	const code = "package p\n\nfunc f(a, b string, c int) (string, int) { return a + \", \" + b, c + len(\"x\"+a) }\n"
	for from, want := range map[string]bool{`a + "`: true, `" + b`: true, `"x"+a`: true, "c + len": false} {
		mutated := strings.Replace(code, from, strings.Replace(from, "+", "-", 1), 1)
		if got, err := subtracts([]byte(code), []byte(mutated), "p.go"); err != nil || got != want {
			t.Errorf("%s: %t, %v", from, got, err)
		}
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, dir, mutant string, command ...string) string {
	t.Helper()
	c := exec.Command(command[0], command[1:]...)
	c.Dir, c.Env = dir, append(os.Environ(), envMutant+"="+mutant)
	data, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command, err, data)
	}
	return string(data)
}

// TestResult: mutants are known by where they are and what they change, and every survivor has a reason, and every reason a survivor.
func TestResult(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.go"), sample)
	r, err := newResult("", dir, []byte(`{"files":[{"file_name":"main.go","mutations":[
		{"type":"CONDITIONALS_NEGATION","status":"KILLED","line":9,"column":21},
		{"type":"CONDITIONALS_BOUNDARY","status":"LIVED","line":10,"column":5},
		{"type":"CONDITIONALS_BOUNDARY","status":"LIVED","line":9,"column":9},
		{"type":"ARITHMETIC_BASE","status":"NOT VIABLE","line":9,"column":9}]}]}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	first := mutant{"main.go", "judge", "a < b: conditionals boundary"}
	second := mutant{"main.go", "judge", "a >= 4: conditionals boundary"}
	if len(r.Survivors) != 2 || r.Survivors[0] != first || r.Survivors[1] != second || r.total() != 3 {
		t.Fatalf("%+v", r)
	}
	r.Killed = 18
	for name, c := range map[string]struct {
		reasons []reason
		want    string
	}{
		"all have reasons": {[]reason{{first, "x"}, {second, "y"}}, ""},
		"one has none":     {[]reason{{first, "x"}}, "main.go, judge: a >= 4: conditionals boundary survived without a reason"},
		"one is killed":    {[]reason{{first, "x"}, {second, "y"}, {mutant{"main.go", "main", "a"}, "z"}}, "main.go, main: a did not survive; remove its reason from tools/mutate/survivors.yaml"},
	} {
		err := r.check(c.reasons)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	r.Killed = 17
	if err := r.check([]reason{{first, "x"}, {second, "y"}}); err == nil || !strings.Contains(err.Error(), "89.5 % of the mutants were killed, less than 90 %") {
		t.Errorf("too few killed: %v", err)
	}
}
