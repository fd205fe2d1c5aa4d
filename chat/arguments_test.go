package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"lomi/agent"
	"lomi/broker/catalog/short"
	"lomi/models"
)

// TestAmbiguousArgumentsRunNothing holds security finding 8 and F-27 for the
// conversation's own calls: what one reader of the arguments could take for
// something else than another is refused before there is a connection.
func TestAmbiguousArgumentsRunNothing(t *testing.T) {
	for _, row := range []struct{ name, tool, args, words string }{
		{"twice", "terminal_run", `{"command":"true","command":"touch X"}`, "command: is there twice, so it is not clear which one is meant. Give it once. terminal_run takes"},
		{"twice, one escaped", "terminal_run", `{"command":"true","c\u006fmmand":"touch X"}`, "command: is there twice"},
		{"twice, one null", "terminal_run", `{"command":"ls","terminal":null,"terminal":"b"}`, "terminal: is there twice"},
		{"another case as well", "terminal_run", `{"command":"true","Command":"touch X"}`, "Command: there is no such parameter; write it command, in lower case."},
		{"another case alone", "terminal_run", `{"COMMAND":"ls"}`, "COMMAND: there is no such parameter; write it command"},
		{"a null in another case", "terminal_run", `{"command":"ls","Terminal":null}`, "Terminal: there is no such parameter"},
		{"address twice", "browser_open", `{"url":"http://a.test","URL":"http://b.test"}`, "URL: there is no such parameter; write it url"},
		{"F-27 lone surrogate", "terminal_run", `{"command":"echo \ud800"}`, "command: holds half a character"},
		{"F-27 lone surrogate in a key", "terminal_run", `{"command":"ls","\ud800":1}`, "arguments: holds half a character"},
		{"F-27 NUL", "terminal_run", `{"command":"ls\u0000"}`, "command: holds a NUL character"},
		{"null for what is needed", "terminal_run", `{"command":null}`, "command: must be a text, not null"},
		{"null for a needed number", "browser_click", `{"element":null}`, "element: must be a whole number, not null"},
		{"text left out", "browser_fill", `{"element":3}`, "text: is needed."},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				b.domains("terminal", "browser")
				r := b.say(row.tool, row.args)[0]
				wantText(t, r, agent.OutcomeNotRun, row.words)
				if !r.IsError || b.broker.dials != 0 {
					t.Errorf("error %v, %d connections", r.IsError, b.broker.dials)
				}
			})
		})
	}
}

// TestHarmlessSlipsAreRead lists what is let pass on purpose.
func TestHarmlessSlipsAreRead(t *testing.T) {
	var run runArguments
	for _, args := range []string{
		`{"command":"ls <a> & 'b'","wait_s":"20"}`, `{"command":"ls <a> & 'b'","wait_s":20,"terminal":null}`,
		`{"terminal":null,"wait_s":2e1,"command":"ls <a> & 'b'"}`,
	} {
		run = runArguments{}
		bad := decodeArguments(models.ToolCall{Name: "terminal_run", Arguments: json.RawMessage(args)}, &run)
		if want := (runArguments{Command: "ls <a> & 'b'", WaitS: 20}); bad != "" || run != want {
			t.Errorf("%s: got %+v (%s), want %+v", args, run, bad, want)
		}
	}
	for _, args := range []string{"", "null", " {} "} {
		if bad := decodeArguments(models.ToolCall{Name: "terminal_list", Arguments: json.RawMessage(args)}, &struct{}{}); bad != "" {
			t.Errorf("%q: %s", args, bad)
		}
	}
}

// TestArgumentsMatchTheForms holds the structs against what the model is told:
// the same names, a needed parameter is needed, and null for any other is the
// same as leaving it out.
func TestArgumentsMatchTheForms(t *testing.T) {
	for _, form := range short.All() {
		read := func(args map[string]any) string {
			data, err := json.Marshal(args)
			if err != nil {
				t.Fatal(err)
			}
			call := models.ToolCall{Name: form.Name, Arguments: data}
			if form.Name == askTool {
				return decodeArguments(call, &askArguments{})
			}
			_, bad := handlerOf(form.Name)(&sessionCall{call: call})
			return bad
		}
		if form.Name != askTool && handlerOf(form.Name) == nil {
			continue // no model is offered it
		}
		var schema struct {
			Properties map[string]any `json:"properties"`
			Required   []string       `json:"required"`
		}
		if err := json.Unmarshal(form.Parameters, &schema); err != nil {
			t.Fatal(err)
		}
		if bad := read(map[string]any{"nope": 1}); !strings.Contains(bad, "nope: there is no such parameter") || strings.Count(bad, ",") < len(schema.Properties)-1 {
			t.Errorf("%s: %s", form.Name, bad)
		}
		_, text, _ := strings.Cut(form.Description, "Example: ")
		example := map[string]any{}
		if err := json.Unmarshal([]byte(text), &example); err != nil {
			t.Fatalf("%s: %v", form.Name, err)
		}
		for name := range schema.Properties {
			absent := maps.Clone(example)
			delete(absent, name)
			null := maps.Clone(example)
			null[name] = nil
			without, with := read(absent), read(null)
			if slices.Contains(schema.Required, name) {
				if !strings.HasPrefix(without, name+": ") || !strings.HasPrefix(with, name+": ") {
					t.Errorf("%s: without the needed %s: %q; with null: %q", form.Name, name, without, with)
				}
			} else if without != with {
				t.Errorf("%s: %s left out: %q; null: %q", form.Name, name, without, with)
			}
		}
	}
}

// FuzzDecodeArguments checks that what is taken is what a strict reader makes
// of it, whatever is dropped on the way.
func FuzzDecodeArguments(f *testing.F) {
	for _, seed := range []string{`{"command":"ls","wait_s":null}`, `{"command":"a","Command":"b"}`, `{"command":"\ud800"}`, `{"command":"<"}},{`, `{"command":"x"},"arguments":{}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		var got runArguments
		if decodeArguments(models.ToolCall{Name: "terminal_run", Arguments: json.RawMessage(args)}, &got) != "" {
			return
		}
		if trimmed := strings.TrimSpace(args); !json.Valid([]byte(trimmed)) {
			t.Fatalf("took %q, which is no JSON", args)
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(args), &members); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(members["command"]) != got.Command {
			t.Errorf("%q: got %q", args, got.Command)
		}
	})
}
