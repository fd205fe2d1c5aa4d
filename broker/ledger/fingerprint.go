package ledger

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxInput and inputDepth bound what is fingerprinted (broker spec 6.3).
	maxInput   = 64 << 10
	inputDepth = 32
)

// Target is the exact thing that a request acts on, part of its fingerprint.
type Target struct {
	WorkspaceID string `json:"workspaceId"`
	ResourceID  string `json:"resourceId"`
	Generation  string `json:"generation"`
	Revision    string `json:"revision"`
}

// Fingerprint is the SHA-256 of a request: its input and its target as
// canonical JSON, in which the keys are sorted, blanks are gone and each text
// has one spelling. Numbers keep theirs, since 1 and 1.0 may mean different
// things to a tool: the error is then a conflict and never a wrong replay.
func Fingerprint(input json.RawMessage, target Target) (Hash, error) {
	body, err := canonical(input)
	if err != nil {
		return Hash{}, fmt.Errorf("fingerprinting a request: %w", err)
	}
	var b strings.Builder
	b.WriteString(`{"input":`)
	b.WriteString(body)
	b.WriteString(`,"target":{"generation":`)
	quote(&b, target.Generation)
	b.WriteString(`,"resourceId":`)
	quote(&b, target.ResourceID)
	b.WriteString(`,"revision":`)
	quote(&b, target.Revision)
	b.WriteString(`,"workspaceId":`)
	quote(&b, target.WorkspaceID)
	b.WriteString(`}}`)
	return sha256.Sum256([]byte(b.String())), nil
}

// canonical rewrites one JSON value. It is no second parser of JSON: what it
// walks has been found valid, and it refuses what two decoders may read
// differently (a key twice, half a surrogate pair, broken UTF-8).
func canonical(input []byte) (string, error) {
	switch {
	case len(input) > maxInput:
		return "", fmt.Errorf("%w: an input of more than %d bytes", ErrInvalid, maxInput)
	case !utf8.Valid(input):
		return "", fmt.Errorf("%w: an input that is no UTF-8", ErrInvalid)
	case !json.Valid(input):
		return "", fmt.Errorf("%w: an input that is no JSON", ErrInvalid)
	}
	c := canon{in: input}
	if err := c.value(0); err != nil {
		return "", err
	}
	return c.out.String(), nil
}

type canon struct {
	in  []byte
	at  int
	out strings.Builder
}

func (c *canon) blanks() {
	for c.at < len(c.in) && strings.IndexByte(" \t\r\n", c.in[c.at]) >= 0 {
		c.at++
	}
}

// next skips blanks and steps over one byte, which validity guarantees.
func (c *canon) next() byte {
	c.blanks()
	c.at++
	return c.in[c.at-1]
}

func (c *canon) peek() byte {
	c.blanks()
	return c.in[c.at]
}

func (c *canon) value(depth int) error {
	switch c.peek() {
	case '{', '[':
		if depth >= inputDepth {
			return fmt.Errorf("%w: an input deeper than %d", ErrInvalid, inputDepth)
		}
		if c.in[c.at] == '{' {
			return c.object(depth)
		}
		return c.array(depth)
	case '"':
		text, err := c.text()
		if err != nil {
			return err
		}
		quote(&c.out, text)
		return nil
	}
	start := c.at // a number, true, false or null
	for c.at < len(c.in) && strings.IndexByte(" \t\r\n,]}", c.in[c.at]) < 0 {
		c.at++
	}
	c.out.Write(c.in[start:c.at])
	return nil
}

func (c *canon) array(depth int) error {
	c.next()
	c.out.WriteByte('[')
	for c.peek() != ']' {
		if err := c.value(depth + 1); err != nil {
			return err
		}
		if c.peek() == ',' {
			c.out.WriteByte(c.next())
		}
	}
	c.out.WriteByte(c.next())
	return nil
}

func (c *canon) object(depth int) error {
	type member struct{ key, value string }
	var members []member
	c.next()
	for c.peek() != '}' {
		key, err := c.text()
		if err != nil {
			return err
		}
		c.next() // the colon
		inner := canon{in: c.in, at: c.at}
		if err := inner.value(depth + 1); err != nil {
			return err
		}
		c.at = inner.at
		members = append(members, member{key, inner.out.String()})
		if c.peek() == ',' {
			c.next()
		}
	}
	c.next()
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	c.out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			if m.key == members[i-1].key {
				return fmt.Errorf("%w: an input with a key twice", ErrInvalid)
			}
			c.out.WriteByte(',')
		}
		quote(&c.out, m.key)
		c.out.WriteByte(':')
		c.out.WriteString(m.value)
	}
	c.out.WriteByte('}')
	return nil
}

// text reads one string. The standard decoder would turn half a surrogate pair
// into U+FFFD, and two different inputs would get one fingerprint.
func (c *canon) text() (string, error) {
	c.next() // the opening quote
	var b strings.Builder
	for {
		ch := c.in[c.at]
		c.at++
		switch ch {
		case '"':
			return b.String(), nil
		case '\\':
			r, err := c.escape()
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
		default:
			b.WriteByte(ch)
		}
	}
}

func (c *canon) escape() (rune, error) {
	ch := c.in[c.at]
	c.at++
	switch ch {
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return c.unicode()
	}
	return rune(ch), nil // quote, backslash, slash
}

func (c *canon) unicode() (rune, error) {
	r := c.hex()
	switch {
	case r == 0:
		return 0, fmt.Errorf("%w: an input with a NUL", ErrInvalid)
	case !utf16.IsSurrogate(r):
		return r, nil
	}
	if c.in[c.at] == '\\' && c.in[c.at+1] == 'u' {
		c.at += 2
		if pair := utf16.DecodeRune(r, c.hex()); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, fmt.Errorf("%w: an input with half a surrogate pair", ErrInvalid)
}

func (c *canon) hex() rune {
	n, _ := strconv.ParseUint(string(c.in[c.at:c.at+4]), 16, 16) // valid JSON: four hex digits
	c.at += 4
	return rune(n)
}

// quote writes a text with the fewest escapes that JSON allows.
func quote(b *strings.Builder, text string) {
	b.WriteByte('"')
	for i := range len(text) {
		switch ch := text[i]; {
		case ch == '"' || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch < 0x20:
			fmt.Fprintf(b, `\u%04x`, ch)
		default:
			b.WriteByte(ch)
		}
	}
	b.WriteByte('"')
}
