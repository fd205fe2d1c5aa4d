package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"lomi/agent"
	"lomi/broker/catalog/short"
	"lomi/broker/control"
	"lomi/models"
)

// handler reads a call's arguments and gives what carries it out, or says what
// is wrong with them. Reading has no effect and needs no connection.
type handler func(*sessionCall) (run func() (agent.Result, error), bad string)

// takes makes a handler of a function and the struct of its arguments.
func takes[A any](run func(*sessionCall, A) (agent.Result, error)) handler {
	return func(c *sessionCall) (func() (agent.Result, error), string) {
		var args A
		if bad := decodeArguments(c.call, &args); bad != "" {
			return nil, bad
		}
		if checked, ok := any(&args).(interface{ check() string }); ok {
			if bad := checked.check(); bad != "" {
				return nil, bad
			}
		}
		return func() (agent.Result, error) { return run(c, args) }, ""
	}
}

// handlerOf finds what carries a short form out, nil for none.
func handlerOf(name string) handler {
	switch name {
	case "terminal_run":
		return takes((*sessionCall).terminalRun)
	case "terminal_input":
		return takes((*sessionCall).terminalInput)
	case "terminal_read":
		return takes((*sessionCall).terminalRead)
	case "terminal_screen":
		return takes((*sessionCall).terminalScreen)
	case "terminal_interrupt":
		return takes((*sessionCall).terminalInterrupt)
	case "terminal_create":
		return takes((*sessionCall).terminalCreate)
	case "terminal_list":
		return takes((*sessionCall).terminalList)
	case "browser_open":
		return takes((*sessionCall).browserOpen)
	case "browser_navigate":
		return takes((*sessionCall).browserNavigate)
	case "browser_snapshot":
		return takes((*sessionCall).browserSnapshot)
	case "browser_click":
		return takes((*sessionCall).browserClick)
	case "browser_fill":
		return takes((*sessionCall).browserFill)
	case "browser_select":
		return takes((*sessionCall).browserSelect)
	case "browser_key":
		return takes((*sessionCall).browserKey)
	case "browser_scroll":
		return takes((*sessionCall).browserScroll)
	case "browser_wait":
		return takes((*sessionCall).browserWait)
	case "browser_screenshot":
		return takes((*sessionCall).browserScreenshot)
	case "browser_logs":
		return takes((*sessionCall).browserLogs)
	case "operation_status":
		return takes((*sessionCall).operationStatus)
	}
	return nil
}

func isBrowserTool(name string) bool { return strings.HasPrefix(name, "browser_") }

// maxShownValue bounds what an error repeats of a value that is wrong.
const maxShownValue = 60

// decodeArguments reads a call's arguments with the broker's strict decoder;
// the text says what is wrong with them, for the model. A lenient decoder lets
// a second "command", or "Command", win over the one that a person was shown.
//
// Three slips of small models are let pass, because they can be read in one way
// only: no object at all, a number or a boolean written as a string, and null
// for a parameter that may be left out.
func decodeArguments(call models.ToolCall, into any) string {
	raw := bytes.TrimSpace(call.Arguments)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		raw = []byte("{}")
	}
	members, err := membersOf(raw)
	if err == nil {
		err = control.Decode(withoutNulls(raw, members, into), into)
	}
	if err != nil {
		return argumentFault(call.Name, members, into, err)
	}
	return ""
}

// membersOf lists the members of an object, by the strict decoder's rules at
// every depth. It takes them as the field of another object, because only a
// field may be a map.
func membersOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	const head, tail = `{"arguments":`, `}`
	var whole struct {
		Arguments map[string]json.RawMessage `json:"arguments"`
	}
	data := slices.Concat([]byte(head), raw, []byte(tail))
	err := control.DecodeWithin(data, control.MaxArguments+len(head)+len(tail), &whole)
	return whole.Arguments, err
}

// withoutNulls gives an object without the parameters that are null and may be
// left out. A needed one stays, to be refused.
func withoutNulls(raw json.RawMessage, members map[string]json.RawMessage, into any) json.RawMessage {
	null := func(name string) bool {
		return string(members[name]) == "null" && slices.ContainsFunc(parametersOf(into),
			func(p parameter) bool { return p.name == name && p.optional })
	}
	names := slices.Sorted(maps.Keys(members))
	if !slices.ContainsFunc(names, null) {
		return raw
	}
	out := []byte{'{'}
	for _, name := range slices.DeleteFunc(names, null) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, _ := json.Marshal(name) // a string always encodes
		out = slices.Concat(out, key, []byte{':'}, members[name])
	}
	return append(out, '}')
}

// parameter is a field of the struct of a tool's arguments.
type parameter struct {
	name     string
	optional bool
	kind     reflect.Type
}

func parametersOf(into any) []parameter {
	t := reflect.TypeOf(into).Elem()
	var out []parameter
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		out = append(out, parameter{name, options == "omitempty", t.Field(i).Type})
	}
	return out
}

// argumentFault says in words for a model what the strict decoder refused, and
// what to do about it.
func argumentFault(tool string, members map[string]json.RawMessage, into any, err error) string {
	refused, ok := control.AsError(err)
	if !ok {
		return "The arguments could not be read."
	}
	message := strings.TrimPrefix(refused.Message, "arguments.")
	at := max(0, strings.LastIndex(message, ": "))
	field, rule := message[:at], strings.TrimPrefix(message[at:], ": ")
	if rule == "is required" {
		// The tool's own words have an example.
		empty := reflect.New(reflect.TypeOf(into).Elem()).Interface()
		if c, ok := empty.(interface{ check() string }); ok && strings.HasPrefix(c.check(), field+": ") {
			return c.check()
		}
	}
	return fmt.Sprintf("%s: %s. %s", field, faultWords(field, rule, members, into), takesWords(tool, into))
}

func faultWords(field, rule string, members map[string]json.RawMessage, into any) string {
	switch rule {
	case "is required":
		return "is needed"
	case "is there twice":
		return "is there twice, so it is not clear which one is meant. Give it once"
	case "must hold no lone surrogate":
		return `holds half a character (\ud800 to \udfff alone). Write the whole character, or leave it out`
	case "must hold no NUL":
		return "holds a NUL character, which no parameter takes. Leave it out"
	case "is no known field":
		for _, p := range parametersOf(into) {
			if strings.EqualFold(p.name, field) {
				return "there is no such parameter; write it " + p.name + ", in lower case"
			}
		}
		return "there is no such parameter"
	case "must be a string", "must be true or false", "must be an array", "must be an object", "has a wrong form":
		for _, p := range parametersOf(into) {
			if p.name == field {
				return "must be " + kindWord(p.kind) + ", not " + given(members[field])
			}
		}
	}
	if strings.HasPrefix(rule, "is not valid JSON") {
		return "are no valid JSON object" // the place is of no use: it counts what was put around them
	}
	return rule
}

func takesWords(tool string, into any) string {
	var names []string
	for _, p := range parametersOf(into) {
		names = append(names, p.name)
	}
	if len(names) == 0 {
		return tool + " takes no parameters."
	}
	words := tool + " takes " + strings.Join(names, ", ") + "."
	if form, ok := short.Find(tool); ok {
		if _, example, ok := strings.Cut(form.Description, "Example: "); ok {
			words += " Example: " + example
		}
	}
	return words
}

func kindWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Pointer:
		return kindWord(t.Elem())
	}
	return "an object"
}

// given names a value that is wrong.
func given(raw json.RawMessage) string {
	switch {
	case len(raw) == 0:
		return "this"
	case raw[0] == '[':
		return "array"
	case raw[0] == '{':
		return "object"
	}
	return clip(string(raw), maxShownValue)
}

// integer is a whole number that may also come as a string, and an element's
// number as "[12]".
type integer int

// UnmarshalJSON implements json.Unmarshaler.
func (n *integer) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"[] `)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != math.Trunc(v) || math.Abs(v) > math.MaxInt32 {
		return errors.New("a whole number is needed")
	}
	*n = integer(v)
	return nil
}

// boolean is true or false, also as a string.
type boolean bool

// UnmarshalJSON implements json.Unmarshaler.
func (b *boolean) UnmarshalJSON(raw []byte) error {
	v, err := strconv.ParseBool(strings.ToLower(strings.Trim(string(raw), `" `)))
	if err != nil {
		return errors.New("true or false is needed")
	}
	*b = boolean(v)
	return nil
}

// named are the terminals or pages of a session, by the names that the model
// uses. The zero value is empty.
type named[T any] struct {
	items map[string]T
	order []string
	used  string // last
}

// add keeps v under name, or under name-2, name-3 and so on when it is taken.
func (n *named[T]) add(name string, v T) string {
	if n.items == nil {
		n.items = map[string]T{}
	}
	free := name
	for i := 2; ; i++ {
		if _, taken := n.items[free]; !taken {
			break
		}
		free = fmt.Sprintf("%s-%d", name, i)
	}
	n.items[free], n.used = v, free
	n.order = append(n.order, free)
	return free
}

// find gives the one of a name, or for "" the one used last.
func (n *named[T]) find(name string) (T, bool) {
	if name == "" {
		name = n.used
	}
	v, ok := n.items[name]
	if ok {
		n.used = name
	}
	return v, ok
}

func (n *named[T]) drop(name string) {
	delete(n.items, name)
	n.order = without(n.order, name)
	if n.used == name {
		n.used = ""
		if len(n.order) > 0 {
			n.used = n.order[len(n.order)-1]
		}
	}
}

func (n *named[T]) names() string {
	if len(n.order) == 0 {
		return "none"
	}
	return strings.Join(n.order, ", ")
}
