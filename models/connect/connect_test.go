package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
)

// engine is an engine that only lists.
type engine struct {
	target Target
	names  []string
	err    error
}

func (engine) Stream(context.Context, models.Request) iter.Seq2[models.Delta, error] {
	return func(func(models.Delta, error) bool) {}
}

func (e engine) List(context.Context) ([]models.Info, error) {
	var out []models.Info
	for _, n := range e.names {
		out = append(out, models.Info{Name: n, Window: 8192})
	}
	return out, e.err
}

var builtIn = []Connection{
	{Name: "ollama", Kind: KindOllama, KeyMode: KeyNone},
	{Name: "demo", Kind: KindDemo, KeyMode: KeyNone},
}

// open returns a registry and the targets that its engines were opened with.
func open(t *testing.T, path string, lists map[string]engine) (*Registry, *[]Target) {
	t.Helper()
	var targets []Target
	opener := func(target Target) (models.Model, error) {
		targets = append(targets, target)
		e := lists[target.Name]
		e.target = target
		return e, nil
	}
	r, err := New(Config{Path: path, BuiltIn: builtIn, Openers: map[Kind]Opener{
		KindOllama: opener, KindOpenAI: opener, KindCompatible: opener, KindDemo: opener,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r, &targets
}

func secret(t *testing.T, s string) Secret {
	t.Helper()
	key, err := NewSecret(s)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestSecretNeverPrints(t *testing.T) {
	key := secret(t, "sk-very-secret")
	holder := struct{ Key Secret }{key}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", key, "holder", holder)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", key, "holder", holder)
	encoded, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	all := log.String() + string(encoded)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		all += fmt.Sprintf(verb, key) + fmt.Sprintf(verb, holder) + fmt.Sprintf(verb, &key)
	}
	if strings.Contains(all, "very") || strings.Contains(all, fmt.Sprintf("%x", "very")) {
		t.Errorf("the key is printed in %s", all)
	}
	if key.Reveal() != "sk-very-secret" {
		t.Errorf("Reveal gives %q", key.Reveal())
	}
}

func TestNewSecretRefuses(t *testing.T) {
	for _, bad := range []string{"", "  ", "a\nb", "a\x00", "schlüssel", strings.Repeat("k", maxKey+1)} {
		if _, err := NewSecret(bad); err == nil {
			t.Errorf("key %.20q was accepted", bad)
		}
	}
}

func TestPutRefuses(t *testing.T) {
	r, _ := open(t, filepath.Join(t.TempDir(), "c.json"), nil)
	ok := Connection{Name: "x", Kind: KindCompatible, BaseURL: "http://127.0.0.1:1/v1"}
	for name, change := range map[string]func(*Connection){
		"no name":                func(c *Connection) { c.Name = "" },
		"name with a slash":      func(c *Connection) { c.Name = "a/b" },
		"name with capitals":     func(c *Connection) { c.Name = "X" },
		"long name":              func(c *Connection) { c.Name = strings.Repeat("x", 65) },
		"unknown kind":           func(c *Connection) { c.Kind = "other" },
		"unknown key mode":       func(c *Connection) { c.KeyMode = "file" },
		"no address":             func(c *Connection) { c.BaseURL = "" },
		"http elsewhere":         func(c *Connection) { c.BaseURL = "http://example.org/v1" },
		"http on a false local":  func(c *Connection) { c.BaseURL = "http://127.0.0.1.example.org/v1" },
		"user":                   func(c *Connection) { c.BaseURL = "https://u:p@example.org" },
		"query":                  func(c *Connection) { c.BaseURL = "https://example.org/?a=1" },
		"empty query":            func(c *Connection) { c.BaseURL = "https://example.org/?" },
		"fragment":               func(c *Connection) { c.BaseURL = "https://example.org/#f" },
		"file":                   func(c *Connection) { c.BaseURL = "file:///etc/passwd" },
		"long address":           func(c *Connection) { c.BaseURL = "https://example.org/" + strings.Repeat("x", 2048) },
		"too many models":        func(c *Connection) { c.Models = make([]string, 1001) },
		"long model":             func(c *Connection) { c.Models = []string{strings.Repeat("m", 201)} },
		"built-in of other kind": func(c *Connection) { c.Name = "ollama" },
		"key for Ollama":         func(c *Connection) { *c = Connection{Name: "o", Kind: KindOllama, KeyMode: KeySession} },
		"address for the guide":  func(c *Connection) { c.Name, c.Kind = "demo", KindDemo },
	} {
		c := ok
		change(&c)
		if err := r.Put(t.Context(), c); err == nil {
			t.Errorf("%s: %+v was accepted", name, c)
		}
	}
	if err := r.Put(t.Context(), ok); err != nil {
		t.Errorf("the connection that the others were made of: %v", err)
	}
}

func TestConnectionsPersistWithoutKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config", "connections.json")
	r, _ := open(t, path, nil)
	if err := r.Put(t.Context(), Connection{Name: "box", Kind: KindCompatible, BaseURL: "https://box.example/v1", Models: []string{"a/b"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.SetKey(t.Context(), "box", KeySession, secret(t, "sk-very-secret")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("very")) {
		t.Errorf("the file holds the key: %s", data)
	}
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", stat.Mode(), err)
	}
	again, _ := open(t, path, nil)
	if diff := cmp.Diff(r.Connections(), again.Connections()); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	if _, _, _, err := again.Open(t.Context(), "box/a/b"); !errors.Is(err, models.ErrAuth) {
		t.Errorf("a session key after a restart: got %v, want %v", err, models.ErrAuth)
	}
}

func TestBrokenFileIsKept(t *testing.T) {
	for name, content := range map[string]string{
		"cut": `{"version":1,"conn`, "unknown field": `{"version":1,"connections":[],"apiKey":"x"}`, "later version": `{"version":2,"connections":[]}`,
		"bad connection": `{"version":1,"connections":[{"name":"x","kind":"openai-compatible","baseURL":"http://evil.example","keyMode":"none","revision":1}]}`,
	} {
		path := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Path: path}); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if data, _ := os.ReadFile(path); string(data) != content {
			t.Errorf("%s: the file was changed to %q", name, data)
		}
	}
}

func TestNewDestinationDropsTheKey(t *testing.T) {
	r, targets := open(t, filepath.Join(t.TempDir(), "c.json"), nil)
	c := Connection{Name: "box", Kind: KindCompatible, BaseURL: "https://one.example/v1"}
	for _, step := range []error{
		r.Put(t.Context(), c),
		r.SetKey(t.Context(), "box", KeySession, secret(t, "k1")),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	if _, _, _, err := r.Open(t.Context(), "box/m"); err != nil || (*targets)[0].Key.Reveal() != "k1" {
		t.Fatalf("got %v and %d openings, want one with the key", err, len(*targets))
	}
	before := r.Connections()[0].Revision
	c.BaseURL = "https://two.example/v1"
	if err := r.Put(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := r.Open(t.Context(), "box/m"); err != nil {
		t.Fatal(err)
	}
	last := (*targets)[len(*targets)-1]
	if !last.Key.IsZero() || last.BaseURL != c.BaseURL || r.Connections()[0].Revision <= before {
		t.Errorf("the engine at %s got a key: %v; revision %d after %d", last.BaseURL, !last.Key.IsZero(), r.Connections()[0].Revision, before)
	}
}

func TestOpen(t *testing.T) {
	r, targets := open(t, filepath.Join(t.TempDir(), "c.json"), map[string]engine{
		"box": {names: []string{"org/model:7b"}}, "demo": {names: []string{"guide"}}, "dead": {err: models.ErrUnreachable},
	})
	for _, c := range []Connection{
		{Name: "box", Kind: KindCompatible, BaseURL: "https://box.example/v1"},
		{Name: "dead", Kind: KindCompatible, BaseURL: "http://127.0.0.1:1/v1"},
	} {
		if err := r.Put(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	_, model, info, err := r.Open(t.Context(), "box/org/model:7b")
	if err != nil || model != "org/model:7b" || info.Window != 8192 || !info.Remote {
		t.Errorf("got %q, %+v, %v; want the listed model, marked as leaving the machine", model, info, err)
	}
	if _, _, info, err = r.Open(t.Context(), "demo/guide"); err != nil || info.Remote {
		t.Errorf("got %+v, %v; want the guide, on this machine", info, err)
	}
	for name, want := range map[string]error{
		"guide": models.ErrNoModel, "demo/": models.ErrNoModel, "demo/other": models.ErrNoModel, "nope/m": ErrNotFound,
		"dead/m": models.ErrUnreachable, "box/" + strings.Repeat("m", 201): models.ErrNoModel,
	} {
		if _, _, _, err := r.Open(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("%.20s: got %v, want %v", name, err, want)
		}
	}
	opened := len(*targets)
	if _, _, _, err := r.Open(t.Context(), "demo/guide"); err != nil || len(*targets) != opened {
		t.Errorf("a second opening made another engine (%v)", err)
	}
}

func TestListCarriesEachError(t *testing.T) {
	many := make([]string, 1500)
	for i := range many {
		many[i] = fmt.Sprint("m", i)
	}
	r, _ := open(t, filepath.Join(t.TempDir(), "c.json"), map[string]engine{
		"box": {names: many}, "ollama": {err: fmt.Errorf("at 127.0.0.1: %w", models.ErrUnreachable)}, "demo": {names: []string{"guide"}},
	})
	if err := r.Put(t.Context(), Connection{Name: "box", Kind: KindCompatible, BaseURL: "https://box.example/v1", Models: []string{"m1", "own"}}); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Name   string
		Leaves bool
		Models int
		Failed bool
	}
	var got []row
	for _, l := range r.List(t.Context()) {
		got = append(got, row{l.Name, l.LeavesMachine, len(l.Models), l.Error != ""})
	}
	want := []row{{"box", true, 1001, false}, {"demo", false, 1, false}, {"ollama", false, 0, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listing (-want +got):\n%s", diff)
	}
}

func TestRemove(t *testing.T) {
	r, _ := open(t, filepath.Join(t.TempDir(), "c.json"), nil)
	put := func(c Connection) {
		t.Helper()
		if err := r.Put(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	put(Connection{Name: "ollama", Kind: KindOllama, BaseURL: "http://192.0.2.1:11434"})
	put(Connection{Name: "x", Kind: KindOpenAI})
	if err := errors.Join(r.Remove(t.Context(), "ollama"), r.Remove(t.Context(), "x")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Connection{builtIn[1], builtIn[0]}, r.Connections()); diff != "" {
		t.Errorf("what is left (-want +got):\n%s", diff)
	}
	if err := r.Remove(t.Context(), "x"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want %v", err, ErrNotFound)
	}
}

func TestAtMostSixtyFourConnections(t *testing.T) {
	r, _ := open(t, filepath.Join(t.TempDir(), "c.json"), nil)
	var err error
	n := 0
	for ; n < 100 && err == nil; n++ {
		err = r.Put(t.Context(), Connection{Name: fmt.Sprint("x", n), Kind: KindOpenAI})
	}
	if n != maxConnections+1 {
		t.Errorf("connection %d was the first refused (%v), want number 65", n, err)
	}
}

// secretToolScript is a secret-tool that keeps its keys in a folder.
const secretToolScript = `#!/bin/sh
verb=$1; shift
[ "$verb" = store ] && shift 2
file="%[1]s/$(echo "$*" | tr -c 'a-zA-Z0-9\n' _)"
echo "$verb $*" >>"%[1]s/log"
case $verb in
store) cat >"$file" ;;
lookup) [ -f "$file" ] && cat "$file" ;;
clear) rm -f "$file" ;;
esac
`

func TestSystemKeystore(t *testing.T) {
	bin, store := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, secretTool), fmt.Appendf(nil, secretToolScript, store), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	path := filepath.Join(t.TempDir(), "c.json")
	r, _ := open(t, path, nil)
	if err := r.KeystoreError(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := Connection{Name: "box", Kind: KindCompatible, BaseURL: "https://one.example/v1"}
	if err := r.Put(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := r.SetKey(t.Context(), "box", KeySystem, secret(t, "sk-very-secret")); err != nil {
		t.Fatal(err)
	}
	again, targets := open(t, path, nil)
	if _, _, _, err := again.Open(t.Context(), "box/m"); err != nil || (*targets)[0].Key.Reveal() != "sk-very-secret" {
		t.Fatalf("after a restart: %v, %d openings; want the key from the store", err, len(*targets))
	}
	c.BaseURL = "https://two.example/v1"
	if err := again.Put(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(store)
	if err != nil || len(left) != 1 { // the log
		t.Errorf("%d files in the store, %v; want the key gone", len(left), err)
	}
	log, err := os.ReadFile(filepath.Join(store, "log"))
	if err != nil || bytes.Contains(log, []byte("very")) {
		t.Errorf("the key stood in the arguments: %s (%v)", log, err)
	}
}

func TestNoKeystore(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r, _ := open(t, filepath.Join(t.TempDir(), "c.json"), nil)
	if err := r.Put(t.Context(), Connection{Name: "x", Kind: KindOpenAI}); err != nil {
		t.Fatal(err)
	}
	if err := r.SetKey(t.Context(), "x", KeySystem, secret(t, "k")); !errors.Is(err, ErrNoKeystore) {
		t.Errorf("got %v, want %v", err, ErrNoKeystore)
	}
	if err := r.SetKey(t.Context(), "x", KeySession, secret(t, "k")); err != nil {
		t.Errorf("for the session: %v", err)
	}
}

func TestLeaves(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:1": false, "http://127.9.9.9": false, "http://[::1]:1/v1": false, "http://LOCALHOST": false,
		"https://api.openai.com/v1": true, "http://192.168.1.2": true, "http://127.0.0.1.example.org": true,
		"http://0.0.0.0": true, "https://localhost.example.org": true, "://": true, "": true,
	} {
		if got := leaves(address); got != want {
			t.Errorf("%s: got %v, want %v", address, got, want)
		}
	}
}
