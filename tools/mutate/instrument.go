package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// To build a test for each mutant takes hours. Nine of ten mutants are of operators that compare or combine, and what they come to can
// be chosen when a program runs. So a stage is built once, with all of these mutants in it, and a variable of the environment names the
// one that is on. Other mutants are built.

// envMutant is what the built tests read.
const envMutant = "MUTATE_MUTANT"

// helpers goes into the package. Both are what the operator is, or with on its mutant: mutateThen of && gets false for off, and of ||
// true.
const helpers = `package %s

import mutateOS "os"

var mutateNow = mutateOS.Getenv("` + envMutant + `")

func mutateOn(name string) bool { return mutateNow == name }

func mutateThen(left, or bool, right func() bool) bool {
	if left != or {
		return right()
	}
	return or
}
`

// buildStages builds the stages' tests and says where they are.
func buildStages(t target, source, to string) ([]string, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	files, err := filepath.Glob(filepath.Join(source, t.Package, "*.go"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	replace := func(name string, data []byte) error {
		file := filepath.Join(to, filepath.Base(name))
		overlay.Replace[name] = file
		return os.WriteFile(file, data, 0o644)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, pkg, err := instrument(name)
		if err != nil {
			return nil, err
		}
		helper := filepath.Join(source, t.Package, "mutate_helpers.go")
		if err := replace(helper, fmt.Appendf(nil, helpers, pkg)); err != nil {
			return nil, err
		}
		if err := replace(name, data); err != nil {
			return nil, err
		}
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return nil, err
	}
	list := filepath.Join(to, "overlay.json")
	if err := os.WriteFile(list, data, 0o644); err != nil {
		return nil, err
	}
	var built []string
	for i, stage := range t.stages() {
		file := filepath.Join(to, fmt.Sprintf("stage%d.test", i))
		build := exec.Command("go", "test", "-c", "-vet=off", "-overlay="+list, "-o="+file, "./"+stage.Package)
		build.Dir = source
		if output, err := build.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the tests of %s with the mutants of %s: %w\n%s", stage.Package, t.Package, err, output)
		}
		built = append(built, file)
	}
	return built, nil
}

// edit is text that comes before what is at an offset. Of several at one offset the ends of inner expressions come first, and then the
// beginnings of outer ones.
type edit struct {
	at, length int
	text       string
}

// instrument is the file with all of its mutants that can be chosen when it runs.
func instrument(name string) (data []byte, pkg string, err error) {
	data, err = os.ReadFile(name)
	if err != nil {
		return nil, "", err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, data, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	var begins, ends []edit
	ast.Inspect(file, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			return false
		}
		b, ok := n.(*ast.BinaryExpr)
		if !ok {
			return true
		}
		on := func(to token.Token) string {
			return fmt.Sprintf("mutateOn(%q)", key(filepath.Base(name), at(b.OpPos), to))
		}
		same := func() string {
			return "((" + string(data[at(b.X.Pos()):at(b.X.End())]) + ") == (" + string(data[at(b.Y.Pos()):at(b.Y.End())]) + "))"
		}
		begin, end := "((", ""
		switch b.Op {
		case token.EQL:
			end = ") != " + on(token.NEQ) + ")"
		case token.NEQ:
			end = ") != " + on(token.EQL) + ")"
		case token.LSS:
			end = " || " + on(token.LEQ) + " && " + same() + ") != " + on(token.GEQ) + ")"
		case token.GTR:
			end = " || " + on(token.GEQ) + " && " + same() + ") != " + on(token.LEQ) + ")"
		case token.LEQ:
			end = " && !(" + on(token.LSS) + " && " + same() + ")) != " + on(token.GTR) + ")"
		case token.GEQ:
			end = " && !(" + on(token.GTR) + " && " + same() + ")) != " + on(token.LSS) + ")"
		case token.LAND:
			begin, end = "mutateThen(", ")})"
			begins = append(begins, edit{at(b.OpPos), 2, ", " + on(token.LOR) + ", func() bool { return ("})
		case token.LOR:
			begin, end = "mutateThen(", ")})"
			begins = append(begins, edit{at(b.OpPos), 2, ", !" + on(token.LAND) + ", func() bool { return ("})
		default:
			return true
		}
		begins = append(begins, edit{at(b.Pos()), 0, begin})
		ends = slices.Insert(ends, 0, edit{at(b.End()), 0, end}) // an outer one was seen first
		return true
	})
	edits := append(ends, begins...)
	slices.SortStableFunc(edits, func(a, b edit) int { return a.at - b.at })
	var out bytes.Buffer
	last := 0
	for _, e := range edits {
		out.Write(data[last:e.at])
		out.WriteString(e.text)
		last = e.at + e.length
	}
	out.Write(data[last:])
	return out.Bytes(), file.Name.Name, nil
}

func key(file string, offset int, to token.Token) string {
	return fmt.Sprintf("%s:%d:%s", file, offset, to)
}

// changed is the mutant's name: the first word that differs. Gremlins writes the mutated file with other
// spaces, so that the two files are compared word by word.
func changed(original, mutated []byte, file string) string {
	before, after := words(original), words(mutated)
	for i := range min(len(before), len(after)) {
		if before[i].token != after[i].token {
			return key(file, before[i].offset, after[i].token)
		}
	}
	return file
}

// subtracts reports whether the mutant takes a text from another, which does not compile. Gremlins makes many of them.
func subtracts(original, mutated []byte, name string) (found bool, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, original, parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	mutant := changed(original, mutated, name)
	ast.Inspect(file, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && b.Op == token.ADD && key(name, set.Position(b.OpPos).Offset, token.SUB) == mutant {
			found = isText(b)
		}
		return true
	})
	return found, nil
}

// isText is right where it says so: a text in quotes is part of the sum.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.ParenExpr:
		return isText(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isText(e.X) || isText(e.Y))
	}
	return false
}

type word struct {
	token  token.Token
	offset int
}

func words(data []byte) (list []word) {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(data))
	var s scanner.Scanner
	s.Init(file, data, nil, 0)
	for {
		pos, tok, _ := s.Scan()
		if tok == token.EOF {
			return list
		}
		list = append(list, word{tok, file.Offset(pos)})
	}
}
