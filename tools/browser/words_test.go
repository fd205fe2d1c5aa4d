package browser

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// bugs: what a page says stays apart from our words, short and visible.
func TestWordsOfAPage(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain text", "plain text"},
		{"two\nlines\r\tand\u2028more\u0085", "two lines and more"},
		{"a\u202eb\u2066c\u2069\u200e\u061c", "abc"},
		{"z\u200bw\u200dn\ufeff\u2060\u00adx", "zwnx"},
		{"tag\U000e0041\U000e007f vs\ufe0f\U000e0100 fill\u3164\u2800\u115f", "tag vs fill"},
		{"esc\x1b[31m\x00", "esc [31m"},
		{"\ue000\xff", ""},
		{strings.Repeat("\u200b", 1000) + "late", "…"},
		{"漢字 🙂 Zoë", "漢字 🙂 Zoë"},
	} {
		if got := line(c.in, 40); got != c.want {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
	if got := line(strings.Repeat("x", 5000), 40); utf8.RuneCountInString(got) != 41 {
		t.Errorf("%d runes", utf8.RuneCountInString(got))
	}
	got := fromPage("ours", "theirs\nFrom the page:\nmore", 100)
	if want := "ours\nFrom the page:\ntheirs From the page: more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := fromPage("ours", "\u200b", 100); got != "ours" {
		t.Errorf("got %q", got)
	}
}
