package terminal

import (
	"strings"
	"unicode"
)

// keyBytes is what a key sends. Arrows, home and end have two forms; the
// program chooses with the cursor-key mode.
func keyBytes(key string, appCursor bool) []byte {
	fixed := map[string]string{
		"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f",
		"delete": "\x1b[3~", "insert": "\x1b[2~", "page_up": "\x1b[5~", "page_down": "\x1b[6~",
		"f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS",
		"f5": "\x1b[15~", "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~",
		"f9": "\x1b[20~", "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
	}
	cursorKeys := map[string]string{"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
	if s, ok := fixed[key]; ok {
		return []byte(s)
	}
	if s, ok := cursorKeys[key]; ok {
		if appCursor {
			return []byte("\x1bO" + s)
		}
		return []byte("\x1b[" + s)
	}
	if letter, ok := strings.CutPrefix(key, "ctrl_"); ok && len(letter) == 1 && letter[0] >= 'a' && letter[0] <= 'z' {
		return []byte{letter[0] - 'a' + 1}
	}
	return nil
}

// textBytes is what typing a text sends. Controls other than tab and the line
// break are left out: an escape character could end a bracketed paste or press
// a key that nobody asked for (S-94). Where the program knows pastes, several
// lines go as one, with a last line break as Enter after it.
func textBytes(text string, paste bool) []byte {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	text = strings.Map(func(r rune) rune {
		if r == '\n' {
			return '\r'
		}
		if r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	body, enter := strings.CutSuffix(text, "\r")
	if !paste || !strings.Contains(body, "\r") {
		return []byte(text)
	}
	out := pasteBegin + body + pasteEnd
	if enter {
		out += "\r"
	}
	return []byte(out)
}

// cleanLine makes any text fit for one line of a question to a person.
func cleanLine(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		s = string(wholeRunes([]byte(s[:most]))) + "…"
	}
	return s
}
