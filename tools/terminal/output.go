package terminal

import (
	"bytes"
	"crypto/subtle"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pinnedBytes is how much of each remembered run's output outlives the ring.
const pinnedBytes = 16 << 10

// mark is one sign of the shell's integration that carried the right value.
type mark struct {
	// kind is I (integration is on), A (a prompt begins), B (the prompt waits
	// for a line), P (the line goes on), C (a command starts), D (it ended).
	kind byte
	// value is the exit code of D, and of I whether C marks will come.
	value int
}

// output is what a terminal printed: both rings, the screen, and the marks
// found on the way. Text in the clean ring has no sequences, no control
// characters but tab and line feed, and is valid UTF-8. It is not safe for
// concurrent use.
type output struct {
	raw, clean ring
	screen     *screen
	parser     parser
	secret     string
	onMark     func(mark)

	// onLine is called once, after the next line feed.
	onLine func()
	pinned *[]byte // the head of the run that is observed
	// A carriage return without a line feed starts the line again (progress
	// bars): the next text goes on a line of its own, because what was read
	// once cannot be taken back.
	returned bool
	lastByte byte
}

func newOutput(cols, rows int, secret string, reply func(string), onMark func(mark)) *output {
	o := &output{screen: newScreen(cols, rows), secret: secret, onMark: onMark, lastByte: '\n'}
	o.screen.reply = reply
	o.screen.mark = o.parseMark
	o.parser.sink = o
	return o
}

// write takes what the shell's side of the terminal printed; p is changed. The
// secret is masked wherever it comes by: whoever can read the terminal must
// not learn how to forge its marks.
func (o *output) write(p []byte) {
	o.parser.write(p)
	o.hide(p)
	overlap := len(o.secret) - 1
	before := o.raw.read(o.raw.end-min(o.raw.end-o.raw.from(), uint64(overlap)), overlap)
	o.raw.write(p)
	// The secret may have come in two writes.
	joint := append(before, p[:min(len(p), overlap)]...)
	if i := bytes.Index(joint, []byte(o.secret)); i >= 0 {
		o.raw.overwrite(o.raw.end-uint64(len(p))-uint64(len(before)-i), []byte(o.mask()))
	}
}

func (o *output) mask() string { return strings.Repeat("*", len(o.secret)) }

// hide masks the secret in p and reports whether it was there.
func (o *output) hide(p []byte) bool {
	found := false
	for {
		i := bytes.Index(p, []byte(o.secret))
		if i < 0 {
			return found
		}
		found = true
		p = p[i:]
		copy(p, o.mask())
	}
}

func (o *output) add(p []byte) {
	if o.screen.alt == 1 {
		return // a full-screen program paints; what it shows is the screen
	}
	if o.returned {
		o.returned = false
		if o.lastByte != '\n' {
			o.append([]byte{'\n'})
		}
	}
	o.append(p)
}

func (o *output) append(p []byte) {
	o.clean.write(p)
	o.lastByte = p[len(p)-1]
	if o.pinned != nil {
		room := pinnedBytes - len(*o.pinned)
		if len(p) <= room {
			*o.pinned = append(*o.pinned, p...)
			return
		}
		*o.pinned = append(*o.pinned, wholeRunes(p[:room])...)
		o.pinned = nil
	}
}

func (o *output) text(run []byte) {
	if bytes.Contains(run, []byte(o.secret)) {
		run = bytes.Clone(run)
		o.hide(run)
	}
	o.add(run)
	o.screen.text(run)
}

func (o *output) char(r rune) {
	var buf [utf8.UTFMax]byte
	o.add(utf8.AppendRune(buf[:0], r))
	o.screen.char(r)
}

func (o *output) control(c byte) {
	switch c {
	case '\n':
		if o.screen.alt == 0 {
			o.returned = false
			o.append([]byte{'\n'})
		}
		if line := o.onLine; line != nil {
			o.onLine = nil
			line()
		}
	case '\t':
		o.add([]byte{'\t'})
	case '\r':
		o.returned = true
	}
	o.screen.control(c)
}

func (o *output) escape(intermediate, final byte) { o.screen.escape(intermediate, final) }
func (o *output) csi(q *csiSequence)              { o.screen.csi(q) }
func (o *output) osc(content []byte)              { o.screen.osc(content) }

// parseMark accepts KIND;SECRET and KIND;VALUE;SECRET. A mark without the
// secret is somebody's printed text and has no effect.
func (o *output) parseMark(content []byte) {
	fields := strings.Split(string(content), ";")
	last := len(fields) - 1
	if last < 1 || last > 2 || len(fields[0]) != 1 ||
		subtle.ConstantTimeCompare([]byte(fields[last]), []byte(o.secret)) != 1 {
		return
	}
	m := mark{kind: fields[0][0]}
	if last == 2 {
		value, err := strconv.Atoi(fields[1])
		if err != nil {
			return
		}
		m.value = value
	}
	o.returned = false // the shell's own line discipline, not a progress bar
	o.onMark(m)
}

// restore is what a late tab needs after the kept bytes: the modes that were
// set before them.
func (o *output) restore() string {
	s := o.screen
	var b strings.Builder
	set := func(mode int, on bool) {
		if on {
			b.WriteString("\x1b[?" + strconv.Itoa(mode) + "h")
		}
	}
	set(1, s.appCursor)
	set(2004, s.paste)
	for i, mode := range mouseModes() {
		set(mode, s.mouse[i])
	}
	if s.hidden {
		b.WriteString("\x1b[?25l")
	}
	return b.String()
}
