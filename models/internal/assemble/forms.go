package assemble

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// verdict says what a candidate turned out to be.
type verdict int

const (
	undecided verdict = iota
	isCall
	noCall
)

const (
	cutOff   = "the call was cut off before its end"
	notValid = "the call is not valid JSON: "
)

// read decides whether body begins with a call, and of how many bytes.
func (s *scanner) read(body []byte, final bool) (item, int, verdict) {
	switch {
	case body[0] == '{':
		return s.readPlain(body, final)
	case bytes.HasPrefix(body, []byte(tagFunction)):
		found, n, v := readFunction(body, final)
		if v == isCall {
			n, v = closeTag(body, n, final)
		}
		return found, n, v
	case bytes.HasPrefix(body, []byte(tagCall)):
		return s.readTagged(body, final)
	case final:
		return item{}, 0, noCall
	}
	return item{}, 0, undecided
}

// readTagged reads <tool_call>, either family's form inside, </tool_call>.
func (s *scanner) readTagged(body []byte, final bool) (item, int, verdict) {
	inner := bytes.TrimLeft(body[len(tagCall):], " \t\r\n")
	at := len(body) - len(inner)
	var found item
	var n int
	var v verdict
	switch {
	case len(inner) == 0:
		if final {
			return item{kind: itemCall, malformed: cutOff}, len(body), isCall
		}
		return item{}, 0, undecided
	case inner[0] == '{':
		found, n, v = s.readObject(inner, final)
	case bytes.HasPrefix(inner, []byte(tagFunction)):
		found, n, v = readFunction(inner, final)
	case begins(inner, tagFunction) && !final:
		return item{}, 0, undecided
	default:
		return item{}, 0, noCall // prose about the tag
	}
	if v != isCall {
		return found, n, v
	}
	n, v = closeTag(body, at+n, final)
	return found, n, v
}

// closeTag swallows the closing tag behind a whole call of n bytes. A model
// that leaves it out has still said everything.
func closeTag(body []byte, n int, final bool) (int, verdict) {
	after := bytes.TrimLeft(body[n:], " \t\r\n")
	switch {
	case bytes.HasPrefix(after, []byte(tagCallEnd)):
		return len(body) - len(after) + len(tagCallEnd), isCall
	case begins(after, tagCallEnd) && !final:
		return n, undecided
	}
	return n, isCall
}

// readObject reads the JSON form inside a tag. What stands in the tag was meant
// as a call, so what cannot be read is a malformed one.
func (s *scanner) readObject(inner []byte, final bool) (item, int, verdict) {
	end := s.braces.end(inner)
	if end < 0 {
		if !final {
			return item{}, 0, undecided
		}
		end = len(inner) // a string that never closed swallows what follows
		if cut := bytes.Index(inner, []byte(tagCallEnd)); cut >= 0 {
			end = cut
		}
		text := string(bytes.TrimSpace(inner[:end]))
		return item{kind: itemCall, name: nameIn(inner[:end]), text: text, malformed: cutOff}, end, isCall
	}
	found, ok := shape(inner[:end])
	if !ok {
		why := notValid + "it needs one name and one arguments"
		if !json.Valid(inner[:end]) {
			why = notValid + fault(string(inner[:end]))
		}
		found = item{kind: itemCall, name: nameIn(inner[:end]), text: string(inner[:end]), malformed: why}
	}
	return found, end, isCall
}

// readPlain reads a call written as bare JSON. It is one only when it has the
// form of a call; whether it counts is for the caller.
func (s *scanner) readPlain(body []byte, final bool) (item, int, verdict) {
	if !mayBeCall(body) {
		return item{}, 0, noCall
	}
	end := s.braces.end(body)
	if end >= 0 {
		if found, ok := shape(body[:end]); ok {
			return found, end, isCall
		}
		if json.Valid(body[:end]) {
			return item{}, 0, noCall
		}
	} else if !final {
		return item{}, 0, undecided
	} else {
		end = len(body)
	}
	// It names a tool that was offered and cannot be read: the model is told,
	// rather than the person shown half a call as an answer.
	if m := plainHead.FindSubmatch(body[:end]); m != nil && s.known(string(m[1])) {
		why := cutOff
		if end < len(body) || s.braces.closed {
			why = notValid + fault(string(body[:end]))
		}
		return item{kind: itemCall, name: string(m[1]), text: string(body[:end]), malformed: why}, end, isCall
	}
	return item{}, 0, noCall
}

var (
	plainHead  = regexp.MustCompile(`^\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:`)
	anyName    = regexp.MustCompile(`"name"\s*:\s*"([^"\\]{1,128})"`)
	anyFuncTag = regexp.MustCompile(`<function=([^>\s]{1,128})>`)
)

// nameIn finds the name in a call that cannot be read, for the error's sake.
func nameIn(text []byte) string {
	for _, re := range []*regexp.Regexp{anyName, anyFuncTag} {
		if m := re.FindSubmatch(text); m != nil {
			return string(m[1])
		}
	}
	return ""
}

// mayBeCall reports whether the first key of an object, as far as it is there,
// is one that a call begins with, so that a JSON answer is not held back.
func mayBeCall(body []byte) bool {
	rest := bytes.TrimLeft(body[1:], " \t\r\n")
	if len(rest) == 0 {
		return true
	}
	return slices.ContainsFunc([]string{`"name"`, `"arguments"`, `"parameters"`, `"function"`, `"type"`, `"id"`},
		func(key string) bool { return begins(rest, key) })
}

// shape reads the objects that models write for a call. One in which a key is
// there twice, in whatever case, could be read as two different calls and is
// none.
func shape(object []byte) (item, bool) {
	if !json.Valid(object) {
		return item{}, false
	}
	members, err := split(object)
	if err != nil {
		return item{}, false
	}
	v := map[string]json.RawMessage{}
	for _, m := range members {
		key := strings.ToLower(m.name)
		if _, twice := v[key]; twice {
			return item{}, false
		}
		v[key] = m.value
	}
	var name string
	if text, ok := v["name"]; ok && json.Unmarshal(text, &name) != nil {
		return item{}, false
	}
	if function, ok := v["function"]; ok && name == "" {
		if function[0] == '{' {
			return shape(function)
		}
		if json.Unmarshal(function, &name) != nil {
			return item{}, false
		}
	}
	arguments := v["arguments"]
	if arguments == nil {
		arguments = v["parameters"]
	}
	if name == "" || arguments == nil {
		return item{}, false
	}
	return item{kind: itemCall, name: name, text: string(arguments)}, true
}

// readFunction reads <function=NAME><parameter=KEY>value</parameter>…</function>.
// A parameter ends where its closing tag is followed by what may follow it, so
// that a value can hold the tags itself.
func readFunction(body []byte, final bool) (item, int, verdict) {
	more := func(why string) (item, int, verdict) {
		if !final {
			return item{}, 0, undecided
		}
		return item{kind: itemCall, name: nameIn(body), text: string(body), malformed: why}, len(body), isCall
	}
	head := bytes.IndexByte(body, '>')
	if line := bytes.IndexByte(body, '\n'); line >= 0 && (head < 0 || line < head) {
		return item{}, 0, noCall
	}
	if head < 0 {
		return more(cutOff)
	}
	name := strings.Trim(string(body[len(tagFunction):head]), "\"' ")
	rest := body[head+1:]
	var members []property
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n")
		switch {
		case bytes.HasPrefix(rest, []byte("</function>")):
			n := len(body) - len(rest) + len("</function>")
			return item{kind: itemCall, name: name, text: string(join(members))}, n, isCall
		case bytes.HasPrefix(rest, []byte(tagCallEnd)), len(rest) == 0 && final && len(members) > 0:
			// The end of the function is left out, every parameter is whole.
			return item{kind: itemCall, name: name, text: string(join(members))}, len(body) - len(rest), isCall
		case !bytes.HasPrefix(rest, []byte("<parameter=")):
			if begins(rest, "<parameter=") || begins(rest, "</function>") || begins(rest, tagCallEnd) {
				return more(cutOff)
			}
			end := len(body)
			if i := bytes.Index(rest, []byte(tagCallEnd)); i >= 0 {
				end = len(body) - len(rest) + i
			} else if !final {
				return item{}, 0, undecided
			}
			return item{kind: itemCall, name: name, text: string(body[:end]),
				malformed: "there is text between the parameters"}, end, isCall
		}
		key, value, n := readParameter(rest, final)
		if n < 0 {
			return more(cutOff)
		}
		quoted, _ := json.Marshal(value) // a string always encodes
		members = append(members, property{key, quoted})
		rest = rest[n:]
	}
}

// readParameter reads one parameter; n is -1 when its end is not there.
func readParameter(body []byte, final bool) (key, value string, n int) {
	const closing = "</parameter>"
	head := bytes.IndexByte(body, '>')
	if head < 0 {
		return "", "", -1
	}
	key = strings.Trim(string(body[len("<parameter="):head]), "\"' ")
	for at := head + 1; ; {
		i := bytes.Index(body[at:], []byte(closing))
		if i < 0 {
			return "", "", -1
		}
		end := at + i
		at = end + len(closing)
		after := bytes.TrimLeft(body[at:], " \t\r\n")
		follows := func(tag string) bool { return len(after) >= len(tag) && begins(after, tag) }
		if follows("<parameter=") || follows("</function>") || follows(tagCallEnd) || (len(after) == 0 && final) {
			text := string(body[head+1 : end])
			text = strings.TrimPrefix(strings.TrimPrefix(text, "\r"), "\n")
			text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
			return key, text, at
		}
	}
}

// braces finds the end of a JSON object in text that grows. It remembers how
// far it came, so that a call in one-byte pieces is read once.
type braces struct {
	pos, depth        int
	inString, escaped bool
	closed            bool
}

// end returns the offset behind the object at the start of text, -1 when it is
// not there yet. Text only ever grows between two calls.
func (b *braces) end(text []byte) int {
	for ; b.pos < len(text) && !b.closed; b.pos++ {
		switch c := text[b.pos]; {
		case b.escaped:
			b.escaped = false
		case b.inString:
			b.escaped, b.inString = c == '\\', c != '"'
		case c == '"':
			b.inString = true
		case c == '{':
			b.depth++
		case c == '}':
			b.depth--
			b.closed = b.depth == 0
		}
	}
	if b.closed {
		return b.pos
	}
	return -1
}
