package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"lomi/broker/control"
)

const (
	// maxNesting leaves room for the envelope around arguments of MaxDepth.
	maxNesting = control.MaxDepth + 8
	maxIDText  = 256
	maxSafeInt = 1<<53 - 1
)

// refused is why a line is no message, in the words of JSON-RPC. id is null
// unless the line has one that can be trusted.
type refused struct {
	id      json.RawMessage
	code    int64
	message string
}

// envelope is a line that the SDK may see. The SDK ends the whole session at
// what it cannot read and takes what can be read two ways (facts tried with
// v1.8.0: a garbage line, two messages on a line, a batch, a missing version,
// deep nesting; keys twice, 1.5 as id 1), so that all of it ends here.
type envelope struct {
	id       json.RawMessage // nil for a notification
	method   string
	params   []member
	response bool // an answer, to nothing that we asked
}

// member is one field of an object, in the order of the text.
type member struct {
	key   string
	value json.RawMessage
}

func refuse(id json.RawMessage, code int64, format string, args ...any) *refused {
	return &refused{id: id, code: code, message: fmt.Sprintf(format, args...)}
}

// vet reads a line.
func vet(line []byte) (envelope, *refused) {
	switch {
	case !utf8.Valid(line):
		return envelope{}, refuse(nil, jsonrpc.CodeParseError, "the message is not UTF-8")
	case nesting(line) > maxNesting:
		return envelope{}, refuse(nil, jsonrpc.CodeInvalidRequest, "the message is nested deeper than %d levels", maxNesting)
	case !json.Valid(line):
		return envelope{}, refuse(nil, jsonrpc.CodeParseError, "the line is not one JSON value")
	case line[0] == '[':
		return envelope{}, refuse(nil, jsonrpc.CodeInvalidRequest, "batches are not supported")
	case line[0] != '{':
		return envelope{}, refuse(nil, jsonrpc.CodeInvalidRequest, "the message is not an object")
	}
	fields, rule := members(line, "jsonrpc", "id", "method", "params", "result", "error")
	if rule != "" {
		return envelope{}, refuse(nil, jsonrpc.CodeInvalidRequest, "the message %s", rule)
	}
	return open(fields)
}

// open checks the fields of a message.
func open(fields []member) (envelope, *refused) {
	value := func(key string) json.RawMessage {
		for _, f := range fields {
			if f.key == key {
				return f.value
			}
		}
		return nil
	}
	var e envelope
	if raw := value("id"); raw != nil {
		if !validID(raw) {
			return e, refuse(nil, jsonrpc.CodeInvalidRequest, "id must be a string of at most %d bytes or a whole number up to 2^53-1", maxIDText)
		}
		e.id = raw
	}
	if !bytes.Equal(value("jsonrpc"), []byte(`"2.0"`)) {
		return e, refuse(e.id, jsonrpc.CodeInvalidRequest, `jsonrpc must be "2.0"`)
	}
	method := value("method")
	if method == nil && (value("result") != nil || value("error") != nil) {
		e.response = true
		return e, nil
	}
	if method == nil || json.Unmarshal(method, &e.method) != nil || e.method == "" || string(method) == "null" {
		return e, refuse(e.id, jsonrpc.CodeInvalidRequest, "method must be a string that is not empty")
	}
	params := value("params")
	if params == nil || string(params) == "null" {
		return e, nil
	}
	if params[0] != '{' {
		return e, refuse(e.id, jsonrpc.CodeInvalidParams, "params must be an object")
	}
	var rule string
	e.params, rule = members(params, "name", "arguments", "_meta", "cursor", "protocolVersion", "capabilities", "clientInfo", "requestId")
	if rule != "" {
		return e, refuse(e.id, jsonrpc.CodeInvalidParams, "params %s", rule)
	}
	return e, nil
}

func (e *envelope) param(key string) json.RawMessage {
	for _, p := range e.params {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

// members splits an object. It refuses keys that two readers could take for
// different fields: there twice, with control characters, or known ones in
// another case. data is valid JSON.
func members(data []byte, known ...string) (fields []member, rule string) {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil { // the brace
		return nil, "cannot be read"
	}
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, "cannot be read"
		}
		switch {
		case seen[key]:
			return nil, "has a field twice"
		case strings.ContainsFunc(key, unicode.IsControl):
			return nil, "has a field with a control character in its name"
		}
		seen[key] = true
		for _, name := range known {
			if key != name && strings.EqualFold(key, name) {
				return nil, fmt.Sprintf("has the field %s in another spelling", name)
			}
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, "cannot be read"
		}
		fields = append(fields, member{key, value})
	}
	return fields, ""
}

// validID takes what every implementation gives back unchanged.
func validID(raw json.RawMessage) bool {
	if raw[0] == '"' {
		return len(raw) <= maxIDText
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && n >= -maxSafeInt && n <= maxSafeInt && string(raw) != "-0"
}

// nesting is how deep the brackets of a text go. It is asked before anything
// recursive reads the text.
func nesting(data []byte) int {
	depth, deepest := 0, 0
	quoted, escaped := false, false
	for _, c := range data {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
