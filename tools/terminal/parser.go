package terminal

import "unicode/utf8"

// Bounds of what one escape sequence may hold. Whatever is longer is still
// recognised to its end, but has no effect.
const (
	maxParams  = 16
	maxParam   = 9999
	maxOSC     = 512
	maxCSI     = 64
	maxStrings = 4 << 20 // a string sequence longer than this was none
)

// sink receives what a parser recognises.
type sink interface {
	// text is a run of printable ASCII.
	text(run []byte)
	// char is any other printable rune.
	char(r rune)
	// control is a C0 control that has a meaning inside text.
	control(c byte)
	// escape is ESC, at most one intermediate, and a final byte.
	escape(intermediate, final byte)
	// csi is a control sequence; missing parameters are -1.
	csi(seq *csiSequence)
	// osc is the content of an operating system command.
	osc(content []byte)
}

// csiSequence is one parsed control sequence. All numbers are clamped.
type csiSequence struct {
	private      byte // one of < = > ? or 0
	intermediate byte
	final        byte
	params       [maxParams]int
	count        int
}

// param is the i-th parameter, or fallback when it is missing or zero.
func (c *csiSequence) param(i, fallback int) int {
	if i >= c.count || c.params[i] <= 0 {
		return fallback
	}
	return c.params[i]
}

type parserState byte

const (
	stateGround parserState = iota
	stateEscape
	stateEscapeInter
	stateCSI
	stateCSIIgnore
	stateOSC
	stateString       // DCS, SOS, PM, APC: recognised and dropped
	stateStringEscape // ESC inside OSC or string: the terminator, maybe
)

// parser splits a terminal's output into text and sequences. It keeps its
// state over writes, so that sequences and characters may be cut anywhere. A
// line break or another C0 control ends a sequence that was never finished:
// it must not swallow what follows (bug 45).
type parser struct {
	sink         sink
	state        parserState
	inOSC        bool
	seq          csiSequence
	length       int
	colon        bool
	intermediate byte
	osc          []byte
	last         byte              // of a string sequence
	partial      [utf8.UTFMax]byte // an unfinished character
	pending      int
}

// write parses p.
func (p *parser) write(data []byte) {
	for len(data) > 0 {
		switch {
		case p.pending > 0:
			data = p.finishRune(data)
		case p.state == stateGround:
			data = p.ground(data)
		case data[0] >= utf8.RuneSelf && (p.state == stateOSC || p.state == stateString):
			p.stringByte(data[0])
			data = data[1:]
		case data[0] >= utf8.RuneSelf:
			p.state = stateGround // a character ends what was no sequence
		default:
			p.step(data[0])
			data = data[1:]
		}
	}
}

// midSequence reports whether the last write ended inside something.
func (p *parser) midSequence() bool { return p.pending > 0 || p.state != stateGround }

// ground handles text up to the next control or unfinished character.
func (p *parser) ground(data []byte) []byte {
	n := 0
	for n < len(data) && data[n] >= ' ' && data[n] < 0x7f {
		n++
	}
	if n > 0 {
		p.sink.text(data[:n])
		return data[n:]
	}
	if data[0] < utf8.RuneSelf {
		p.step(data[0])
		return data[1:]
	}
	if !utf8.FullRune(data) {
		p.pending = copy(p.partial[:], data)
		return nil
	}
	r, size := utf8.DecodeRune(data)
	p.rune(r)
	return data[size:]
}

// finishRune goes on with a character that the last write cut.
func (p *parser) finishRune(data []byte) []byte {
	for len(data) > 0 && p.pending < utf8.UTFMax && !utf8.FullRune(p.partial[:p.pending]) {
		if utf8.RuneStart(data[0]) {
			break // the rest never came
		}
		p.partial[p.pending] = data[0]
		p.pending++
		data = data[1:]
	}
	if len(data) == 0 && !utf8.FullRune(p.partial[:p.pending]) {
		return nil
	}
	r, size := utf8.DecodeRune(p.partial[:p.pending])
	rest := append([]byte(nil), p.partial[size:p.pending]...)
	p.pending = 0
	p.rune(r)
	for range rest { // each byte of a broken character stands for itself
		p.rune(utf8.RuneError)
	}
	return data
}

// rune handles a decoded character; the C1 controls are the two-byte forms of
// ESC sequences.
func (p *parser) rune(r rune) {
	if r >= 0x80 && r < 0xa0 {
		if p.state == stateGround {
			p.startEscape()
			p.step(byte(r - 0x40))
		}
		return
	}
	p.sink.char(r)
}

func (p *parser) startEscape() {
	p.state, p.intermediate, p.length = stateEscape, 0, 0
}

// step handles one byte outside of plain text.
func (p *parser) step(c byte) {
	if c < ' ' || c == 0x7f {
		p.controlByte(c)
		return
	}
	switch p.state {
	case stateGround:
		p.sink.text([]byte{c})
	case stateEscape, stateEscapeInter:
		p.escapeByte(c)
	case stateCSI, stateCSIIgnore:
		p.csiByte(c)
	case stateOSC, stateString:
		p.stringByte(c)
	case stateStringEscape:
		if c == '\\' {
			p.endString(true)
			return
		}
		p.endString(false) // ESC starts anew what was never terminated
		p.startEscape()
		p.escapeByte(c)
	}
}

func (p *parser) controlByte(c byte) {
	inString := p.state == stateOSC || p.state == stateString
	switch {
	case c == 0x7f || c == 0:
	case c == 0x1b && inString:
		p.state = stateStringEscape
	case c == 0x1b:
		if p.state == stateStringEscape {
			p.endString(false)
		}
		p.startEscape()
	case c == 0x07 && inString:
		p.endString(true)
	case c == 0x18 || c == 0x1a: // CAN, SUB
		p.state = stateGround
	case inString || p.state == stateStringEscape:
		if c == '\t' {
			return
		}
		p.endString(false)
		p.sink.control(c)
	default:
		// Inside a control sequence a C0 control takes effect at once; a
		// line break also ends a sequence that was never finished.
		if c == '\n' || c == '\r' {
			p.state = stateGround
		}
		p.sink.control(c)
	}
}

func (p *parser) escapeByte(c byte) {
	switch {
	case c < 0x30:
		if p.state == stateEscapeInter {
			p.intermediate = 0xff // more than one: no sequence we know
		} else {
			p.intermediate = c
		}
		p.state = stateEscapeInter
		if p.length++; p.length > maxCSI {
			p.state = stateGround
		}
		return
	case p.state == stateEscapeInter:
	case c == '[':
		p.seq = csiSequence{}
		for i := range p.seq.params {
			p.seq.params[i] = -1
		}
		p.state, p.length, p.colon = stateCSI, 0, false
		return
	case c == ']':
		p.state, p.inOSC, p.length, p.last, p.osc = stateOSC, true, 0, 0, p.osc[:0]
		return
	case c == 'P', c == 'X', c == '^', c == '_':
		p.state, p.inOSC, p.length, p.last = stateString, false, 0, 0
		return
	}
	p.state = stateGround
	p.sink.escape(p.intermediate, c)
}

func (p *parser) csiByte(c byte) {
	if p.length++; p.length > maxCSI {
		p.state = stateCSIIgnore
	}
	switch {
	case c >= 0x40:
		ignore := p.state == stateCSIIgnore
		p.state = stateGround
		if !ignore {
			p.seq.final = c
			p.seq.count = min(p.seq.count+1, maxParams)
			p.sink.csi(&p.seq)
		}
	case p.state == stateCSIIgnore:
	case c >= '<' && c <= '?':
		if p.length > 1 {
			p.state = stateCSIIgnore
			return
		}
		p.seq.private = c
	case c >= '0' && c <= '9':
		p.digit(int(c - '0'))
	case c == ';':
		p.colon = false
		p.seq.count = min(p.seq.count+1, maxParams)
	case c == ':':
		p.colon = true // sub-parameters style colours only
	case c < '0':
		p.seq.intermediate = c
	}
}

func (p *parser) digit(d int) {
	if p.colon || p.seq.count >= maxParams {
		return
	}
	n := &p.seq.params[p.seq.count]
	*n = min(max(*n, 0)*10+d, maxParam)
}

// stringByte takes one byte of an OSC or of a string that has no effect.
func (p *parser) stringByte(c byte) {
	if c == 0x9c && p.last == 0xc2 { // the two-byte form of the terminator
		p.osc = p.osc[:max(0, len(p.osc)-1)]
		p.endString(true)
		return
	}
	p.last = c
	if p.length++; p.length > maxStrings {
		p.endString(false)
		return
	}
	if p.inOSC && len(p.osc) <= maxOSC {
		p.osc = append(p.osc, c)
	}
}

func (p *parser) endString(terminated bool) {
	p.state = stateGround
	if p.inOSC && terminated && len(p.osc) <= maxOSC {
		p.sink.osc(p.osc)
	}
}
