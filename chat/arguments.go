package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"lomi/agent"
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

// decodeArguments reads a call's arguments; the text says what is wrong with
// them, for the model. Small models write numbers as strings, which is let
// pass; a parameter that does not exist is not, because its author expects
// something of it.
func decodeArguments(call models.ToolCall, into any) string {
	raw := bytes.TrimSpace(call.Arguments)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return argumentFault(call.Name, into, err)
	}
	return ""
}

func argumentFault(tool string, into any, err error) string {
	fields := parameterNames(into)
	takes := tool + " takes no parameters."
	if len(fields) > 0 {
		takes = tool + " takes " + strings.Join(fields, ", ") + "."
	}
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := typed.Field
		if field == "" {
			field = "arguments"
		}
		return fmt.Sprintf("%s: must be %s, not %s. %s", field, kindWord(typed.Type), typed.Value, takes)
	}
	if wrong, ok := errors.AsType[*valueError](err); ok {
		return wrong.Error() + ". " + takes
	}
	if _, name, ok := strings.Cut(err.Error(), "unknown field "); ok {
		return fmt.Sprintf("%s: there is no such parameter. %s", strings.Trim(clip(name, 100), `"`), takes)
	}
	return "The arguments are no valid JSON object. " + takes
}

func parameterNames(into any) []string {
	t := reflect.TypeOf(into).Elem()
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
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
	}
	return "an object"
}

// valueError is a value that cannot be read as what it should be.
type valueError struct{ what, is string }

func (e *valueError) Error() string { return e.what + ", not " + clip(e.is, 60) }

// integer is a whole number that may also come as a string, and an element's
// number as "[12]".
type integer int

// UnmarshalJSON implements json.Unmarshaler.
func (n *integer) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"[] `)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != float64(int(v)) {
		return &valueError{"a whole number is needed", string(raw)}
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
		return &valueError{"true or false is needed", string(raw)}
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
