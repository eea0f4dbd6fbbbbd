package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one change of the code. It is known by where it is in the code and by what it changes, and not by its line, so that what
// is written above it does not make another mutant of it.
type mutant struct {
	File string `json:"file"`
	// Func is the function, with its receiver's type, or the names of a declaration outside of functions.
	Func string `json:"func"`
	// Change is the expression or statement with the operator that is changed, and the kind of change.
	Change string `json:"change"`
}

func (m mutant) String() string { return fmt.Sprintf("%s, %s: %s", m.File, m.Func, m.Change) }

// result is what came of a package's mutants.
type result struct {
	Package       string
	Killed, Later int
	Survivors     []mutant
	lines         []int
}

func (r *result) total() int { return r.Killed + len(r.Survivors) }

func (r *result) score() float64 {
	if r.total() == 0 {
		return 0
	}
	return float64(r.Killed) / float64(r.total())
}

// mutatedFile and mutation are of gremlins' result.
type mutatedFile struct {
	Name      string     `json:"file_name"`
	Mutations []mutation `json:"mutations"`
}

type mutation struct {
	Type, Status string
	Line, Column int
}

// newResult reads gremlins' result. Mutants that do not compile do not count.
func newResult(pkg, source string, data []byte, later int) (*result, error) {
	var found struct{ Files []mutatedFile }
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("read gremlins' result: %w", err)
	}
	r := &result{Package: pkg, Later: later}
	slices.SortFunc(found.Files, func(a, b mutatedFile) int { return cmp.Compare(a.Name, b.Name) })
	for _, file := range found.Files {
		code, err := parse(filepath.Join(source, pkg, file.Name))
		if err != nil {
			return nil, err
		}
		slices.SortFunc(file.Mutations, func(a, b mutation) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Type, b.Type))
		})
		same := map[mutant]int{}
		for _, m := range file.Mutations {
			function, text := code.at(m.Line, m.Column)
			this := mutant{File: file.Name, Func: function, Change: text + ": " + strings.ToLower(strings.ReplaceAll(m.Type, "_", " "))}
			if same[this]++; same[this] > 1 {
				this.Change += fmt.Sprintf(" (%d)", same[this])
			}
			switch m.Status {
			case "KILLED":
				r.Killed++
			case "LIVED":
				r.Survivors, r.lines = append(r.Survivors, this), append(r.lines, m.Line)
			case "NOT VIABLE":
			default:
				return nil, fmt.Errorf("%s has status %q, which nothing here expects", this, m.Status)
			}
		}
	}
	return r, nil
}

type source struct {
	set  *token.FileSet
	file *ast.File
}

func parse(name string) (*source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, nil, 0)
	if err != nil {
		return nil, err
	}
	return &source{set, file}, nil
}

// at is the function and the text of what has its operator there.
func (s *source) at(line, column int) (function, text string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		if n == nil {
			return false
		}
		if p := s.set.Position(operator(n)); p.Line == line && p.Column == column && text == "" {
			text = s.text(n)
		}
		return true
	})
	for _, d := range s.file.Decls {
		if from, to := s.set.Position(d.Pos()).Line, s.set.Position(d.End()).Line; from <= line && line <= to {
			function = s.nameOf(d)
		}
	}
	return function, text
}

func operator(n ast.Node) token.Pos {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.OpPos
	case *ast.UnaryExpr:
		return n.OpPos
	case *ast.AssignStmt:
		return n.TokPos
	case *ast.IncDecStmt:
		return n.TokPos
	case *ast.BranchStmt:
		return n.TokPos
	}
	return token.NoPos
}

var space = regexp.MustCompile(`\s+`)

func (s *source) text(n ast.Node) string {
	var b bytes.Buffer
	_ = printer.Fprint(&b, s.set, n)
	return space.ReplaceAllString(b.String(), " ")
}

func (s *source) nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		return strings.TrimLeft(s.text(d.Recv.List[0].Type), "*") + "." + d.Name.Name
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range value.Names {
					names = append(names, name.Name)
				}
			}
		}
		return strings.Join(names, ", ")
	}
	return ""
}
