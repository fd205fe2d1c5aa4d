package control

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// fault is a refusal on its way up; each level puts its name in front of path.
type fault struct {
	path string
	rule string
}

func (f *fault) under(name string) *fault {
	switch {
	case f.path == "":
		f.path = name
	case f.path[0] == '[':
		f.path = name + f.path
	default:
		f.path = name + "." + f.path
	}
	return f
}

// scanner reads JSON strictly, byte by byte. It knows the grammar; decode.go
// knows the types.
type scanner struct {
	data  []byte
	pos   int
	depth int
}

func (s *scanner) refuse(rule string) *fault { return &fault{rule: rule} }

func (s *scanner) syntax() *fault {
	return &fault{rule: fmt.Sprintf("is not valid JSON at byte %d", s.pos)}
}

// peek skips white space and returns the next byte, 0 at the end. A NUL in the
// data was refused before, so that 0 is not ambiguous.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

func (s *scanner) literal(text string) bool {
	if !bytes.HasPrefix(s.data[s.pos:], []byte(text)) {
		return false
	}
	s.pos += len(text)
	return true
}

func (s *scanner) enter() *fault {
	s.depth++
	if s.depth > MaxDepth {
		return s.refuse(fmt.Sprintf("is nested deeper than %d levels", MaxDepth))
	}
	return nil
}

// members calls each with the decoded key of every member of an object; each
// must consume the value. Keys are compared as decoded, so that an escaped
// spelling of a key is the same key.
func (s *scanner) members(each func(key []byte) *fault) *fault {
	if f := s.enter(); f != nil {
		return f
	}
	defer func() { s.depth-- }()
	s.pos++ // the brace, seen by the caller
	if s.take('}') {
		return nil
	}
	for {
		if s.peek() != '"' {
			return s.syntax()
		}
		key, f := s.text()
		if f != nil {
			return f
		}
		if !s.take(':') {
			return s.syntax()
		}
		if f := each(key); f != nil {
			return f
		}
		switch {
		case s.take(','):
		case s.take('}'):
			return nil
		default:
			return s.syntax()
		}
	}
}

// items calls each before every item of an array; each must consume it.
func (s *scanner) items(each func(i int) *fault) *fault {
	if f := s.enter(); f != nil {
		return f
	}
	defer func() { s.depth-- }()
	s.pos++
	if s.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if f := each(i); f != nil {
			return f.under("[" + strconv.Itoa(i) + "]")
		}
		switch {
		case s.take(','):
		case s.take(']'):
			return nil
		default:
			return s.syntax()
		}
	}
}

// text reads a string; the result may share memory with the data.
func (s *scanner) text() ([]byte, *fault) {
	s.pos++ // the quote
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[start : s.pos-1], nil
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return nil, s.syntax()
		}
		s.pos++
	}
	return nil, s.syntax()
}

// escaped goes on with a string at its first backslash.
func (s *scanner) escaped(start int) ([]byte, *fault) {
	out := bytes.Clone(s.data[start:s.pos])
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		switch {
		case c == '"':
			s.pos++
			return out, nil
		case c < 0x20:
			return nil, s.syntax()
		case c != '\\':
			out = append(out, c)
			s.pos++
		default:
			r, f := s.escape()
			if f != nil {
				return nil, f
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return nil, s.syntax()
}

func (s *scanner) escape() (rune, *fault) {
	if s.pos+1 >= len(s.data) {
		return 0, s.syntax()
	}
	c := s.data[s.pos+1]
	if i := bytes.IndexByte([]byte(`"\/bfnrt`), c); i >= 0 {
		s.pos += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, ok := s.unit()
	switch {
	case !ok:
		return 0, s.syntax()
	case r == 0:
		return 0, s.refuse("must hold no NUL")
	case !utf16.IsSurrogate(r):
		return r, nil
	}
	low, ok := s.unit()
	pair := utf16.DecodeRune(r, low)
	if !ok || pair == utf8.RuneError {
		return 0, s.refuse("must hold no lone surrogate")
	}
	return pair, nil
}

// unit reads one \uXXXX.
func (s *scanner) unit() (rune, bool) {
	if s.pos+6 > len(s.data) || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s.data[s.pos+2 : s.pos+6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	s.pos += 6
	return r, true
}

// number reads the text of a number, and reports whether it is written as a
// whole one.
func (s *scanner) number() (text []byte, whole bool, f *fault) {
	start := s.pos
	if s.pos < len(s.data) && s.data[s.pos] == '-' {
		s.pos++
	}
	whole = true
	first := s.pos
	if s.digits() == 0 || (s.data[first] == '0' && s.pos > first+1) {
		return nil, false, s.syntax()
	}
	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		whole = false
		s.pos++
		if s.digits() == 0 {
			return nil, false, s.syntax()
		}
	}
	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		whole = false
		s.pos++
		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}
		if s.digits() == 0 {
			return nil, false, s.syntax()
		}
	}
	return s.data[start:s.pos], whole, nil
}

func (s *scanner) digits() int {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
	}
	return s.pos - start
}

// float reads a number that a float64 can hold: 1e400 is refused, not rounded
// to infinity.
func (s *scanner) float() (float64, *fault) {
	text, _, f := s.number()
	if f != nil {
		return 0, f
	}
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(x, 0) {
		return 0, s.refuse("is out of the range of numbers")
	}
	return x, nil
}

// skip passes over one value of any type, as strictly as if it were decoded.
func (s *scanner) skip() *fault {
	switch c := s.peek(); {
	case c == '{':
		return s.skipObject()
	case c == '[':
		return s.items(func(int) *fault { return s.skip() })
	case c == '"':
		_, f := s.text()
		return f
	case c == '-' || (c >= '0' && c <= '9'):
		_, f := s.float()
		return f
	case s.literal("true"), s.literal("false"), s.literal("null"):
		return nil
	}
	return s.syntax()
}

// fewKeys is how many keys are compared one by one before a map is worth it.
const fewKeys = 16

func (s *scanner) skipObject() *fault {
	var few [][]byte
	var many map[string]bool
	return s.members(func(key []byte) *fault {
		switch {
		case many != nil:
			if many[string(key)] {
				return s.refuse("is there twice").under(shown(key))
			}
			many[string(key)] = true
		default:
			for _, k := range few {
				if bytes.Equal(k, key) {
					return s.refuse("is there twice").under(shown(key))
				}
			}
			if few = append(few, key); len(few) == fewKeys {
				many = make(map[string]bool, 2*fewKeys)
				for _, k := range few {
					many[string(k)] = true
				}
			}
		}
		if f := s.skip(); f != nil {
			return f.under(shown(key))
		}
		return nil
	})
}

// maxShownKey bounds what an error repeats of a key that the caller made up.
const maxShownKey = 64

// shown is a key as an error may name it: a plain name as it is, anything else
// quoted in ASCII, so that no control character reaches a log or a screen.
func shown(key []byte) string {
	if len(key) > maxShownKey {
		key = append(bytes.Clone(key[:maxShownKey]), "..."...)
	}
	if ValidID(string(key)) {
		return string(key)
	}
	return strconv.QuoteToASCII(string(key))
}
