// Package laws holds the architecture: which room may import which, who may
// link what, how long a function may be. It reads a module with go list and
// go/parser and reports every break with the law's reason, because the message
// of a failing test is where people meet the architecture.
package laws

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Limits on size. At 80 lines a function is still one thought; the code bases
// we learn from would fail 1 to 3 % of theirs.
const (
	maxFunctionLines = 80
	maxFileLines     = 600
	maxExported      = 40
	maxDepth         = 5
)

// Room is one entry of the map: what a package may import of the module, and
// why. A Path or an import that ends in "/..." stands for everything below.
type Room struct {
	Path    string
	Imports []string
	Reason  string
}

// Link names the rooms that may link an outside module.
type Link struct {
	Module string
	Rooms  []string
	Reason string
}

// Config describes a module's laws. Every room may import Everywhere.
type Config struct {
	Rooms      []Room
	Links      []Link
	Everywhere []string
	// Exceptions to the length limits: "path.Function" or "path/file.go" to the
	// reason. The list only shrinks: an entry that is not needed is a violation.
	Exceptions map[string]string
}

// Violation is one break of one law.
type Violation struct {
	Law  string // "room", "link", "depth", "exported", "comment", "doc", "length", "sleep", "skip", "name", "stale"
	Text string
}

// String implements fmt.Stringer.
func (v Violation) String() string { return v.Law + ": " + v.Text }

// pkg is the part of go list's answer that the laws read.
type pkg struct {
	Dir          string
	ImportPath   string
	Doc          string
	GoFiles      []string
	CgoFiles     []string
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	Module       struct{ Path string }
}

// Check reads the module at dir and returns what breaks its laws, sorted. It
// errs when the module does not load (an import cycle, for one).
func Check(dir string, cfg Config) ([]Violation, error) {
	pkgs, err := list(dir)
	if err != nil {
		return nil, err
	}
	if len(pkgs) == 0 {
		return nil, errors.New("the module has no packages")
	}
	c := checker{cfg: cfg, module: pkgs[0].Module.Path, pkgs: pkgs, used: map[string]bool{}}
	c.rooms()
	c.links()
	c.depth()
	for _, p := range pkgs {
		if err := c.source(p); err != nil {
			return nil, err
		}
	}
	c.stale()
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Law, b.Law), cmp.Compare(a.Text, b.Text))
	})
	return c.found, nil
}

func list(dir string) ([]pkg, error) {
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,Doc,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles,Imports,Module", "./...")
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w\n%s", err, stderr.Bytes())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading go list: %w", err)
		}
		if !strings.Contains(filepath.ToSlash(p.Dir), "/node_modules/") {
			pkgs = append(pkgs, p)
		}
	}
}

type checker struct {
	cfg    Config
	module string
	pkgs   []pkg
	found  []Violation
	used   map[string]bool // exceptions that were needed
}

func (c *checker) report(law, format string, args ...any) {
	c.found = append(c.found, Violation{law, fmt.Sprintf(format, args...)})
}

// short cuts the module's name off an import path; ok is false for a path of
// another module.
func (c *checker) short(path string) (short string, ok bool) {
	if path == c.module {
		return ".", true
	}
	return strings.CutPrefix(path, c.module+"/")
}

// matches reports whether path is what pattern names.
func matches(pattern, path string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == base || strings.HasPrefix(path, base+"/")
	}
	return pattern == path
}

// room finds the entry of a package: an exact one before a wider one.
func (c *checker) room(path string) (Room, bool) {
	best, found := Room{}, false
	for _, r := range c.cfg.Rooms {
		if matches(r.Path, path) && (!found || len(r.Path) > len(best.Path) || r.Path == path) {
			best, found = r, true
			if r.Path == path {
				break
			}
		}
	}
	return best, found
}

func (c *checker) rooms() {
	for _, p := range c.pkgs {
		path, _ := c.short(p.ImportPath)
		room, ok := c.room(path)
		if !ok {
			c.report("room", "%s is not on the map: add it with the reason of its arrows", path)
			continue
		}
		allowed := slices.Concat(room.Imports, c.cfg.Everywhere)
		for _, imp := range p.Imports {
			to, ours := c.short(imp)
			if !ours {
				continue
			}
			own := matches(room.Path, to) && strings.HasSuffix(room.Path, "/...")
			if !own && !slices.ContainsFunc(allowed, func(a string) bool { return matches(a, to) }) {
				c.report("room", "%s imports %s: %s", path, to, room.Reason)
			}
		}
	}
}

func (c *checker) links() {
	for _, p := range c.pkgs {
		path, _ := c.short(p.ImportPath)
		for _, imp := range p.Imports {
			for _, l := range c.cfg.Links {
				if imp != l.Module && !strings.HasPrefix(imp, l.Module+"/") {
					continue
				}
				if !slices.ContainsFunc(l.Rooms, func(r string) bool { return matches(r, path) }) {
					c.report("link", "%s links %s: %s", path, l.Module, l.Reason)
				}
			}
		}
	}
}

// depth holds the longest chain of imports between rooms, cmd and internal
// left out.
func (c *checker) depth() {
	imports := map[string][]string{}
	for _, p := range c.pkgs {
		path, _ := c.short(p.ImportPath)
		if counts(path) {
			for _, imp := range p.Imports {
				if to, ours := c.short(imp); ours && counts(to) {
					imports[path] = append(imports[path], to)
				}
			}
		}
	}
	memo := map[string][]string{}
	var longest func(string) []string
	longest = func(path string) []string {
		if chain, ok := memo[path]; ok {
			return chain
		}
		var best []string
		for _, to := range imports[path] {
			if chain := longest(to); len(chain) > len(best) {
				best = chain
			}
		}
		memo[path] = append([]string{path}, best...)
		return memo[path]
	}
	for path := range imports {
		if chain := longest(path); len(chain)-1 > maxDepth {
			c.report("depth", "%d edges, more than %d: %s", len(chain)-1, maxDepth, strings.Join(chain, " > "))
		}
	}
}

func counts(path string) bool {
	return path != "cmd" && !strings.HasPrefix(path, "cmd/") && !strings.HasPrefix(path, "internal/")
}

// stale reports entries of the lists that name nothing any more.
func (c *checker) stale() {
	for _, r := range c.cfg.Rooms {
		if !slices.ContainsFunc(c.pkgs, func(p pkg) bool {
			path, _ := c.short(p.ImportPath)
			return matches(r.Path, path)
		}) {
			c.report("stale", "the map lists %s, which does not exist", r.Path)
		}
	}
	for name := range c.cfg.Exceptions {
		if !c.used[name] {
			c.report("stale", "the exception for %s is not needed any more: delete it", name)
		}
	}
}
