// Package tokens says what the catalog costs a qwen3 model. The counts are made
// by its tests with the real tokenizer and embedded, because the program does
// not carry one.
package tokens

import (
	_ "embed" // for counts.json
	"encoding/json"
	"fmt"
	"strings"

	"lomi/broker/catalog"
	"lomi/broker/catalog/short"
)

//go:embed counts.json
var counts []byte

// Rendering names how the counted text is laid out. Compact JSON would cost a
// quarter less.
const Rendering = "Hugging Face qwen3 chat template: JSON with a space after : and ,"

// Table holds the counts. A set includes Frame, the words that the template
// puts around any list of tools; a single tool does not.
type Table struct {
	Tokenizer string         `json:"tokenizer"`
	Rendering string         `json:"rendering"`
	Frame     int            `json:"frame"`
	Sets      map[string]int `json:"sets"`
	Short     map[string]int `json:"short"`
	Full      map[string]int `json:"full"`
}

// The sets that have a budget.
const (
	SetDefault = "terminal+browser+ask_user" // what a new conversation carries
	SetShort   = "short"                     // all short forms
	SetFull    = "full"                      // all 74 tools, as an external host lists them
)

// Counts returns the table.
func Counts() (Table, error) {
	var t Table
	if err := json.Unmarshal(counts, &t); err != nil {
		return Table{}, fmt.Errorf("reading the embedded counts: %w", err)
	}
	return t, nil
}

// RenderShort is one short form as the template prints it.
func RenderShort(f short.Form) string { return render(f.Name, f.Description, f.Parameters) }

// RenderFull is every tool of the catalog as the template prints it, by name.
func RenderFull() map[string]string {
	out := map[string]string{}
	for _, tool := range catalog.All() {
		out[tool.Name] = render(tool.Name, tool.Description, tool.Input())
	}
	return out
}

func render(name, description string, parameters json.RawMessage) string {
	return `{"type": "function", "function": {"name": ` + quote(name) + `, "description": ` + quote(description) +
		`, "parameters": ` + spaced(parameters) + `}}`
}

// Frame is the system message that the template makes of the tools alone.
func Frame(tools []string) string {
	return "<|im_start|>system\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n" +
		"You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n" +
		strings.Join(tools, "\n") +
		"\n</tools>\n\nFor each function call, return a json object with function name and arguments within " +
		"<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n"
}

// quote is a JSON string as Python writes it: nothing escaped that need not be.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string cannot fail to encode, nor a Builder to be written
	return strings.TrimSuffix(b.String(), "\n")
}

// spaced puts a space after each colon and comma of compact JSON that is not
// inside a string, as Python's json.dumps does.
func spaced(raw json.RawMessage) string {
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
