package terminal

import (
	"strings"

	"github.com/rivo/uniseg"
)

// maxSide bounds both sides of a screen (broker spec 7.1).
const maxSide = 1024

// maxCluster bounds the bytes of one character with all its marks: a stream of
// combining marks must not swell a cell.
const maxCluster = 32

// A cell holds one rune. blank was never written; trail is the right half of
// the wide character before it.
const (
	blank rune = 0
	trail rune = -1
)

// line is one row of a grid. Cells from used on are blank, which makes
// clearing an empty row free: ten megabytes of "clear screen" cost no more
// than as many bytes of text.
type line struct {
	cells []rune
	used  int
	marks map[int]string // what follows the rune of a cell in its cluster
}

func (l *line) clear(from, to int) {
	to = min(to, l.used)
	if from >= to {
		return
	}
	clear(l.cells[from:to])
	for x := range l.marks {
		if x >= from && x < to {
			delete(l.marks, x)
		}
	}
	if to == l.used {
		l.used = from
	}
}

// cut removes the halves of wide characters that an edit at x would part.
func (l *line) cut(x int) {
	if x > 0 && x < len(l.cells) && l.cells[x] == trail {
		l.cells[x-1], l.cells[x] = blank, blank
		delete(l.marks, x-1)
	}
}

// move copies the cells of [from,to) by offset, for insert and delete.
func (l *line) move(from, to, offset int) {
	copy(l.cells[from+offset:], l.cells[from:to])
	if len(l.marks) > 0 {
		moved := make(map[int]string, len(l.marks))
		for x, mark := range l.marks {
			switch {
			case x >= from && x < to:
				moved[x+offset] = mark
			case x < min(from, from+offset) || x >= max(to, to+offset):
				moved[x] = mark
			}
		}
		l.marks = moved
	}
}

func (l *line) text(b *strings.Builder) {
	end := l.used
	for end > 0 && l.cells[end-1] == blank {
		end--
	}
	for x, r := range l.cells[:end] {
		switch r {
		case blank:
			b.WriteByte(' ')
		case trail:
		default:
			b.WriteRune(r)
			if mark, ok := l.marks[x]; ok {
				b.WriteString(mark)
			}
		}
	}
}

// cursor is a place with what DECSC saves beside it.
type cursor struct {
	x, y    int
	pending bool // the last column was written; the next character wraps
	origin  bool
	charset [2]byte
	shift   int
}

// grid is one of the two buffers of a screen.
type grid struct {
	cols, rows  int
	lines       []*line
	top, bottom int // scroll region, bottom exclusive
	cur, saved  cursor
}

func newGrid(cols, rows int) *grid {
	g := &grid{cols: cols, rows: rows, bottom: rows}
	g.lines = make([]*line, rows)
	for y := range g.lines {
		g.lines[y] = &line{cells: make([]rune, cols)}
	}
	return g
}

// resize keeps the text around the cursor; nothing is wrapped anew.
func (g *grid) resize(cols, rows int) {
	if drop := g.cur.y - rows + 1; drop > 0 {
		g.lines = g.lines[drop:]
		g.cur.y -= drop
	}
	for len(g.lines) < rows {
		g.lines = append(g.lines, &line{cells: make([]rune, cols)})
	}
	g.lines = g.lines[:rows:rows]
	for _, l := range g.lines {
		if len(l.cells) != cols {
			l.clear(cols, len(l.cells))
			l.cut(cols)
			cells := make([]rune, cols)
			copy(cells, l.cells)
			l.cells, l.used = cells, min(l.used, cols)
		}
	}
	g.cols, g.rows, g.top, g.bottom = cols, rows, 0, rows
	g.cur.clamp(cols, rows)
	g.saved.clamp(cols, rows)
}

func (c *cursor) clamp(cols, rows int) {
	c.x, c.y, c.pending = min(c.x, cols-1), min(c.y, rows-1), false
}

// scroll moves the lines of [top,bottom) up by n, or down when n is negative.
// Lines change places; only the new ones are cleared.
func (g *grid) scroll(top, bottom, n int) {
	height := bottom - top
	n = max(-height, min(n, height))
	if n == 0 {
		return
	}
	region := g.lines[top:bottom]
	fresh := region[:max(n, 0)]
	if n < 0 {
		fresh = region[height+n:]
	}
	for _, l := range fresh {
		l.clear(0, g.cols)
	}
	if n == 1 || n == -1 { // by far the most frequent
		l := fresh[0]
		if n == 1 {
			copy(region, region[1:])
			region[height-1] = l
		} else {
			copy(region[1:], region[:height-1])
			region[0] = l
		}
		return
	}
	rotated := make([]*line, 0, height)
	at := (n + height) % height
	rotated = append(append(rotated, region[at:]...), region[:at]...)
	copy(region, rotated)
}

func (g *grid) lineFeed() {
	g.cur.pending = false
	switch {
	case g.cur.y == g.bottom-1:
		g.scroll(g.top, g.bottom, 1)
	case g.cur.y < g.rows-1:
		g.cur.y++
	}
}

func (g *grid) reverseFeed() {
	g.cur.pending = false
	switch {
	case g.cur.y == g.top:
		g.scroll(g.top, g.bottom, -1)
	case g.cur.y > 0:
		g.cur.y--
	}
}

func (g *grid) moveTo(x, y int) {
	low, high := 0, g.rows
	if g.cur.origin {
		low, high = g.top, g.bottom
		y += g.top
	}
	g.cur.x = max(0, min(x, g.cols-1))
	g.cur.y = max(low, min(y, high-1))
	g.cur.pending = false
}

// moveBy stays inside the scroll region when it starts there.
func (g *grid) moveBy(dx, dy int) {
	low, high := 0, g.rows
	if g.cur.y >= g.top && g.cur.y < g.bottom {
		low, high = g.top, g.bottom
	}
	g.cur.x = max(0, min(g.cur.x+dx, g.cols-1))
	g.cur.y = max(low, min(g.cur.y+dy, high-1))
	g.cur.pending = false
}

// wrap starts the next line when the last column is full.
func (g *grid) wrap() {
	if g.cur.pending {
		g.cur.x = 0
		g.lineFeed()
	}
}

// putASCII writes a run of printable single-width characters.
func (g *grid) putASCII(run []byte, autowrap bool) {
	for len(run) > 0 {
		g.wrap()
		x := g.cur.x
		n := min(len(run), g.cols-x)
		if !autowrap && len(run) > n {
			// Everything further overwrites the last column.
			run = append(run[:n-1:n-1], run[len(run)-1])
		}
		l := g.lines[g.cur.y]
		l.cut(x)
		l.cut(x + n)
		if len(l.marks) > 0 {
			for i := x; i < x+n; i++ {
				delete(l.marks, i)
			}
		}
		cells := l.cells[x : x+n]
		for i, c := range run[:n] {
			cells[i] = rune(c)
		}
		l.used = max(l.used, x+n)
		g.advance(n, autowrap)
		run = run[n:]
	}
}

func (g *grid) advance(n int, autowrap bool) {
	g.cur.x += n
	if g.cur.x >= g.cols {
		g.cur.x = g.cols - 1
		g.cur.pending = autowrap
	}
}

// put writes one rune of any kind.
func (g *grid) put(r rune, autowrap, insert bool) {
	if g.joins(r) {
		return
	}
	width := runeWidth(r)
	if width == 0 {
		return // a mark without a character to carry it
	}
	width = min(width, g.cols)
	g.wrap()
	if g.cur.x+width > g.cols {
		if !autowrap {
			g.cur.x = g.cols - width
		} else {
			g.cur.x = 0
			g.lineFeed()
		}
	}
	if insert {
		g.insertCells(width)
	}
	l, x := g.lines[g.cur.y], g.cur.x
	l.cut(x)
	l.cut(x + width)
	l.cells[x] = r
	delete(l.marks, x)
	if width == 2 {
		l.cells[x+1] = trail
		delete(l.marks, x+1)
	}
	l.used = max(l.used, x+width)
	g.advance(width, autowrap)
}

// joins adds r to the character before the cursor when both are one cluster.
func (g *grid) joins(r rune) bool {
	if r < 0x300 || r >= 0x2e80 && r < 0xa000 || r >= 0xac00 && r < 0xd7b0 {
		return false // never continues a cluster, or not worth asking: CJK text
	}
	l, x := g.lines[g.cur.y], g.cur.x
	if !g.cur.pending {
		x--
	}
	if x > 0 && l.cells[x] == trail {
		x--
	}
	if x < 0 || l.cells[x] == blank || l.cells[x] == trail {
		return false
	}
	before := string(l.cells[x]) + l.marks[x]
	after := string(r)
	if _, rest, _, _ := uniseg.FirstGraphemeClusterInString(before+after, -1); rest != "" {
		return false
	}
	if len(before)+len(after) <= maxCluster {
		if l.marks == nil {
			l.marks = map[int]string{}
		}
		l.marks[x] += after
	}
	return true
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case r >= 0x4e00 && r < 0xa000, r >= 0xac00 && r < 0xd7a4, r >= 0x3041 && r < 0x3097, r >= 0x30a0 && r < 0x3100:
		return 2
	}
	return min(2, uniseg.StringWidth(string(r)))
}

func (g *grid) insertCells(n int) {
	l, x := g.lines[g.cur.y], g.cur.x
	if x >= l.used {
		return
	}
	n = min(n, g.cols-x)
	l.cut(x)
	l.cut(g.cols - n)
	end := min(l.used, g.cols-n)
	l.move(x, max(x, end), n)
	l.used = min(g.cols, l.used+n)
	l.wipe(x, x+n)
}

func (g *grid) deleteCells(n int) {
	l, x := g.lines[g.cur.y], g.cur.x
	n = min(n, g.cols-x)
	if x >= l.used {
		return
	}
	l.cut(x)
	l.cut(x + n)
	if x+n < l.used {
		l.move(x+n, l.used, -n)
	}
	l.clear(max(x, l.used-n), l.used)
}

func (g *grid) eraseCells(n int) {
	l, x := g.lines[g.cur.y], g.cur.x
	n = min(n, g.cols-x)
	l.cut(x)
	l.cut(x + n)
	l.clear(x, x+n)
}

// wipe blanks cells without taking the row for shorter.
func (l *line) wipe(from, to int) {
	clear(l.cells[from:to])
	for x := from; len(l.marks) > 0 && x < to; x++ {
		delete(l.marks, x)
	}
}

func (g *grid) eraseLine(mode int) {
	l, x := g.lines[g.cur.y], g.cur.x
	g.cur.pending = false
	switch mode {
	case 0:
		l.cut(x)
		l.clear(x, g.cols)
	case 1:
		l.cut(x + 1)
		l.clear(0, x+1)
	case 2:
		l.clear(0, g.cols)
	}
}

func (g *grid) eraseDisplay(mode int) {
	from, to := 0, g.rows
	switch mode {
	case 0:
		g.eraseLine(0)
		from = g.cur.y + 1
	case 1:
		g.eraseLine(1)
		to = g.cur.y
	case 2:
		g.cur.pending = false
	default:
		return
	}
	for _, l := range g.lines[from:to] {
		l.clear(0, g.cols)
	}
}

func (g *grid) text() string {
	last := g.rows
	for last > 0 && g.lines[last-1].used == 0 {
		last--
	}
	var b strings.Builder
	for y, l := range g.lines[:last] {
		if y > 0 {
			b.WriteByte('\n')
		}
		l.text(&b)
	}
	return b.String()
}
