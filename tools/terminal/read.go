package terminal

import (
	"time"
	"unicode/utf8"

	"lomi/broker/control"
)

// excerpt is a piece of one of the streams. gap says that bytes before text
// are lost, or that the cursor pointed into a character.
type excerpt struct {
	text      []byte
	next      uint64
	available uint64
	gap       bool
	sequence  uint64 // bytes printed so far
}

func errCursor() error {
	return control.Errorf(control.CursorExpired, "cursor: is beyond the end of what was printed")
}

// state is what a reader is told beside the text.
type state struct {
	prompt    prompt
	exited    bool
	exit      *int
	nextInput uint64
	lease     string
}

// readText reads the clean stream. A nil cursor means as much of the end as
// fits.
func (t *terminal) readText(cursor *uint64, limit int) (excerpt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.out.clean
	at := r.end - min(r.end-r.from(), uint64(limit))
	if cursor != nil {
		at = *cursor
	}
	if at > r.end {
		return excerpt{}, errCursor()
	}
	e := excerpt{available: firstRune(r), sequence: t.out.raw.end}
	start := max(at, e.available)
	var from uint64
	e.text, from, e.next = r.text(start, limit)
	e.gap = cursor != nil && from != at
	return e, nil
}

// firstRune is the first cursor of the ring at which a character begins.
func firstRune(r *ring) uint64 {
	if r.from() == 0 {
		return 0
	}
	head := r.read(r.from(), utf8.UTFMax)
	for i, b := range head {
		if utf8.RuneStart(b) {
			return r.from() + uint64(i)
		}
	}
	return r.from()
}

// readRun reads the output of one remembered run, from its pinned head where
// the ring has lost it.
func (t *terminal) readRun(operation string, cursor *uint64, limit int) (excerpt, run, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(operation)
	if r == nil {
		return excerpt{}, run{}, control.Errorf(control.TargetNotFound, "no such run is remembered in this terminal")
	}
	ring := &t.out.clean
	end := ring.end
	if r.ended {
		end = r.end
	}
	start := r.start
	if !r.started && !r.ended {
		start = end
	}
	at := start
	if cursor != nil {
		at = *cursor
	}
	if at > end {
		return excerpt{}, *r, errCursor()
	}
	at = max(at, start)
	e := excerpt{available: start, sequence: t.out.raw.end}
	asked := at
	oldest := firstRune(ring)
	if at < oldest {
		if pinned := start + uint64(len(r.head)); at < pinned {
			head := r.head[at-start:]
			for len(head) > 0 && !utf8.RuneStart(head[0]) {
				head, at = head[1:], at+1
			}
			e.text = wholeRunes(head[:min(len(head), limit)])
			e.next = at + uint64(len(e.text))
			e.gap = at != asked
			return e, *r, nil
		}
		at = min(oldest, end)
	}
	var from uint64
	e.text, from, e.next = ring.text(at, int(min(uint64(limit), end-at)))
	if len(e.text) == 0 && at < end && limit < utf8.UTFMax {
		e.next = at // the limit is smaller than the next character
	}
	e.gap = from != asked
	return e, *r, nil
}

// readRaw reads the bytes as they came.
func (t *terminal) readRaw(cursor *uint64, limit int) (excerpt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.out.raw
	at := r.end - min(r.end-r.from(), uint64(limit))
	if cursor != nil {
		at = *cursor
	}
	if at > r.end {
		return excerpt{}, errCursor()
	}
	e := excerpt{available: r.from(), gap: at < r.from(), sequence: r.end}
	at = max(at, r.from())
	e.text = r.read(at, limit)
	e.next = at + uint64(len(e.text))
	return e, nil
}

// picture is the screen at one moment.
type picture struct {
	cols, rows, x, y int
	visible, alt     bool
	text             string
	sequence         uint64
	pending          bool
}

func (t *terminal) picture() picture {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.out.screen
	g := s.grid()
	return picture{cols: g.cols, rows: g.rows, x: g.cur.x, y: g.cur.y, visible: !s.hidden, alt: s.alt == 1,
		text: g.text(), sequence: t.out.raw.end, pending: t.out.parser.midSequence()}
}

// find returns the remembered run of an operation. t.mu is held.
func (t *terminal) find(operation string) *run {
	for _, r := range t.runs {
		if r.operation == operation {
			return r
		}
	}
	return nil
}

func (t *terminal) state() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := state{prompt: t.prompt, nextInput: t.inputLast + 1, lease: t.inputLease}
	if t.exit != nil {
		st.exited = true
		if !t.exit.Lost {
			st.exit = &t.exit.Code
		}
	}
	return st
}

// waiting reports, as well as the system lets us see, whether the running
// program waits for input from the terminal, and how it is called.
func (t *terminal) waiting() (waits bool, program string) {
	t.mu.Lock()
	running := t.prompt == promptRunning && t.exit == nil
	quiet := time.Since(t.lastOutput) >= quietFor
	t.mu.Unlock()
	if !running {
		return false, ""
	}
	group := t.tty.foreground()
	return quiet && readsTerminal(group, t.tty), programName(group)
}
