package catalog_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"lomi/broker/catalog"
	"lomi/broker/control"
)

// These tests hold that what a host is told (the input schema) and what is
// enforced (Decode, then Validate) are the same, for every tool, every variant
// of a union, with all optional fields and with none.

// cases are the requests to try for one tool: by variant, lean and full.
func cases(tool control.Tool) []map[string]any {
	var out []map[string]any
	request := reflect.TypeOf(tool.NewRequest()).Elem()
	for variant := range variantsOf(request) {
		for _, full := range []bool{false, true} {
			args := object(request, full, variant)
			fix(tool.Name, full, args)
			out = append(out, args)
		}
	}
	return out
}

// variantsOf is how many variants the largest union of a type has.
func variantsOf(t reflect.Type) int {
	most := 1
	for i := range t.NumField() {
		f := t.Field(i)
		if of := f.Tag.Get("oneof"); of != "" {
			most = max(most, strings.Count(of, ",")+1)
		}
		if f.Type.Kind() == reflect.Struct {
			most = max(most, variantsOf(f.Type))
		}
	}
	return most
}

// object makes a request of a type from its tags.
func object(t reflect.Type, full bool, variant int) map[string]any {
	out := map[string]any{}
	chosen := ""
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			maps.Copy(out, object(f.Type, full, variant))
			continue
		}
		wanted := full || !strings.Contains(opts, "omitempty")
		if of := f.Tag.Get("oneof"); of != "" {
			chosen = strings.Split(of, ",")[variant%(strings.Count(of, ",")+1)]
			out[name] = chosen
			continue
		}
		if in := f.Tag.Get("in"); in != "" {
			list := strings.Split(in, ",")
			wanted = slices.Contains(list, chosen) || (full && slices.Contains(list, chosen+"?"))
		}
		if wanted {
			out[name] = sample(f, f.Type, full, variant)
		}
	}
	return out
}

func sample(f reflect.StructField, t reflect.Type, full bool, variant int) any {
	if t == reflect.TypeFor[json.RawMessage]() {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer:
		return sample(f, t.Elem(), full, variant)
	case reflect.Struct:
		return object(t, full, variant)
	case reflect.Bool:
		return true
	case reflect.Slice:
		return []any{sample(f, t.Elem(), full, variant)}
	case reflect.Int, reflect.Int64, reflect.Float64:
		if text, ok := f.Tag.Lookup("max"); ok {
			n, _ := strconv.Atoi(text)
			return n
		}
		return 1
	}
	return text(f)
}

func text(f reflect.StructField) string {
	if enum := f.Tag.Get("enum"); enum != "" {
		return strings.Split(enum, ",")[0]
	}
	if strings.Contains(f.Tag.Get("json"), "url") {
		return "https://example.org/"
	}
	switch f.Tag.Get("is") {
	case "decimal":
		return "1"
	case "sha256":
		return strings.Repeat("0a", 32)
	case "commit":
		return strings.Repeat("0a", 20)
	case "uuid":
		return "0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a"
	case "absolute":
		return "/a"
	}
	return "a"
}

// fix applies the rules between fields, which no tag says.
func fix(tool string, full bool, args map[string]any) {
	without := func(names ...string) {
		for _, name := range names {
			delete(args, name)
		}
	}
	switch tool {
	case "lomi_operation_get":
		without("operationId")
		if !full {
			args["operationId"] = "a"
		}
	case "lomi_workspace_update":
		without("action")
		args["name"] = "a"
	case "lomi_panel_control":
		without("terminalSessionId")
		if !full {
			args["terminalSessionId"] = "a"
		}
	case "lomi_browser_navigate":
		without("history")
		args["url"] = "http://127.0.0.1:3000"
	case "lomi_terminal_read":
		if full {
			args["mode"] = "screen"
		}
	case "lomi_terminal_input":
		if input := args["input"].(map[string]any); input["type"] == "key" {
			input["key"] = "enter"
		}
	case "lomi_settings_read":
		args["section"] = "keybinds"
	case "lomi_git_diff":
		if full {
			args["comparison"] = "commit"
		}
	case "lomi_git_mutate":
		if full {
			args["operation"], args["paths"], args["reference"] = "pull", []any{}, "refs/heads/main"
			without("message")
		}
	case "lomi_editor_apply_edits":
		args["edits"] = []any{map[string]any{"fromUtf16": 0, "toUtf16": 1, "insert": ""}}
	}
}

// judge asks the schema and the decoder about one request.
func judge(t *testing.T, tool control.Tool, schema *jsonschema.Resolved, args any) (told, enforced error) {
	t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		t.Fatal(err)
	}
	request := tool.NewRequest()
	enforced = control.Decode(raw, request)
	if v, ok := request.(control.Validator); ok && enforced == nil {
		enforced = v.Validate()
	}
	if e, ok := control.AsError(enforced); enforced != nil && (!ok || e.Code != control.ResourceExhausted) {
		t.Errorf("%s: %v is no RESOURCE_EXHAUSTED", tool.Name, enforced)
	}
	return schema.Validate(plain), enforced
}

func resolve(t *testing.T, raw json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func TestSchemaAndDecoderTakeTheSame(t *testing.T) {
	for _, tool := range catalog.All() {
		schema := resolve(t, tool.Input())
		for _, args := range cases(tool) {
			if told, enforced := judge(t, tool, schema, args); told != nil || enforced != nil {
				t.Errorf("%s refuses %v\nschema: %v\ndecoder: %v", tool.Name, args, told, enforced)
			}
		}
	}
}

func TestSchemaAndDecoderRefuseTheSame(t *testing.T) {
	for _, tool := range catalog.All() {
		schema := resolve(t, tool.Input())
		refused := func(what string, args any) {
			t.Helper()
			told, enforced := judge(t, tool, schema, args)
			if told == nil || enforced == nil {
				t.Errorf("%s takes %s\nschema: %v\ndecoder: %v", tool.Name, what, told, enforced)
			}
		}
		refused("an array", []any{})
		for _, args := range cases(tool) {
			spoil(args, "", func(what string) { refused(what, args) })
		}
	}
}

// spoil breaks one thing at a time, at every depth, and puts it back.
func spoil(args map[string]any, path string, broken func(what string)) {
	args["unknown"] = 1
	broken("an unknown field in " + path)
	delete(args, "unknown")
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value := args[name]
		here := path + "." + name
		wrong := []any{map[string]any{"a": 1}, nil, []any{[]any{}}}
		if _, scalarOrNull := value.(bool); scalarOrNull && name == "value" {
			wrong = nil // a setting's value; what it may be is the setting's business
		}
		if name == "messageId" || name == "shortcut" {
			wrong = wrong[:1] // take null
		}
		for _, w := range wrong {
			args[name] = w
			broken(here + " of a wrong type")
		}
		switch v := value.(type) {
		case int:
			args[name] = -1 << 40
			broken(here + " far below its range")
			args[name] = 1 << 40
			broken(here + " out of range")
		case map[string]any:
			args[name] = v
			spoil(v, here, broken)
		}
		args[name] = value
		upper := strings.ToUpper(name)
		delete(args, name)
		args[upper] = value
		broken("S-70 " + here + " in upper case")
		delete(args, upper)
		args[name] = value
	}
}

func TestMissingFieldsAreRefused(t *testing.T) {
	for _, tool := range catalog.All() {
		schema := resolve(t, tool.Input())
		var declared struct{ Required []string }
		if err := json.Unmarshal(tool.Input(), &declared); err != nil {
			t.Fatal(err)
		}
		args := cases(tool)[0]
		for _, name := range declared.Required {
			value := args[name]
			delete(args, name)
			if told, enforced := judge(t, tool, schema, args); told == nil || enforced == nil ||
				!strings.Contains(enforced.Error(), name+": is required") {
				t.Errorf("%s without %s\nschema: %v\ndecoder: %v", tool.Name, name, told, enforced)
			}
			args[name] = value
		}
	}
}
