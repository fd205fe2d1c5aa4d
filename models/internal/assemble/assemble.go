// Package assemble makes one reply out of the pieces that an engine streams:
// text, reasoning and tool calls, however the engine cuts them. Both engines
// use it, so that a model which leaks its calls as text is read the same way
// whatever serves it.
//
// Two rules hold everywhere. A call leaves only at the end of the reply, when
// it is known that the reply was not cut off; and arguments are never guessed:
// what cannot be read becomes a call that says why it must not run.
package assemble

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"lomi/models"
)

const (
	// maxArguments bounds one call. The chat takes 64 KiB; the rest is room for
	// an encoding that is longer than what it encodes.
	maxArguments = 128 << 10
	// maxCalls bounds the calls of one reply at the budget of a whole turn, with
	// some over so that the turn can say that the budget is spent.
	maxCalls = 160
	// unreadable names a call whose name could not be read, because a history
	// in which a call has no name is refused by several engines.
	unreadable = "unreadable_call"
)

// Assembler gathers one reply. It is not safe for concurrent use.
type Assembler struct {
	tools map[string]*tool
	names []string
	calls []*call
	scan  scanner
	tail  []byte // the first bytes of a character whose rest has not come

	sawText, sawThinking bool
	overflowed           bool
}

// call is one tool call in the making.
type call struct {
	index     int // as the engine numbers it, -1 when it does not
	id, name  string
	args      strings.Builder
	malformed string
	tooLarge  bool
}

// New starts a reply to a request that offered these tools.
func New(specs []models.ToolSpec) *Assembler {
	a := &Assembler{tools: make(map[string]*tool, len(specs))}
	for _, spec := range specs {
		a.tools[spec.Name] = newTool(spec)
		a.names = append(a.names, spec.Name)
	}
	a.scan.known = func(name string) bool { _, ok := a.tools[a.normal(name)]; return ok }
	a.scan.offered = len(specs) > 0
	return a
}

// Text takes the next piece of the answer and gives what of it can be shown.
// What may be the beginning of a leaked call or of reasoning is held back.
func (a *Assembler) Text(piece string) []models.Delta {
	if len(a.tail) > 0 {
		piece = string(a.tail) + piece
		a.tail = nil
	}
	if n := incomplete(piece); n > 0 {
		a.tail = []byte(piece[len(piece)-n:])
		piece = piece[:len(piece)-n]
	}
	return a.take(a.scan.feed(strings.ToValidUTF8(piece, "\ufffd")))
}

// Thinking takes the next piece of reasoning. Calls inside it are not looked
// for: a model that only considers a call has not made it.
func (a *Assembler) Thinking(piece string) []models.Delta {
	piece = strings.ToValidUTF8(piece, "\ufffd")
	if piece == "" {
		return nil
	}
	if strings.TrimSpace(piece) != "" {
		a.sawThinking = true
	}
	return []models.Delta{{Kind: models.DeltaThinking, Text: piece}}
}

// Whole takes a call that came in one piece. Arguments is the JSON as the
// engine wrote it.
func (a *Assembler) Whole(id, name string, arguments json.RawMessage) {
	if c := a.add(-1, id, name); c != nil {
		c.write(string(arguments))
	}
}

// Piece takes a fragment of a call. Index is nil when the engine left it out.
// Engines disagree on what names a call, so an id decides before an index, and
// an index before the order of arrival.
func (a *Assembler) Piece(index *int, id, name, arguments string) {
	c := a.find(index, id, name, arguments)
	if c == nil {
		i := -1
		if index != nil {
			i = *index
		}
		if c = a.add(i, id, name); c == nil {
			return
		}
	}
	if c.id == "" {
		c.id = id
	}
	if c.name == "" {
		c.name = name
	}
	c.write(arguments)
}

// find returns the call that a fragment continues, nil when it begins one. A
// call that has the id of another one is still a call of its own: merged, the
// two would be one that nobody made. The turn refuses the second.
func (a *Assembler) find(index *int, id, name, arguments string) *call {
	for _, c := range slices.Backward(a.calls) {
		if id == "" || c.id != id {
			continue
		}
		elsewhere := index != nil && c.index >= 0 && c.index != *index
		switch {
		case elsewhere && name == "" && !a.at(*index, id):
			return c // the index of a piece, not of a call
		case elsewhere:
			continue
		case strings.TrimSpace(arguments) != "" && c.endsBefore(name):
			return nil
		}
		return c
	}
	var at *call
	for i := len(a.calls) - 1; i >= 0 && at == nil; i-- {
		if index == nil || a.calls[i].index == *index {
			at = a.calls[i]
		}
	}
	switch {
	case at == nil:
		return nil
	case id != "" && at.id != "":
		return nil // another id at the same index: another call
	case at.endsBefore(name):
		return nil
	}
	return at
}

// at reports whether a call of this id is numbered index.
func (a *Assembler) at(index int, id string) bool {
	return slices.ContainsFunc(a.calls, func(c *call) bool { return c.id == id && c.index == index })
}

// endsBefore reports whether a fragment with this name begins the next call: a
// name again after whole arguments does, and another name always.
func (c *call) endsBefore(name string) bool {
	return name != "" && c.name != "" && (name != c.name || json.Valid([]byte(c.args.String())))
}

func (a *Assembler) add(index int, id, name string) *call {
	if len(a.calls) >= maxCalls {
		a.overflowed = true
		return nil
	}
	c := &call{index: index, id: id, name: name}
	a.calls = append(a.calls, c)
	return c
}

func (c *call) write(arguments string) {
	if c.args.Len()+len(arguments) > maxArguments {
		c.tooLarge = true
		return
	}
	c.args.WriteString(arguments)
}

// take turns what the scanner let through into deltas and calls.
func (a *Assembler) take(items []item) []models.Delta {
	var out []models.Delta
	for _, it := range items {
		switch it.kind {
		case itemText:
			text := it.text
			if !a.sawText { // no reply begins with the blank lines that templates leave
				text = strings.TrimLeft(text, " \t\r\n")
			}
			if text == "" {
				continue
			}
			a.sawText = true
			out = append(out, models.Delta{Kind: models.DeltaText, Text: text})
		case itemThinking:
			out = append(out, a.Thinking(it.text)...)
		case itemCall:
			if c := a.add(-1, "", it.name); c != nil {
				c.malformed = it.malformed
				c.write(it.text)
			}
		}
	}
	return out
}

// Abort gives what was held back of a reply that ends in an error, so that no
// text which the model wrote is lost. Calls are dropped.
func (a *Assembler) Abort() []models.Delta {
	return a.take(a.scan.abort())
}

// Finish ends the reply: the rest of the text, the calls, the finish. Reason
// is what the engine said; calls and missing text change it.
func (a *Assembler) Finish(reason models.FinishReason) ([]models.Delta, error) {
	var out []models.Delta
	if len(a.tail) > 0 {
		out = a.take(a.scan.feed("\ufffd"))
		a.tail = nil
	}
	out = append(out, a.take(a.scan.finish())...)
	finish := func(r models.FinishReason) ([]models.Delta, error) {
		for _, c := range a.calls {
			out = append(out, models.Delta{Kind: models.DeltaCall, Call: a.settle(c)})
		}
		return append(out, models.Delta{Kind: models.DeltaFinish, Finish: r}), nil
	}
	answered := a.sawText || len(a.calls) > 0
	switch {
	case reason == models.FinishRefusal:
		a.calls = nil
		return finish(models.FinishRefusal)
	case !answered && a.sawThinking:
		return finish(models.FinishThinkingOnly)
	case reason == models.FinishLength:
		// The calls leave too, so that a person sees what was not run. None may
		// run: even one that looks whole may lack what would have come.
		for _, c := range a.calls {
			c.malformed = "the reply was cut off at the model's limit"
		}
		return finish(models.FinishLength)
	case !answered:
		return out, models.ErrEmpty
	case a.overflowed:
		return out, fmt.Errorf("more than %d tool calls in one reply: %w", maxCalls, models.ErrProtocol)
	case len(a.calls) == 0:
		return finish(models.FinishStop)
	}
	return finish(models.FinishCalls)
}

// settle makes the call of the port out of what was gathered.
func (a *Assembler) settle(c *call) *models.ToolCall {
	out := &models.ToolCall{ID: c.id, Name: a.normal(c.name)}
	if out.ID == "" {
		out.ID = newID()
	}
	raw := c.args.String()
	if out.Name == "" {
		out.Name = unreadable
		c.malformed = cmpOr(c.malformed, "the call has no name")
	}
	if c.tooLarge {
		c.malformed = "the arguments are larger than 128 KiB"
	}
	if c.malformed == "" {
		var why error
		out.Arguments, why = object(raw)
		if why == nil {
			out.Arguments = a.tools[out.Name].coerce(out.Arguments)
			return out
		}
		c.malformed = "the arguments are not a JSON object: " + why.Error()
	}
	out.Malformed = c.malformed
	out.Arguments, _ = json.Marshal(strings.ToValidUTF8(raw, "\ufffd")) // a string always encodes
	return out
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// newID names a call that the engine left without a name. It is random, so
// that calls of different replies in one conversation stay apart.
func newID() string {
	var b [9]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return "call_" + hex.EncodeToString(b[:])
}

// incomplete counts the bytes at the end of s that begin a character without
// ending it.
func incomplete(s string) int {
	for n := 1; n <= 3 && n <= len(s); n++ {
		if b := s[len(s)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRuneInString(s[len(s)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
