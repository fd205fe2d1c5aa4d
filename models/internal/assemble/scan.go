package assemble

import (
	"bytes"
	"strings"
)

// itemKind names what the scanner found in the text of a reply.
type itemKind int

const (
	itemText itemKind = iota
	itemThinking
	itemCall
)

// item is one find. Of a call, text is the arguments as the model wrote them.
type item struct {
	kind      itemKind
	text      string
	name      string
	malformed string
}

// plainCall is a call written as bare JSON or inside a code fence. It counts
// only when nothing but calls follows it: in the middle of an explanation it
// is an example.
type plainCall struct {
	item
	raw   string
	known bool
}

// mode is where the scanner stands.
type mode int

const (
	inText  mode = iota
	inThink      // after <think> at the start of a reply
	inFence      // the line that opens a code fence has begun
	inCall       // what may be a call has begun
	inWaste      // the rest of a call that was too large
)

const (
	tagCall     = "<tool_call>"
	tagCallEnd  = "</tool_call>"
	tagFunction = "<function="
	tagThink    = "<think>"
	tagThinkEnd = "</think>"
	fence       = "```"
)

// maxHeld bounds what is held back: one call and its tags.
const maxHeld = maxArguments + 4<<10

// scanner finds calls and reasoning that a model wrote into its text. It holds
// back no more than it must: a sentence flows through, and only what may be
// the beginning of a call waits.
type scanner struct {
	known   func(name string) bool
	offered bool // tools were offered; without any, nothing is a call

	buf     []byte
	mode    mode
	began   bool // something other than blanks was let through
	midLine bool // something other than blanks stands on this line
	fenced  bool // inside a code fence that is an ordinary one
	lead    int  // where the candidate begins in buf, behind its fence
	braces  braces
	plain   []plainCall
	out     []item
}

func (s *scanner) feed(piece string) []item {
	s.buf = append(s.buf, piece...)
	return s.run(false)
}

func (s *scanner) finish() []item {
	out := s.run(true)
	for _, p := range s.plain {
		if p.known {
			out = append(out, p.item)
		} else {
			out = append(out, item{kind: itemText, text: p.raw})
		}
	}
	s.plain = nil
	return out
}

// abort gives everything that is held back as the text it is.
func (s *scanner) abort() []item {
	var b strings.Builder
	for _, p := range s.plain {
		b.WriteString(p.raw)
	}
	if s.mode != inWaste {
		b.Write(s.buf)
	}
	kind := itemText
	if s.mode == inThink {
		kind = itemThinking
	}
	s.plain, s.buf = nil, nil
	if b.Len() == 0 {
		return nil
	}
	return []item{{kind: kind, text: b.String()}}
}

func (s *scanner) run(final bool) []item {
	for len(s.buf) > 0 && s.step(final) {
	}
	out := s.out
	s.out = nil
	return out
}

// step moves on by one find and reports whether there may be another.
func (s *scanner) step(final bool) bool {
	switch s.mode {
	case inThink:
		return s.stepThink(final)
	case inFence:
		return s.stepFence(final)
	case inCall:
		return s.stepCall(final)
	case inWaste:
		return s.stepWaste()
	}
	return s.stepText(final)
}

func (s *scanner) stepText(final bool) bool {
	midLine, began := s.midLine, s.began || len(s.plain) > 0
	for i, c := range s.buf {
		at := midLine
		switch c {
		case '\n':
			midLine = false
			continue
		case ' ', '\t', '\r':
			continue
		}
		midLine = true
		rest := s.buf[i:]
		next, held := s.trigger(rest, at, began)
		if held && !final {
			s.emit(i)
			s.midLine = at
			return false
		}
		if next != nil {
			s.emit(i)
			s.midLine = at
			next()
			return true
		}
		began = true
	}
	s.emit(len(s.buf))
	s.midLine = midLine
	return false
}

// trigger tells what begins at the start of rest: a function that goes there,
// or held when more is needed to know.
func (s *scanner) trigger(rest []byte, midLine, began bool) (next func(), held bool) {
	if rest[0] != '<' && rest[0] != '{' && rest[0] != '`' {
		return nil, false
	}
	tags := map[string]func(){}
	switch {
	case rest[0] == '{':
		if s.offered && !midLine && !s.fenced {
			return func() { s.enter(inCall) }, false
		}
	case rest[0] == '`':
		if s.offered && !midLine {
			tags[fence] = func() { s.enter(inFence) }
		}
	default:
		tags[tagThinkEnd] = func() { s.drop(len(tagThinkEnd)) }
		if !began {
			tags[tagThink] = func() { s.drop(len(tagThink)); s.mode = inThink }
		}
		if s.offered && !s.fenced {
			tags[tagCall] = func() { s.enter(inCall) }
			tags[tagFunction] = func() { s.enter(inCall) }
			tags[tagCallEnd] = s.confirm
		}
	}
	for tag, to := range tags {
		if bytes.HasPrefix(rest, []byte(tag)) {
			return to, false
		}
		if strings.HasPrefix(tag, string(rest[:min(len(rest), len(tag))])) {
			held = true
		}
	}
	return nil, held
}

func (s *scanner) enter(m mode) {
	s.mode, s.lead, s.braces = m, 0, braces{}
}

func (s *scanner) drop(n int) {
	s.buf = append(s.buf[:0], s.buf[n:]...)
}

// emit lets the first n bytes through as text. Text after a plain call shows
// that the call was an example.
func (s *scanner) emit(n int) {
	if n == 0 {
		return
	}
	text := string(s.buf[:n])
	s.drop(n)
	blank := strings.TrimSpace(text) == ""
	if len(s.plain) > 0 {
		if blank {
			s.plain[len(s.plain)-1].raw += text
			return
		}
		var b strings.Builder
		for _, p := range s.plain {
			b.WriteString(p.raw)
		}
		text = b.String() + text
		s.plain = nil
	}
	s.began = s.began || !blank
	s.out = append(s.out, item{kind: itemText, text: text})
}

// confirm takes a closing tag whose opening tag the model left out, as
// qwen3-coder does: what stood before it was meant as a call.
func (s *scanner) confirm() {
	s.drop(len(tagCallEnd))
	s.release()
}

// release makes calls of the plain ones: more of the call form follows them.
func (s *scanner) release() {
	for _, p := range s.plain {
		s.out = append(s.out, p.item)
	}
	s.plain = nil
}

func (s *scanner) stepThink(final bool) bool {
	end := bytes.Index(s.buf, []byte(tagThinkEnd))
	n := end
	if end < 0 {
		n = len(s.buf)
		if !final {
			n -= partial(s.buf, tagThinkEnd)
		}
	}
	if n > 0 {
		s.out = append(s.out, item{kind: itemThinking, text: string(s.buf[:n])})
		s.drop(n)
	}
	if end < 0 {
		return false
	}
	s.drop(len(tagThinkEnd))
	s.mode, s.midLine = inText, false
	return true
}

// partial counts the bytes at the end of buf that may be the start of tag.
func partial(buf []byte, tag string) int {
	for n := min(len(buf), len(tag)-1); n > 0; n-- {
		if bytes.HasSuffix(buf, []byte(tag[:n])) {
			return n
		}
	}
	return 0
}

// stepFence stands before a code fence and decides whether it holds a call or
// is an ordinary one.
func (s *scanner) stepFence(final bool) bool {
	const maxInfo = 40 // "```json"; a longer line is no info string of a call
	ordinary := func(n int, inside bool) bool {
		s.emit(n)
		s.mode, s.fenced, s.midLine = inText, inside, false
		return true
	}
	if s.fenced {
		n := len(fence)
		ordinary(n, false)
		s.midLine = true
		return true
	}
	line := bytes.IndexByte(s.buf, '\n')
	if line < 0 {
		if len(s.buf) <= maxInfo && !final {
			return false
		}
		ordinary(len(fence), true)
		s.midLine = true
		return true
	}
	body := bytes.TrimLeft(s.buf[line+1:], " \t\r\n")
	if len(body) == 0 {
		if !final && len(s.buf) <= 4*maxInfo {
			return false
		}
		return ordinary(line+1, true)
	}
	if line > maxInfo || (body[0] != '{' && !begins(body, tagCall) && !begins(body, tagFunction)) {
		return ordinary(line+1, true)
	}
	s.mode, s.lead, s.braces = inCall, len(s.buf)-len(body), braces{}
	return true
}

// begins reports whether body starts with tag, as far as body goes.
func begins(body []byte, tag string) bool {
	n := min(len(body), len(tag))
	return string(body[:n]) == tag[:n]
}

// stepCall stands before what may be a call, with its fence before it when
// lead is not 0.
func (s *scanner) stepCall(final bool) bool {
	found, n, verdict := s.read(s.buf[s.lead:], final)
	inFence := s.lead > 0
	if verdict == isCall && inFence {
		n, verdict = closeFence(s.buf[s.lead:], n, final)
	}
	switch verdict {
	case undecided:
		if len(s.buf) > maxHeld {
			s.tooLarge()
			return true
		}
		return false
	case noCall:
		s.emit(s.lead + 1)
		s.mode, s.midLine, s.fenced = inText, true, inFence
		return true
	}
	n += s.lead
	raw := string(s.buf[:n])
	plain := inFence || s.buf[s.lead] == '{'
	s.drop(n)
	s.mode, s.midLine = inText, false
	switch {
	case plain:
		s.plain = append(s.plain, plainCall{found, raw, s.known(found.name)})
	default:
		s.release()
		s.out = append(s.out, found)
	}
	return true
}

// closeFence looks for the end of the code fence around a call of n bytes.
func closeFence(body []byte, n int, final bool) (int, verdict) {
	after := bytes.TrimLeft(body[n:], " \t\r\n")
	switch {
	case bytes.HasPrefix(after, []byte(fence)):
		return len(body) - len(after) + len(fence), isCall
	case !begins(after, fence):
		return n, noCall
	case final:
		return len(body) - len(after), isCall
	}
	return n, undecided
}

// tooLarge gives up on a call that is larger than any may be. As bare JSON it
// was an answer; in tags it is a call that must not run.
func (s *scanner) tooLarge() {
	if s.buf[s.lead] == '{' {
		s.emit(len(s.buf))
		s.mode, s.midLine = inText, true
		return
	}
	s.release()
	s.out = append(s.out, item{
		kind: itemCall, name: nameIn(s.buf[s.lead:]), text: string(s.buf[s.lead : s.lead+1024]),
		malformed: "the call is larger than 128 KiB",
	})
	s.mode = inWaste
}

func (s *scanner) stepWaste() bool {
	if end := bytes.Index(s.buf, []byte(tagCallEnd)); end >= 0 {
		s.drop(end + len(tagCallEnd))
		s.mode, s.midLine = inText, false
		return true
	}
	s.drop(len(s.buf) - partial(s.buf, tagCallEnd))
	return false
}
