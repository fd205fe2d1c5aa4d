package rule

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"lomi/broker/control"
)

// Define completes the entry of a tool from its Go types: the request that
// NewRequest makes, and one value of each result type, whose field Kind has the
// tag enum with the data kind. The schemas are made on first use.
func Define(tool control.Tool, results ...any) control.Tool {
	types := make([]reflect.Type, len(results))
	for i, result := range results {
		types[i] = reflect.TypeOf(result)
		tool.Results = append(tool.Results, kindOf(types[i]))
	}
	request := reflect.TypeOf(tool.NewRequest()).Elem()
	tool.Input = lazily(func() *node { return reflector{request: true}.object(request) })
	receipt := tool.Operation
	// A mutation that answers directly can still be put before a person first.
	asks := !tool.Operation && !tool.ReadOnly
	tool.Output = lazily(func() *node { return output(types, receipt, asks) })
	return tool
}

// Request returns a constructor for Tool.NewRequest.
func Request[T any]() func() any { return func() any { return new(T) } }

func kindOf(t reflect.Type) string {
	f, _ := t.FieldByName("Kind")
	return f.Tag.Get("enum")
}

func lazily(make func() *node) func() json.RawMessage {
	return sync.OnceValue(func() json.RawMessage {
		raw, err := encode(make())
		if err != nil { // a tag that is no JSON; the catalog's test reads every schema
			return json.RawMessage(fmt.Sprintf(`{"type":"object","description":%q}`, "no schema: "+err.Error()))
		}
		return raw
	})
}

// output is the envelope of an answer: success with the tool's own kinds, or a
// failure.
func output(types []reflect.Type, receipt, asks bool) *node {
	r := reflector{}
	operation := reflect.TypeFor[control.Operation]()
	data := &node{}
	for _, t := range types {
		data.AnyOf = append(data.AnyOf, r.object(t))
	}
	switch {
	case receipt:
		of := r.object(operation)
		of.replace("result", data.single())
		data = of
	case asks && types[0] != operation:
		data.AnyOf = append(data.AnyOf, r.object(operation))
	}
	ok := &node{Properties: properties{
		{"status", &node{Const: "ok"}},
		{"controlApiVersion", &node{Const: control.APIVersion}},
		{"data", data.single()},
	}, Required: []string{"status", "controlApiVersion", "data"}, Closed: &closed{}}
	text := &node{Type: "string"}
	failed := &node{Properties: properties{
		{"status", &node{Const: "error"}},
		{"controlApiVersion", &node{Const: control.APIVersion}},
		{"code", text}, {"message", text}, {"current", text}, {"movedBy", text},
	}, Required: []string{"status", "controlApiVersion", "code", "message"}, Closed: &closed{}}
	return &node{Type: "object", OneOf: []*node{ok, failed}}
}

// single drops a choice of one.
func (n *node) single() *node {
	if len(n.AnyOf) == 1 {
		return n.AnyOf[0]
	}
	return n
}

func (n *node) replace(name string, of *node) {
	for i := range n.Properties {
		if n.Properties[i].name == name {
			n.Properties[i].of = of
		}
	}
}
