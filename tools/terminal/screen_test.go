package terminal

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

const testSecret = "TESTSECRETTESTSECRETTESTSE"

func newTestOutput(cols, rows int) (*output, *[]string, *[]mark) {
	var replies []string
	var marks []mark
	o := newOutput(cols, rows, testSecret, func(s string) { replies = append(replies, s) }, func(m mark) { marks = append(marks, m) })
	return o, &replies, &marks
}

func (o *output) cleanText() string { return string(o.clean.read(o.clean.from(), ringBytes)) }

func TestScreen(t *testing.T) {
	for _, row := range []struct {
		name, input, want string
	}{
		{"lines", "a\r\nb", "a\nb"},
		{"wraps", "abcdefghijkl", "abcdefghij\nkl"},
		{"last column waits", "abcdefghij\rX", "Xbcdefghij"},
		{"wide", "漢字x", "漢字x"},
		{"wide at the edge wraps", "abcdefghi漢", "abcdefghi\n漢"},
		{"half of a wide character", "漢字\x1b[2GX", " X字"},
		{"combining mark", "e\u0301x", "e\u0301x"},
		{"family", "👨\u200d👩\u200d👧x", "👨\u200d👩\u200d👧x"},
		{"flag", "🇩🇪x", "🇩🇪x"},
		{"scrolls", "1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"},
		{"cursor moves", "\x1b[2;3HX\x1b[1;1HY", "Y\n  X"},
		{"erase line", "abc\x1b[2G\x1b[K", "a"},
		{"erase before", "abc\x1b[2G\x1b[1K", "  c"},
		{"erase display", "a\r\nb\x1b[2Jx", "\n x"},
		{"insert characters", "abc\x1b[1G\x1b[2@X", "X abc"},
		{"delete characters", "abcdef\x1b[2G\x1b[2P", "adef"},
		{"erase characters", "abcdef\x1b[2G\x1b[2X", "a  def"},
		{"insert line", "1\r\n2\r\n3\x1b[2H\x1b[L", "1\n\n2\n3"},
		{"delete line", "1\r\n2\r\n3\x1b[2H\x1b[M", "1\n3"},
		{"scroll region", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3H\nX", "1\n3\nX\n4"},
		{"reverse index", "1\r\n2\x1b[H\x1bMX", "X\n1\n2"},
		{"repeat", "a\x1b[3b", "aaaa"},
		{"tab", "a\tb", "a       b"},
		{"alternate screen", "main\x1b[?1049halt\x1b[?1049lX", "mainX"},
		{"in the alternate screen", "main\x1b[?1049h\x1b[Halt", "alt"},
		{"line drawing", "\x1b(0qx\x1b(Bq", "─│q"},
		{"save and restore", "a\x1b7bc\x1b8X", "aXc"},
		{"no autowrap", "\x1b[?7labcdefghijklX", "abcdefghiX"},
		{"colours", "\x1b[1;38;2;1;2;3mr\x1b[38:5:1me\x1b[0md", "red"},
		{"reset", "abc\x1bcx", "x"},
		{"insert mode", "abc\x1b[1G\x1b[4hX", "Xabc"},
		{"unknown sequences", "a\x1b[99y\x1b[>4;2m\x1b[?u\x1b#8b", "ab"},
	} {
		t.Run(row.name, func(t *testing.T) {
			whole, _, _ := newTestOutput(10, 4)
			whole.write([]byte(row.input))
			if got := whole.screen.grid().text(); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
			for i := range len(row.input) { // F-56: cut at every byte
				cut, _, _ := newTestOutput(10, 4)
				cut.write([]byte(row.input[:i]))
				cut.write([]byte(row.input[i:]))
				if got := cut.screen.grid().text(); got != row.want {
					t.Errorf("cut at %d: got %q, want %q", i, got, row.want)
				}
			}
		})
	}
}

// hostile is one line per family of escapes (S-93, bugs 43 and 45).
func hostile() map[string]string {
	return map[string]string{
		"clipboard write":        "\x1b]52;c;TUFSSw==\a",
		"clipboard query":        "\x1b]52;c;?\x1b\\",
		"title":                  "\x1b]0;TITLE\a\x1b]2;TITLE\x1b\\",
		"false link":             "\x1b]8;;http://evil.test/\a\x1b]8;;\a",
		"folder":                 "\x1b]7;file:///etc\a",
		"DCS":                    "\x1bPq#0;2;0;0;0\x1b\\",
		"APC":                    "\x1b_Gf=24;AAAA\x1b\\",
		"SOS":                    "\x1bXsecret\x1b\\",
		"PM":                     "\x1b^secret\x1b\\",
		"reset":                  "\x1bc",
		"8-bit OSC":              "\u009d52;c;TUFSSw==\u009c",
		"8-bit CSI":              "\u009b31m",
		"unterminated OSC":       "\x1b]0;never ends",
		"unterminated DCS":       "\x1bPnever ends",
		"unterminated CSI":       "\x1b[31",
		"unterminated escape":    "\x1b",
		"OSC cut by an escape":   "\x1b]0;title\x1b[31m",
		"window operations":      "\x1b[8;99999;99999t\x1b[14t\x1b[21t",
		"huge repeat":            "\x1b[999999999b",
		"huge tab":               "\x1b[999999999I",
		"huge back tab":          "\x1b[999999999Z",
		"huge erase":             "\x1b[999999999X",
		"huge scroll":            "\x1b[999999999S\x1b[999999999T",
		"huge insert":            "\x1b[999999999@\x1b[999999999L",
		"huge delete":            "\x1b[999999999P\x1b[999999999M",
		"huge region":            "\x1b[999999999;1r\x1b[0;999999999r",
		"many parameters":        "\x1b[" + strings.Repeat("1;", 5000) + "m",
		"long OSC":               "\x1b]133;" + strings.Repeat("A", 5000) + "\a",
		"forged mark":            "\x1b]133;D;0\a\x1b]133;D;0;guess\a",
		"forged mark, no secret": "\x1b]133;D;0;\a\x1b]133;B;\a",
	}
}

func TestHostileEscapesAreNeutral(t *testing.T) { // S-93, F-50, F-51, bugs 43 and 45
	for name, sequence := range hostile() {
		t.Run(name, func(t *testing.T) {
			o, _, marks := newTestOutput(20, 5)
			o.write([]byte("before\r\n" + sequence + "\r\nnext line\r\n"))
			text := o.cleanText()
			if !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, "\nnext line\n") {
				t.Errorf("the sequence swallowed its neighbours: %q", text)
			}
			if strings.ContainsAny(text, "\x1b\a\u009b\u009d") || strings.Contains(text, "TITLE") || strings.Contains(text, "TUFSSw") || strings.Contains(text, "secret") {
				t.Errorf("not clean: %q", text)
			}
			if len(*marks) > 0 {
				t.Errorf("a forged mark was believed: %v", *marks)
			}
			if !strings.Contains(o.screen.grid().text(), "next line") {
				t.Errorf("screen lost the next line: %q", o.screen.grid().text())
			}
		})
	}
}

func TestSecretIsMasked(t *testing.T) {
	input := "\x1b]133;C;" + testSecret + "\aset shows __lomi_v=" + testSecret + " there\r\n"
	for i := range len(input) {
		o, _, marks := newTestOutput(80, 5)
		o.write([]byte(input[:i]))
		o.write([]byte(input[i:]))
		if raw := o.raw.read(0, ringBytes); bytes.Contains(raw, []byte(testSecret)) {
			t.Fatalf("cut at %d: in the raw stream: %q", i, raw)
		}
		if len(*marks) != 1 || (*marks)[0].kind != 'C' {
			t.Fatalf("cut at %d: marks %v", i, *marks)
		}
	}
	o, _, _ := newTestOutput(80, 5)
	o.write([]byte(input))
	if text := o.cleanText() + o.screen.grid().text(); strings.Contains(text, testSecret) {
		t.Errorf("in the text: %q", text)
	}
}

func TestQueriesAreAnswered(t *testing.T) {
	for query, want := range map[string]string{
		"ab\x1b[6n": "\x1b[1;3R", "\x1b[5n": "\x1b[0n", "\x1b[c": "\x1b[?62;22c", "\x1b[>c": "\x1b[>0;0;0c",
		"\x1b[?2004h\x1b[?2004$p": "\x1b[?2004;1$y", "\x1b]11;?\a": "", "\x1b[21t": "",
	} {
		o, replies, _ := newTestOutput(20, 5)
		o.write([]byte(query))
		if got := strings.Join(*replies, ""); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}

func TestInvalidTextBecomesValid(t *testing.T) { // F-56
	o, _, _ := newTestOutput(20, 5)
	for _, b := range []byte("a\xffb\xe6\xbcc\xf0\x9f漢\x80\x9b31m") {
		o.write([]byte{b})
	}
	if got, want := o.cleanText(), "a\ufffdb\ufffd\ufffdc\ufffd\ufffd漢\ufffd\ufffd31m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCombiningFloodStaysBounded(t *testing.T) {
	o, _, _ := newTestOutput(20, 5)
	o.write([]byte("a" + strings.Repeat("\u0301", 100_000)))
	if got := len(o.screen.grid().text()); got > maxCluster+1 {
		t.Errorf("a cell of %d bytes", got)
	}
}

func TestResizeKeepsCursorLine(t *testing.T) {
	o, _, _ := newTestOutput(10, 4)
	o.write([]byte("1\r\n2\r\n3\r\nabcdefghi漢"))
	for _, size := range [][2]int{{5, 2}, {1, 1}, {0, 0}, {65535, 65535}, {10, 4}} { // F-58
		o.screen.resize(size[0], size[1])
		g := o.screen.grid()
		if g.cols < 1 || g.cols > maxSide || g.rows < 1 || g.rows > maxSide || g.cur.x >= g.cols || g.cur.y >= g.rows {
			t.Fatalf("size %v: %d x %d, cursor %+v", size, g.cols, g.rows, g.cur)
		}
		o.write([]byte("x漢\r\n\x1b[99;99H"))
	}
}

// FuzzOutput holds for any bytes, cut anywhere: nothing panics, the clean text
// is clean and the same, and both screens agree.
func FuzzOutput(f *testing.F) {
	for _, sequence := range hostile() {
		f.Add([]byte(sequence), 1, 3)
	}
	f.Add([]byte("漢\x1b[2GX\x1b[3@\x1b[2P👨\u200d👩\u200d👧\x1b[5b\x1b[?1049h"), 7, 4)
	f.Fuzz(func(t *testing.T, data []byte, cut, cols int) {
		cols = max(1, min(cols, 40))
		whole, _, _ := newTestOutput(cols, 6)
		whole.write(bytes.Clone(data))
		parts, _, _ := newTestOutput(cols, 6)
		if len(data) > 0 {
			at := int(uint(cut) % uint(len(data)))
			parts.write(bytes.Clone(data[:at]))
			parts.write(bytes.Clone(data[at:]))
		}
		text := whole.cleanText()
		if text != parts.cleanText() {
			t.Errorf("cut at %d: clean text %q, whole %q", cut, parts.cleanText(), text)
		}
		if a, b := whole.screen.grid().text(), parts.screen.grid().text(); a != b {
			t.Errorf("cut at %d: screen %q, whole %q", cut, b, a)
		}
		for _, r := range text {
			if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("control %q in clean text", r)
			}
		}
		if !utf8.ValidString(text) || !utf8.ValidString(whole.screen.grid().text()) {
			t.Fatal("invalid text")
		}
		whole.screen.resize(3, 2)
		whole.write(bytes.Clone(data))
	})
}

// A screen must cost about the same for hostile bytes as for text.
func BenchmarkOutput(b *testing.B) {
	random := make([]byte, 1<<20)
	source := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = "\x1b[]0123456789;?ABCDHJKLMPSTXZbrhlmn@ \n\r漢🙂e"[source.IntN(45)]
	}
	for name, data := range map[string][]byte{
		"yes":    bytes.Repeat([]byte("y\r\n"), 350_000),
		"text":   bytes.Repeat([]byte("a line of ordinary text as compilers print it, 80 columns wide\r\n"), 16_000),
		"wide":   bytes.Repeat([]byte("漢字かな交じり文\r\n"), 40_000),
		"emoji":  bytes.Repeat([]byte("🙂👨\u200d👩\u200d👧\r\n"), 40_000),
		"clear":  bytes.Repeat([]byte("\x1b[2J"), 250_000),
		"fill":   bytes.Repeat([]byte("\x1b[1024bx\x1b[2J"), 60_000),
		"random": random,
	} {
		b.Run(name, func(b *testing.B) {
			o, _, _ := newTestOutput(120, 40)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				o.write(data)
			}
		})
		b.Run(name+"-largest", func(b *testing.B) {
			o, _, _ := newTestOutput(maxSide, maxSide)
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				o.write(data)
			}
		})
	}
}
