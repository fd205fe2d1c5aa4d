package short_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"lomi/broker/catalog/short"
	"lomi/broker/control"
)

func TestFormsAreWhole(t *testing.T) {
	known := map[control.Scope]bool{}
	for _, s := range control.Scopes() {
		known[s] = true
	}
	names := map[string]bool{}
	for _, f := range short.All() {
		if names[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		names[f.Name] = true
		if n := len(strings.Fields(f.Description)); n == 0 || n > 40 {
			t.Errorf("%s: a description of %d words, want 1 to 40", f.Name, n)
		}
		for _, s := range f.Scopes {
			if !known[s] {
				t.Errorf("%s: unknown scope %q", f.Name, s)
			}
		}
		checkKeywords(t, f.Name, f.Parameters)
	}
	if len(names) != 32 {
		t.Errorf("got %d forms, want 32", len(names))
	}
}

// checkKeywords holds the list of what Ollama's Go types pass on; anything else
// would be told to no model.
func checkKeywords(t *testing.T, where string, raw json.RawMessage) {
	t.Helper()
	var s map[string]json.RawMessage
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	for key := range s {
		if !slices.Contains([]string{"type", "properties", "items", "required", "anyOf", "description", "enum"}, key) {
			t.Errorf("%s: keyword %q", where, key)
		}
	}
	var fields map[string]json.RawMessage
	if s["properties"] != nil {
		if err := json.Unmarshal(s["properties"], &fields); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
	}
	for name, field := range fields {
		checkKeywords(t, where+"."+name, field)
	}
	if s["items"] != nil {
		checkKeywords(t, where+"[]", s["items"])
	}
}

// TestExamplesFit holds each description's example against its own schema: a
// model copies what it is shown.
func TestExamplesFit(t *testing.T) {
	example := regexp.MustCompile(`Example: (\{.*\})$`)
	for _, f := range short.All() {
		found := example.FindStringSubmatch(f.Description)
		if found == nil {
			t.Errorf("%s: the description does not end with an example", f.Name)
			continue
		}
		var s jsonschema.Schema
		if err := json.Unmarshal(f.Parameters, &s); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		resolved, err := s.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		var args map[string]any
		if err := json.Unmarshal([]byte(found[1]), &args); err != nil {
			t.Errorf("%s: example %s: %v", f.Name, found[1], err)
		} else if err := resolved.Validate(args); err != nil {
			t.Errorf("%s: example %s: %v", f.Name, found[1], err)
		}
	}
}

func TestForOffersWhatTheGrantAllows(t *testing.T) {
	everything := func(control.Scope) bool { return true }
	readOnly := func(s control.Scope) bool {
		return slices.Contains([]control.Scope{control.WorkspaceRead, control.TerminalRead, control.BrowserRead}, s)
	}
	rows := []struct {
		name    string
		domains []string
		has     func(control.Scope) bool
		want    string
	}{
		{"no domain", nil, everything, "ask_user"},
		{"no grant", []string{"terminal", "browser", "files", "git"}, func(control.Scope) bool { return false }, "ask_user"},
		{"reading", []string{"terminal", "browser"}, readOnly,
			"terminal_read terminal_screen terminal_list browser_snapshot browser_wait browser_logs ask_user"},
		{"one domain", []string{"git"}, everything, "git_status git_diff git_log git_show git_change ask_user"},
		{"order is fixed", []string{"operation", "terminal"}, everything,
			"terminal_run terminal_input terminal_read terminal_screen terminal_interrupt terminal_create terminal_list operation_status ask_user"},
		{"unknown domain", []string{"Terminal", "mail"}, everything, "ask_user"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var got []string
			for _, f := range short.For(row.domains, row.has) {
				got = append(got, f.Name)
			}
			if diff := cmp.Diff(row.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("offered (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFind(t *testing.T) {
	if f, ok := short.Find("terminal_run"); !ok || f.Domain != "terminal" {
		t.Errorf("Find(terminal_run) = %+v, %v", f, ok)
	}
	if f, ok := short.Find("Terminal_Run"); ok {
		t.Errorf("Find(Terminal_Run) = %+v, want none", f)
	}
}
