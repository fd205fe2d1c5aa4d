package rule

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// node is one JSON Schema. Its keys come out in this order; what a reader needs
// first stands first.
type node struct {
	Type        any             `json:"type,omitempty"` // a name, or two with "null"
	Const       string          `json:"const,omitempty"`
	Enum        []string        `json:"enum,omitempty"`
	Items       *node           `json:"items,omitempty"`
	Properties  properties      `json:"properties,omitzero"`
	Required    []string        `json:"required,omitempty"`
	OneOf       []*node         `json:"oneOf,omitempty"`
	AnyOf       []*node         `json:"anyOf,omitempty"`
	Minimum     json.RawMessage `json:"minimum,omitempty"`
	Maximum     json.RawMessage `json:"maximum,omitempty"`
	MaxLength   json.RawMessage `json:"maxLength,omitempty"`
	MinItems    json.RawMessage `json:"minItems,omitempty"`
	MaxItems    json.RawMessage `json:"maxItems,omitempty"`
	Default     json.RawMessage `json:"default,omitempty"`
	Description string          `json:"description,omitempty"`
	Closed      *closed         `json:"additionalProperties,omitempty"`
}

// closed is the schema value false.
type closed struct{}

func (closed) MarshalJSON() ([]byte, error) { return []byte("false"), nil }

// properties keeps the order of the Go fields, which is the order in which a
// person would explain them.
type properties []property

type property struct {
	name string
	of   *node
}

func (p properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, prop := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := encode(prop.of)
		if err != nil {
			return nil, err
		}
		b.WriteString(strconv.Quote(prop.name)) // a Go json tag: plain ASCII
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode is json.Marshal without \u003c for what a model reads.
func encode(n any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// reflector makes schemas from Go types. Requests are closed and carry bounds
// and texts. Results are open, so that a field added later breaks no host that
// kept the schema, and carry only what a reader can rely on.
type reflector struct{ request bool }

var rawType = reflect.TypeFor[json.RawMessage]()

func (r reflector) object(t reflect.Type) *node {
	discriminator, variants := unionOf(t)
	if variants == nil {
		return r.variant(t, "", "")
	}
	n := &node{}
	for _, v := range variants {
		n.OneOf = append(n.OneOf, r.variant(t, discriminator, v))
	}
	return n
}

// unionOf finds the discriminator of a tagged union by its tag oneof.
func unionOf(t reflect.Type) (name string, variants []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if of := f.Tag.Get("oneof"); of != "" {
			name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
			return name, strings.Split(of, ",")
		}
	}
	return "", nil
}

// variant is the schema of a struct, or of one variant of a union.
func (r reflector) variant(t reflect.Type, discriminator, chosen string) *node {
	n := &node{Type: "object", Properties: properties{}}
	if r.request {
		n.Closed = &closed{}
	}
	r.fields(n, t, discriminator, chosen)
	return n
}

func (r reflector) fields(n *node, t reflect.Type, discriminator, chosen string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
			continue
		case f.Anonymous && name == "":
			r.fields(n, f.Type, discriminator, chosen)
			continue
		}
		required := !strings.Contains(opts, "omitempty")
		of := r.field(f, required)
		if in := f.Tag.Get("in"); in != "" {
			belongs, optional := membership(in, chosen)
			if !belongs {
				continue
			}
			required = !optional
		}
		if name == discriminator && chosen != "" {
			of = &node{Const: chosen}
		}
		n.Properties = append(n.Properties, property{name, of})
		if required {
			n.Required = append(n.Required, name)
		}
	}
}

func membership(in, chosen string) (belongs, optional bool) {
	for v := range strings.SplitSeq(in, ",") {
		if name, found := strings.CutSuffix(v, "?"); name == chosen {
			return true, found
		}
	}
	return false, false
}

func (r reflector) field(f reflect.StructField, required bool) *node {
	t, pointer := f.Type, f.Type.Kind() == reflect.Pointer
	if pointer {
		t = t.Elem()
	}
	n := r.ofType(t)
	if pointer && n.Type != nil && (required || f.Tag.Get("null") == "yes") {
		n.Type = []any{n.Type, "null"}
	}
	if enum := f.Tag.Get("enum"); enum != "" {
		n.Enum = strings.Split(enum, ",")
		if len(n.Enum) == 1 {
			n.Type, n.Const, n.Enum = nil, n.Enum[0], nil
		}
	}
	if r.request {
		r.bounds(n, t, f.Tag)
	}
	return n
}

func (r reflector) bounds(n *node, t reflect.Type, tag reflect.StructTag) {
	least, most := literal(tag, "min"), literal(tag, "max")
	switch t.Kind() {
	case reflect.String:
		n.MaxLength = most // never below the bound in bytes; Check counts those
	case reflect.Slice:
		n.MinItems, n.MaxItems = least, most
	case reflect.Int, reflect.Int64, reflect.Float64:
		n.Minimum, n.Maximum = least, most
	}
	if text, ok := tag.Lookup("default"); ok {
		if t.Kind() == reflect.String {
			text = strconv.Quote(text)
		}
		n.Default = json.RawMessage(text)
	}
	n.Description = tag.Get("doc")
}

func literal(tag reflect.StructTag, key string) json.RawMessage {
	if text, ok := tag.Lookup(key); ok {
		return json.RawMessage(text)
	}
	return nil
}

func (r reflector) ofType(t reflect.Type) *node {
	if t == rawType {
		return &node{} // any value
	}
	switch t.Kind() {
	case reflect.Bool:
		return &node{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &node{Type: "integer"}
	case reflect.Float64:
		return &node{Type: "number"}
	case reflect.Slice:
		return &node{Type: "array", Items: r.ofType(t.Elem())}
	case reflect.Struct:
		return r.object(t)
	case reflect.Map:
		return &node{Type: "object"}
	}
	return &node{Type: "string"}
}
