package terminal

import "fmt"

// screen is the terminal as a person would see it, without colours. Programs
// address it with sequences; hostile ones can neither hang nor swell it: every
// number is clamped, every operation costs at most one row or one move of row
// pointers, and a cell has a bounded size. It is not safe for concurrent use.
type screen struct {
	grids [2]*grid // normal and alternate
	alt   int      // index of the one in use

	autowrap, insert, hidden   bool
	appCursor, paste, newLines bool
	mouse                      [4]bool // 1000, 1002, 1003, 1006: a late tab needs them
	last                       rune    // for REP

	// reply takes the answer to a query of the program.
	reply func(string)
	// mark takes the content of OSC 133.
	mark func(content []byte)
}

// mouseModes are the private modes behind screen.mouse.
func mouseModes() [4]int { return [4]int{1000, 1002, 1003, 1006} }

func newScreen(cols, rows int) *screen {
	cols, rows = clampSize(cols, rows)
	s := &screen{reply: func(string) {}, mark: func([]byte) {}}
	s.reset(cols, rows)
	return s
}

func clampSize(cols, rows int) (int, int) {
	return max(1, min(cols, maxSide)), max(1, min(rows, maxSide))
}

func (s *screen) reset(cols, rows int) {
	s.grids = [2]*grid{newGrid(cols, rows), newGrid(cols, rows)}
	s.alt, s.autowrap, s.insert, s.hidden = 0, true, false, false
	s.appCursor, s.paste, s.newLines, s.last = false, false, false, 0
	s.mouse = [4]bool{}
}

func (s *screen) grid() *grid { return s.grids[s.alt] }

func (s *screen) resize(cols, rows int) {
	cols, rows = clampSize(cols, rows)
	for _, g := range s.grids {
		g.resize(cols, rows)
	}
}

func (s *screen) text(run []byte) {
	g := s.grid()
	s.last = rune(run[len(run)-1])
	if s.insert || g.cur.charset[g.cur.shift] == '0' {
		for _, c := range run {
			g.put(lineDrawing(c, g.cur.charset[g.cur.shift]), s.autowrap, s.insert)
		}
		return
	}
	g.putASCII(run, s.autowrap)
}

func (s *screen) char(r rune) {
	s.last = r
	s.grid().put(r, s.autowrap, s.insert)
}

// lineDrawing maps the characters of DEC's graphics set.
func lineDrawing(c, charset byte) rune {
	const first = '`'
	graphics := []rune("◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
	if charset != '0' || c < first || int(c-first) >= len(graphics) {
		return rune(c)
	}
	return graphics[c-first]
}

func (s *screen) control(c byte) {
	g := s.grid()
	switch c {
	case '\b':
		if g.cur.x > 0 {
			g.cur.x--
		}
		g.cur.pending = false
	case '\t':
		g.cur.x = min(g.cols-1, (g.cur.x/8+1)*8)
	case '\n', '\v', '\f':
		g.lineFeed()
		if s.newLines {
			g.cur.x = 0
		}
	case '\r':
		g.cur.x, g.cur.pending = 0, false
	case 0x0e, 0x0f: // SO, SI
		g.cur.shift = int(0x0f - c)
	}
}

func (s *screen) escape(intermediate, final byte) {
	g := s.grid()
	switch {
	case intermediate == '(':
		g.cur.charset[0] = final
	case intermediate == ')':
		g.cur.charset[1] = final
	case intermediate != 0:
	case final == '7':
		g.saved = g.cur
	case final == '8':
		g.restore()
	case final == 'D':
		g.lineFeed()
	case final == 'E':
		g.cur.x = 0
		g.lineFeed()
	case final == 'M':
		g.reverseFeed()
	case final == 'c':
		// A reset allocates nothing anew: it may come a million times.
		for _, grid := range s.grids {
			for _, l := range grid.lines {
				l.clear(0, grid.cols)
			}
			grid.cur, grid.saved, grid.top, grid.bottom = cursor{}, cursor{}, 0, grid.rows
		}
		grids := s.grids
		keep := *s
		*s = screen{grids: grids, autowrap: true, reply: keep.reply, mark: keep.mark}
	}
}

func (g *grid) restore() {
	g.cur = g.saved
	g.cur.clamp(g.cols, g.rows)
}

func (s *screen) osc(content []byte) {
	// Titles, clipboard, links, colours and folders have no effect here; a
	// program's output must not reach further than its screen.
	if len(content) > 4 && string(content[:4]) == "133;" {
		s.mark(content[4:])
	}
}

func (s *screen) csi(q *csiSequence) {
	switch {
	case q.private == '?' && (q.final == 'h' || q.final == 'l') && q.intermediate == 0:
		for i := range q.count {
			s.privateMode(q.params[i], q.final == 'h')
		}
	case q.private == '?' && q.final == 'p' && q.intermediate == '$':
		s.reply(fmt.Sprintf("\x1b[?%d;%d$y", q.param(0, 0), s.modeState(q.param(0, 0))))
	case q.private == '>' && q.final == 'c':
		s.reply("\x1b[>0;0;0c")
	case q.private == '?' && q.final == 'n' && q.param(0, 0) == 6:
		s.reply(s.position("?"))
	case q.private != 0:
	case q.intermediate == '!' && q.final == 'p':
		s.softReset()
	case q.intermediate != 0:
	default:
		if !s.cursorSequence(q) {
			s.editSequence(q)
		}
	}
}

func (s *screen) position(prefix string) string {
	g := s.grid()
	y := g.cur.y
	if g.cur.origin {
		y -= g.top
	}
	return fmt.Sprintf("\x1b[%s%d;%dR", prefix, y+1, g.cur.x+1)
}

// cursorSequence handles what only moves, saves or asks.
func (s *screen) cursorSequence(q *csiSequence) bool {
	g := s.grid()
	n := q.param(0, 1)
	switch q.final {
	case 'A':
		g.moveBy(0, -n)
	case 'B', 'e':
		g.moveBy(0, n)
	case 'C', 'a':
		g.moveBy(n, 0)
	case 'D':
		g.moveBy(-n, 0)
	case 'E':
		g.moveBy(-g.cur.x, n)
	case 'F':
		g.moveBy(-g.cur.x, -n)
	case 'G', '`':
		g.moveBy(n-1-g.cur.x, 0)
	case 'H', 'f':
		g.moveTo(q.param(1, 1)-1, n-1)
	case 'd':
		g.moveTo(g.cur.x, n-1)
	case 'I':
		g.cur.x = min(g.cols-1, (g.cur.x/8+min(n, maxSide))*8)
	case 'Z':
		g.cur.x = max(0, ((g.cur.x+7)/8-min(n, maxSide))*8)
	case 's':
		g.saved = g.cur
	case 'u':
		g.restore()
	case 'n':
		switch q.param(0, 0) {
		case 5:
			s.reply("\x1b[0n")
		case 6:
			s.reply(s.position(""))
		}
	case 'c':
		if q.param(0, 0) == 0 {
			s.reply("\x1b[?62;22c")
		}
	default:
		return false
	}
	return true
}

// editSequence handles what changes cells or modes.
func (s *screen) editSequence(q *csiSequence) {
	g := s.grid()
	n := q.param(0, 1)
	inRegion := g.cur.y >= g.top && g.cur.y < g.bottom
	switch q.final {
	case '@':
		g.insertCells(n)
	case 'P':
		g.deleteCells(n)
	case 'X':
		g.eraseCells(n)
	case 'J':
		g.eraseDisplay(q.param(0, 0))
	case 'K':
		g.eraseLine(q.param(0, 0))
	case 'L', 'M':
		if !inRegion {
			return
		}
		if q.final == 'L' {
			n = -n
		}
		g.scroll(g.cur.y, g.bottom, n)
		g.cur.x, g.cur.pending = 0, false
	case 'S':
		g.scroll(g.top, g.bottom, n)
	case 'T':
		g.scroll(g.top, g.bottom, -n)
	case 'b':
		if s.last != 0 {
			for range min(n, g.cols) {
				g.put(s.last, s.autowrap, s.insert)
			}
		}
	case 'r':
		top, bottom := n-1, min(q.param(1, g.rows), g.rows)
		if top < bottom-1 || g.rows == 1 {
			g.top, g.bottom = min(top, bottom-1), bottom
			g.moveTo(0, 0)
		}
	case 'h', 'l':
		for i := range q.count {
			switch q.params[i] {
			case 4:
				s.insert = q.final == 'h'
			case 20:
				s.newLines = q.final == 'h'
			}
		}
	}
}

func (s *screen) softReset() {
	g := s.grid()
	s.autowrap, s.insert, s.hidden, s.appCursor = true, false, false, false
	g.top, g.bottom, g.cur.origin, g.saved = 0, g.rows, false, cursor{}
}

func (s *screen) privateMode(mode int, on bool) {
	switch mode {
	case 1:
		s.appCursor = on
	case 6:
		g := s.grid()
		g.cur.origin = on
		g.moveTo(0, 0)
	case 7:
		s.autowrap = on
	case 25:
		s.hidden = !on
	case 47, 1047, 1049:
		s.switchBuffer(mode, on)
	case 1048:
		if on {
			s.grid().saved = s.grid().cur
		} else {
			s.grid().restore()
		}
	case 2004:
		s.paste = on
	default:
		for i, m := range mouseModes() {
			if m == mode {
				s.mouse[i] = on
			}
		}
	}
}

// switchBuffer enters or leaves the alternate screen. The cursor stays where
// it is, as in xterm; 1049 saves and restores it.
func (s *screen) switchBuffer(mode int, on bool) {
	if on == (s.alt == 1) {
		return
	}
	from, to := s.grids[s.alt], s.grids[1-s.alt]
	s.alt = 1 - s.alt
	switch {
	case on:
		from.saved = from.cur
		if mode != 47 {
			for _, l := range to.lines {
				l.clear(0, to.cols)
			}
		}
		to.cur = from.cur
		to.top, to.bottom = 0, to.rows
	case mode == 1049:
		to.restore()
	default:
		to.cur = from.cur
	}
}

// modeState answers a question for a private mode: 1 set, 2 reset, 0 unknown.
func (s *screen) modeState(mode int) int {
	known := map[int]bool{1: s.appCursor, 6: s.grid().cur.origin, 7: s.autowrap, 25: !s.hidden, 1049: s.alt == 1, 2004: s.paste}
	on, ok := known[mode]
	switch {
	case !ok:
		return 0
	case on:
		return 1
	}
	return 2
}
