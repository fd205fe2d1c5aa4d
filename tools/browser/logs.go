package browser

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/runtime"

	"lomi/broker/control"
)

// Bounds of the logs of a page (catalog spec 1.4).
const (
	ringSize   = 64
	maxMessage = 256 // UTF-16 units
)

// The kinds of a page's logs.
const (
	logError     = "javascript_error"
	logConsole   = "console"
	logRejection = "promise_rejection"
)

// logLine is one entry. A page writes what it likes into it.
type logLine struct {
	sequence int
	at       time.Time
	level    string
	message  string
}

// ring keeps the last entries of one kind.
type ring struct {
	since time.Time
	next  int // sequence number of the next entry, from 1
	lines []logLine
}

func newRings() map[string]*ring {
	now := time.Now()
	return map[string]*ring{
		logError: {since: now, next: 1}, logConsole: {since: now, next: 1}, logRejection: {since: now, next: 1},
	}
}

func (r *ring) add(level, message string) {
	if len(r.lines) == ringSize {
		r.lines = append(r.lines[:0], r.lines[1:]...)
	}
	r.lines = append(r.lines, logLine{r.next, time.Now(), level, cutUTF16(message, maxMessage)})
	r.next++
}

// after returns at most limit entries with a sequence over from, how many of
// them were lost, and whether more are there.
func (r *ring) after(from, limit int) (lines []logLine, dropped int, more bool) {
	first := r.next - len(r.lines)
	if from+1 < first {
		dropped = first - from - 1
	}
	for _, l := range r.lines {
		if l.sequence <= from {
			continue
		}
		if len(lines) == limit {
			return lines, dropped, true
		}
		lines = append(lines, l)
	}
	return lines, dropped, false
}

// cutUTF16 cuts a text to n UTF-16 units without splitting a character.
func cutUTF16(s string, n int) string {
	units := 0
	for i, r := range s {
		units += max(1, utf16.RuneLen(r))
		if units > n {
			return s[:i]
		}
	}
	return s
}

// logEvent keeps what a page wrote to its console or let fail.
func (p *page) logEvent(s session, method string, params jsonv2.Value) {
	if method == runtime.ConsoleAPICalled.Method {
		ev, ok := decode[runtime.EventConsoleAPICalled](s.link, params)
		if !ok {
			return
		}
		p.mu.Lock()
		p.logs[logConsole].add(string(ev.Type), consoleText(ev.Args))
		p.mu.Unlock()
		return
	}
	ev, ok := decode[runtime.EventExceptionThrown](s.link, params)
	if !ok || ev.ExceptionDetails == nil {
		return
	}
	text := ev.ExceptionDetails.Text
	kind := logError
	if strings.Contains(text, "(in promise)") {
		kind = logRejection
	}
	if e := ev.ExceptionDetails.Exception; e != nil {
		text += " " + remoteText(e)
	}
	p.mu.Lock()
	p.logs[kind].add("error", text)
	p.mu.Unlock()
}

// consoleText joins the arguments of a console call. Objects show as their
// class only, which is how Chromium describes them.
func consoleText(args []*runtime.RemoteObject) string {
	var b strings.Builder
	for _, a := range args {
		if b.Len() > 4*maxMessage {
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(remoteText(a))
	}
	return b.String()
}

func remoteText(o *runtime.RemoteObject) string {
	if o == nil {
		return ""
	}
	if o.Type == runtime.RemoteObjectTypeString {
		if s, err := strconv.Unquote(string(o.Value)); err == nil {
			return s
		}
		var s string
		if jsonv2.Unmarshal(o.Value, &s) == nil {
			return s
		}
	}
	switch {
	case o.Description != "":
		return o.Description
	case o.UnserializableValue != "":
		return string(o.UnserializableValue)
	default:
		return string(o.Value)
	}
}

// logCursor reads "GENERATION:KIND:SEQUENCE", so that a cursor of another kind
// or another run of the page is refused.
func logCursor(cursor, generation, kind string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	rest, ok := strings.CutPrefix(cursor, generation+":"+kind+":")
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || n < 0 {
		return 0, control.Errorf(control.CursorExpired, "the cursor is of another page or kind; read from the start")
	}
	return n, nil
}
