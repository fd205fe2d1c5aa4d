package assemble

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"lomi/models"
)

// maxDepth is the deepest nesting that arguments may have, as in the broker.
const maxDepth = 64

// tool is what of a tool's schema is needed to read arguments: the type of
// each property at the top level.
type tool struct {
	types map[string]string
}

func newTool(spec models.ToolSpec) *tool {
	var schema struct {
		Properties map[string]struct {
			Type json.RawMessage `json:"type"`
		} `json:"properties"`
	}
	t := &tool{types: map[string]string{}}
	if json.Unmarshal(spec.Parameters, &schema) != nil {
		return t // a schema that we cannot read coerces nothing
	}
	for name, property := range schema.Properties {
		var kind string
		if json.Unmarshal(property.Type, &kind) == nil { // several types: leave the value as it is
			t.types[name] = kind
		}
	}
	return t
}

// object reads what a model wrote as arguments. Models wrap the object in a
// JSON string, or leave it out when a tool needs nothing.
func object(raw string) (json.RawMessage, error) {
	text := strings.TrimSpace(raw)
	for range 2 { // some engines encode a string that was a string already
		var inner string
		if !strings.HasPrefix(text, `"`) || json.Unmarshal(KeepHalves([]byte(text)), &inner) != nil {
			break
		}
		text = strings.TrimSpace(inner)
	}
	if text == "" || text == "null" {
		return json.RawMessage("{}"), nil
	}
	if text[0] != '{' {
		return nil, errors.New("they do not begin with {")
	}
	if depth(text) > maxDepth {
		return nil, fmt.Errorf("they are nested deeper than %d", maxDepth)
	}
	if !json.Valid([]byte(text)) {
		return nil, errors.New(fault(text))
	}
	return json.RawMessage(text), nil
}

// KeepHalves returns a JSON string with another backslash before each \u escape
// that is half a character. Go's decoder puts a replacement character in its
// place; this way the escape itself is what comes out, so that arguments which
// came as a string are still refused for what they hold, and two halves from
// two pieces of a stream come together again.
func KeepHalves(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u`)) {
		return data
	}
	out := make([]byte, 0, len(data)+8)
	for i := 0; i < len(data); {
		n := 1
		if data[i] == '\\' {
			n = 2
			if first := unit(data[i:]); utf16.IsSurrogate(first) {
				if n = 6; utf16.DecodeRune(first, unit(data[i+6:])) != utf8.RuneError {
					n = 12
				} else {
					out = append(out, '\\')
				}
			}
		}
		n = min(n, len(data)-i)
		out = append(out, data[i:i+n]...)
		i += n
	}
	return out
}

// unit reads the escape \uXXXX at the beginning of data, 0 for none.
func unit(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

// fault says in words for the model where JSON stops being JSON.
func fault(text string) string {
	var syntax *json.SyntaxError
	var v json.RawMessage
	err := json.Unmarshal([]byte(text), &v)
	if errors.As(err, &syntax) {
		if syntax.Offset >= int64(len(text)) {
			return "they end before they are complete"
		}
		return fmt.Sprintf("%s at character %d", syntax.Error(), syntax.Offset)
	}
	return "they cannot be read"
}

// depth measures nesting without building anything.
func depth(text string) int {
	var now, most int
	var inString, escaped bool
	for i := range len(text) {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}

// property is one member of an object, in the order in which it was written.
type property struct {
	name  string
	value json.RawMessage
}

// coerce rewrites values whose JSON type is not the schema's, where that loses
// nothing: "20" for an integer, "true" for a boolean, 5 for a string, a list
// written as a string. Everything else stays for the tool to refuse.
func (t *tool) coerce(arguments json.RawMessage) json.RawMessage {
	if t == nil || len(t.types) == 0 {
		return arguments
	}
	members, err := split(arguments)
	if err != nil {
		return arguments
	}
	changed := false
	for i, m := range members {
		if v, ok := convert(m.value, t.types[m.name]); ok {
			members[i].value, changed = v, true
		}
	}
	if !changed {
		return arguments
	}
	return join(members)
}

// convert gives value as a JSON value of the wanted type, and whether it had
// to be changed for that.
func convert(value json.RawMessage, want string) (json.RawMessage, bool) {
	var text string
	isString := json.Unmarshal(KeepHalves(value), &text) == nil && len(value) > 0 && value[0] == '"'
	text = strings.TrimSpace(text)
	switch want {
	case "integer":
		if _, err := strconv.ParseInt(text, 10, 64); isString && err == nil {
			return json.RawMessage(strings.TrimPrefix(text, "+")), json.Valid([]byte(text))
		}
	case "number":
		if isString && text != "" && strings.ContainsRune("-0123456789", rune(text[0])) && json.Valid([]byte(text)) {
			return json.RawMessage(text), true
		}
	case "boolean":
		switch strings.ToLower(text) {
		case "true", "false":
			return json.RawMessage(strings.ToLower(text)), isString
		}
	case "string":
		if !isString && len(value) > 0 && strings.IndexByte("-0123456789tf", value[0]) >= 0 {
			quoted, err := json.Marshal(string(value))
			return quoted, err == nil
		}
	case "array", "object":
		open := map[string]string{"array": "[", "object": "{"}[want]
		if isString && strings.HasPrefix(text, open) && json.Valid([]byte(text)) {
			return json.RawMessage(text), true
		}
	}
	return value, false
}

// split lists the members of an object in order, doubles included.
func split(object json.RawMessage) ([]property, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, io.ErrUnexpectedEOF
	}
	var out []property
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := tok.(string)
		if !ok {
			return nil, io.ErrUnexpectedEOF
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		out = append(out, property{name, value})
	}
	return out, nil
}

func join(members []property) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(m.name) // a string always encodes
		b.Write(name)
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// prefixes are the ones that models put before a name with an underscore. Any
// other is left alone: safe_file_write is not file_write.
var prefixes = [...]string{"lomi_", "functions_", "default_api_", "tools_", "tool_"}

// normal returns the offered tool that a name means, or the name as it is: an
// unknown tool is still a call, which the session answers.
func (a *Assembler) normal(name string) string {
	name = strings.TrimSpace(name)
	if _, ok := a.tools[name]; ok || name == "" {
		return name
	}
	found := ""
	for _, candidate := range a.names {
		if !prefixed(name, candidate) {
			continue
		}
		if found != "" && found != candidate {
			return name // it could mean two
		}
		found = candidate
	}
	return cmpOr(found, name)
}

// prefixed reports whether name is candidate behind a prefix.
func prefixed(name, candidate string) bool {
	prefix, ok := strings.CutSuffix(name, candidate)
	if !ok || prefix == "" {
		return false
	}
	for _, p := range prefixes {
		if prefix == p {
			return true
		}
	}
	return strings.HasSuffix(prefix, "__") || strings.ContainsAny(prefix[len(prefix)-1:], ".:/")
}
