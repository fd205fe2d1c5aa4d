package laws

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// vagueNames are package names that say nothing about what is inside.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc"}

// source holds the laws that need the text of a package.
func (c *checker) source(p pkg) error {
	path, _ := c.short(p.ImportPath)
	if slices.Contains(vagueNames, filepath.Base(path)) {
		c.report("name", "%s: a package is named after what it holds", path)
	}
	files := slices.Concat(p.GoFiles, p.CgoFiles)
	if p.Doc == "" && len(files) > 0 {
		c.report("comment", "%s has no package comment", path)
	}
	exported := 0
	for _, name := range files {
		n, err := c.file(path, filepath.Join(p.Dir, name))
		if err != nil {
			return err
		}
		exported += n
	}
	if exported > maxExported {
		c.report("exported", "%s exports %d names, more than %d", path, exported, maxExported)
	}
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		if err := c.testFile(path, filepath.Join(p.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// file checks one non-test file and returns how many names it exports.
func (c *checker) file(path, name string) (exported int, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		return 0, err
	}
	if ast.IsGenerated(f) {
		return 0, nil
	}
	where := path + "/" + filepath.Base(name)
	if lines := bytes.Count(text, []byte("\n")); lines > maxFileLines && !c.excepted(where) {
		c.report("length", "%s has %d lines, more than %d", where, lines, maxFileLines)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			lines := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
			if lines > maxFunctionLines && !c.excepted(path+"."+d.Name.Name) {
				c.report("length", "%s.%s has %d lines, more than %d", path, d.Name.Name, lines, maxFunctionLines)
			}
			if !d.Name.IsExported() || !receiverExported(d) {
				continue
			}
			if d.Doc == nil {
				c.report("doc", "%s.%s has no doc comment", path, d.Name.Name)
			}
			if d.Recv == nil {
				exported++
			}
		case *ast.GenDecl:
			exported += c.declarations(path, d)
		}
	}
	return exported, nil
}

func (c *checker) excepted(name string) bool {
	_, ok := c.cfg.Exceptions[name]
	if ok {
		c.used[name] = true
	}
	return ok
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if index, ok := t.(*ast.IndexExpr); ok {
		t = index.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// declarations counts the exported types, variables and constants of one
// block. Constants of a named type are one closed list, and count as their
// type does.
func (c *checker) declarations(path string, d *ast.GenDecl) (exported int) {
	typed := false
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				exported++
				if d.Doc == nil && s.Doc == nil {
					c.report("doc", "%s.%s has no doc comment", path, s.Name.Name)
				}
			}
		case *ast.ValueSpec:
			// An iota block names its type once, on the first line.
			typed = s.Type != nil || typed && len(s.Values) == 0
			for _, n := range s.Names {
				if !n.IsExported() {
					continue
				}
				if d.Doc == nil && s.Doc == nil && s.Comment == nil {
					c.report("doc", "%s.%s has no doc comment", path, n.Name)
				}
				if d.Tok == token.VAR || !typed {
					exported++
				}
			}
		}
	}
	return exported
}

// testFile forbids what makes a test prove nothing: a sleep hopes, a skip
// hides.
func (c *checker) testFile(path, name string) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, _ := sel.X.(*ast.Ident)
		at := fset.Position(call.Pos())
		switch {
		case id != nil && id.Name == "time" && sel.Sel.Name == "Sleep" && !inBubble(f):
			c.report("sleep", "%s/%s:%d sleeps: wait for the thing itself", path, filepath.Base(name), at.Line)
		case slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) && id != nil && (strings.HasPrefix(id.Name, "t") || id.Name == "b"):
			c.report("skip", "%s/%s:%d skips: a skipped test proves nothing", path, filepath.Base(name), at.Line)
		}
		return true
	})
	return nil
}

// inBubble reports whether a file uses testing/synctest, where a sleep takes
// no time and is exact.
func inBubble(f *ast.File) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
}
