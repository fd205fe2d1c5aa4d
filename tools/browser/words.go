package browser

import (
	"strings"
	"unicode"
)

// pageMark is the line of a message after which the page speaks. What reads
// messages fences all that follows it.
const pageMark = "From the page:"

// fromPage puts what a page says under a message of ours: one line of at most
// n runes behind the mark, so that it can neither pass for our words nor bring
// a mark of its own.
func fromPage(ours, theirs string, n int) string {
	theirs = line(theirs, n)
	if theirs == "" {
		return ours
	}
	return ours + "\n" + pageMark + "\n" + theirs
}

// clip cuts a text to n runes, with a mark.
func clip(s string, n int) string {
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return s
}

// line makes one line of a page's text for a message: at most n runes, without
// line breaks and without what nobody sees or what turns the direction of
// reading, which could show a person another text than a model reads.
func line(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.Is(unicode.Cc, r):
			return ' '
		case unseen(r):
			return -1
		}
		return r
	}, clip(s, 8*n))
	return clip(strings.Join(strings.Fields(s), " "), n)
}

// unseen reports characters that take no room or only look like a blank:
// bidirectional controls, joiners, tags, variation selectors and fillers.
func unseen(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	}
	return unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Variation_Selector) || r == unicode.ReplacementChar
}
