package guard

import (
	"encoding/json"
	"unicode/utf8"
)

// Text is a JSON string that keeps the bytes of characters which were cut
// between two lines of a stream. The standard decoder would replace each half;
// the assembler puts them together again.
type Text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	if utf8.Valid(data) {
		var s *string // null is no text
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		if s != nil {
			*t = Text(*s)
		}
		return nil
	}
	// Each byte above ASCII travels as the character of its number through the
	// decoder and comes out as a byte again; what an escape made is larger, or
	// is rare enough to be wrong in a line that is broken already.
	wide := make([]rune, len(data))
	for i, b := range data {
		wide[i] = rune(b)
	}
	var s string
	if err := json.Unmarshal([]byte(string(wide)), &s); err != nil {
		return err
	}
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if r < 0x100 {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	*t = Text(out)
	return nil
}
