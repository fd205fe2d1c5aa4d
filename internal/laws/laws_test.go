package laws

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// broken is a module that breaks one law.
type broken struct {
	law   string
	want  string // part of the violation's text
	files map[string]string
	cfg   Config
}

func lines(n int) string { return strings.Repeat("\n", n) }

func exports(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "// F%d does.\nfunc F%d() {}\n", i, i)
	}
	return b.String()
}

var all = Config{Rooms: []Room{{Path: "a/...", Imports: []string{"a/..."}}}}

var brokenModules = []broken{
	{"room", "a imports b: a stands below", map[string]string{
		"a/a.go": "// Package a.\npackage a\nimport _ \"m/b\"\n", "b/b.go": "// Package b.\npackage b\n",
	}, Config{Rooms: []Room{{Path: "a", Reason: "a stands below"}, {Path: "b"}}}},
	{"room", "b is not on the map", map[string]string{
		"a/a.go": "// Package a.\npackage a\n", "b/b.go": "// Package b.\npackage b\n",
	}, Config{Rooms: []Room{{Path: "a"}}}},
	{"link", "a links encoding/json: only b speaks JSON", map[string]string{
		"a/a.go": "// Package a.\npackage a\nimport _ \"encoding/json\"\n",
	}, Config{Rooms: []Room{{Path: "a"}}, Links: []Link{{Module: "encoding/json", Rooms: []string{"b"}, Reason: "only b speaks JSON"}}}},
	{"depth", "6 edges", map[string]string{
		"a/a.go": "// Package a.\npackage a\nimport _ \"m/a/b\"\n", "a/b/b.go": "// Package b.\npackage b\nimport _ \"m/a/c\"\n",
		"a/c/c.go": "// Package c.\npackage c\nimport _ \"m/a/d\"\n", "a/d/d.go": "// Package d.\npackage d\nimport _ \"m/a/e\"\n",
		"a/e/e.go": "// Package e.\npackage e\nimport _ \"m/a/f\"\n", "a/f/f.go": "// Package f.\npackage f\nimport _ \"m/a/g\"\n",
		"a/g/g.go": "// Package g.\npackage g\n",
	}, all},
	{"exported", "exports 41 names", map[string]string{"a/a.go": "// Package a.\npackage a\n" + exports(41)}, all},
	{"comment", "a has no package comment", map[string]string{"a/a.go": "package a\n"}, all},
	{"doc", "a.F has no doc comment", map[string]string{"a/a.go": "// Package a.\npackage a\nfunc F() {}\n"}, all},
	{"doc", "a.T has no doc comment", map[string]string{"a/a.go": "// Package a.\npackage a\ntype T int\n"}, all},
	{"length", "a.f has 82 lines", map[string]string{"a/a.go": "// Package a.\npackage a\nfunc f() {" + lines(81) + "}\n"}, all},
	{"length", "a/a.go has 602 lines", map[string]string{"a/a.go": "// Package a.\npackage a\n" + lines(600)}, all},
	{"sleep", "a/a_test.go:3 sleeps", map[string]string{
		"a/a.go": "// Package a.\npackage a\n", "a/a_test.go": "package a\nimport \"time\"\nfunc f() { time.Sleep(1) }\n",
	}, all},
	{"skip", "a/a_test.go:3 skips", map[string]string{
		"a/a.go": "// Package a.\npackage a\n", "a/a_test.go": "package a\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Skip() }\n",
	}, all},
	{"name", "a/util", map[string]string{"a/util/u.go": "// Package util.\npackage util\n"}, all},
	{"stale", "the map lists gone", map[string]string{"a/a.go": "// Package a.\npackage a\n"},
		Config{Rooms: []Room{{Path: "a"}, {Path: "gone"}}}},
	{"stale", "the exception for a.f is not needed", map[string]string{"a/a.go": "// Package a.\npackage a\n"},
		Config{Rooms: []Room{{Path: "a"}}, Exceptions: map[string]string{"a.f": "long"}}},
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestEachLawIsHeld(t *testing.T) {
	for _, b := range brokenModules {
		t.Run(b.law+" "+b.want, func(t *testing.T) {
			found, err := Check(write(t, b.files), b.cfg)
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || found[0].Law != b.law || !strings.Contains(found[0].Text, b.want) {
				t.Errorf("got %v, want one violation of %q with %q", found, b.law, b.want)
			}
		})
	}
}

func TestALawfulModulePasses(t *testing.T) {
	dir := write(t, map[string]string{
		"a/a.go":      "// Package a.\npackage a\n\n// C lists.\nconst C = 1\n\n// f is long, and excused.\nfunc f() {" + lines(90) + "}\n",
		"a/a_test.go": "package a\nimport (\"testing\"; \"testing/synctest\"; \"time\")\nfunc TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }\n",
	})
	found, err := Check(dir, Config{Rooms: []Room{{Path: "a"}}, Exceptions: map[string]string{"a.f": "a table"}})
	if err != nil || len(found) > 0 {
		t.Errorf("got %v, %v, want nothing", found, err)
	}
}

func TestAnImportCycleIsAnError(t *testing.T) {
	dir := write(t, map[string]string{
		"a/a.go": "// Package a.\npackage a\nimport _ \"m/b\"\n", "b/b.go": "// Package b.\npackage b\nimport _ \"m/a\"\n",
	})
	if _, err := Check(dir, all); err == nil || !strings.Contains(err.Error(), "import cycle") {
		t.Errorf("got %v, want the import cycle named", err)
	}
}
