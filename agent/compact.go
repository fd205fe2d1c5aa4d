package agent

import (
	"fmt"
	"slices"
	"strings"

	"lomi/models"
)

// Lengths in a compacted history, in bytes.
const (
	oldResult    = 240  // what stays of an older tool result
	oldArguments = 160  // and, in a summary, of a call's arguments
	oldMessage   = 300  // of what somebody said
	lastResult   = 1000 // of the newest results, when nothing else is left to take
	summaryBytes = 4000 // of a whole summary, in a window that has room for it
	summaryLeast = 400
)

// Compaction is a shortening of the history's first UpTo messages. It is a
// value, so that a log can keep it and a later reader of the log can do the
// same to the same history.
type Compaction struct {
	Kind  CompactionKind `json:"kind"`
	UpTo  int            `json:"upTo"`
	Bytes int            `json:"bytes,omitempty"` // of the summary, or of each newest result
}

// CompactionKind says how much a compaction takes away.
type CompactionKind string

// The kinds, in the order in which they are tried.
const (
	CompactResults CompactionKind = "results" // older tool results are shortened
	CompactSummary CompactionKind = "summary" // older messages become one note
	CompactLast    CompactionKind = "last"    // the newest results are shortened too
)

// Note says in words what a compaction did, for the person.
func (c Compaction) Note() string {
	switch c.Kind {
	case CompactResults:
		return "The conversation nears the end of the model's window: older tool results were shortened."
	case CompactLast:
		return "The last tool results do not fit into the model's window: they were shortened."
	}
	return "The conversation nears the end of the model's window: its older part was replaced by a short summary."
}

// fit compacts until the next prompt fits, or until nothing is left to take.
// force takes at least one step, for an engine that has refused the prompt.
func (w *Window) fit(specs []models.ToolSpec, force bool) []Compaction {
	var done []Compaction
	for force || w.Estimate(specs) > w.room() {
		c, ok := w.next()
		if !ok {
			break
		}
		force = false
		w.Apply(c)
		done = append(done, c)
	}
	return done
}

// Fits reports whether the next prompt is thought to fit.
func (w *Window) fits(specs []models.ToolSpec) bool { return w.Estimate(specs) <= w.room() }

// next finds the mildest compaction that takes something away: first older
// results, all but those of the last reply; then everything before the last
// message of the person; then, within this turn, everything before the last
// reply.
func (w *Window) next() (Compaction, bool) {
	last := w.lastIndex(models.RoleAssistant)
	if last > 0 {
		c := Compaction{Kind: CompactResults, UpTo: last}
		if w.wouldShrink(c) {
			return c, true
		}
	}
	// A person's message stays, and so does what follows it, if that is enough.
	room := min(max(int(float64(w.room())/w.ratio)/4, summaryLeast), summaryBytes)
	if said := w.lastIndex(models.RoleUser); said > 1 {
		return Compaction{Kind: CompactSummary, UpTo: said, Bytes: room}, true
	}
	if last > 2 {
		return Compaction{Kind: CompactSummary, UpTo: last, Bytes: room}, true
	}
	c := Compaction{Kind: CompactLast, UpTo: len(w.messages), Bytes: lastResult}
	return c, w.wouldShrink(c)
}

func (w *Window) lastIndex(role models.Role) int {
	for i := len(w.messages) - 1; i >= 0; i-- {
		if w.messages[i].Role == role {
			return i
		}
	}
	return -1
}

func (w *Window) wouldShrink(c Compaction) bool {
	for _, m := range w.messages[:c.UpTo] {
		before, pics := messageSize(m)
		short := shortened(m)
		if c.Kind == CompactLast {
			short, pics = cutResults(m, c.Bytes), 0
		}
		after, _ := messageSize(short)
		if after < before || pics > 0 {
			return true
		}
	}
	return false
}

// Apply carries a compaction out. One that reaches beyond the history is cut
// to it.
func (w *Window) Apply(c Compaction) {
	n := min(max(c.UpTo, 0), len(w.messages))
	w.reported = 0 // the next prompt may well be smaller
	switch c.Kind {
	case CompactResults:
		next := slices.Clone(w.messages)
		for i := range n {
			next[i] = shortened(next[i])
		}
		w.messages = next
	case CompactSummary:
		w.messages = append(summarised(w.messages[:n], c.Bytes), w.messages[n:]...)
	case CompactLast:
		next := slices.Clone(w.messages)
		for i := range n {
			next[i] = cutResults(next[i], c.Bytes)
		}
		w.messages = next
	}
}

// cutResults cuts the results of a message to so many bytes each.
func cutResults(m models.Message, bytes int) models.Message {
	out := models.Message{Role: m.Role, Parts: slices.Clone(m.Parts)}
	for i, p := range out.Parts {
		if p.Kind == models.PartResult {
			r := *p.Result
			r.Text = Shorten(r.Text, bytes, "")
			out.Parts[i].Result = &r
		}
	}
	return out
}

// shortened takes older results down to their head, drops pictures, and drops
// reasoning that no engine needs back.
func shortened(m models.Message) models.Message {
	out := models.Message{Role: m.Role}
	for _, p := range m.Parts {
		if p.Kind == models.PartThinking && len(p.Opaque) == 0 {
			continue
		}
		if p.Kind == models.PartResult {
			r := *p.Result
			r.Images = nil
			if len(r.Text) > oldResult+80 {
				r.Text = fmt.Sprintf("%s\n[older result: %d more characters no longer shown]", cutBack(r.Text, oldResult), len(r.Text)-oldResult)
			}
			p.Result = &r
		}
		out.Parts = append(out.Parts, p)
	}
	return out
}

// summarised makes one user message of many. The newest lines win the room;
// if the last of them is the person's question of this turn, it stays whole.
func summarised(messages []models.Message, room int) []models.Message {
	question := ""
	for _, m := range messages {
		if m.Role == models.RoleUser {
			question = messageText(m)
			if isSummary(m) {
				_, question, _ = strings.Cut(question, summaryTail)
			}
		}
	}
	var lines []string
	for _, m := range messages {
		lines = append(lines, summaryLines(m)...)
	}
	kept := 0
	for kept < len(lines) && room >= len(lines[len(lines)-1-kept]) {
		room -= len(lines[len(lines)-1-kept])
		kept++
	}
	head := summaryHead
	if kept < len(lines) {
		head += fmt.Sprintf("\n(%d older lines left out)", len(lines)-kept)
	}
	text := head + "\n" + strings.Join(lines[len(lines)-kept:], "\n")
	if question != "" {
		text += summaryTail + question
	}
	return []models.Message{{Role: models.RoleUser, Parts: []models.Part{{Kind: models.PartText, Text: text}}}}
}

const (
	summaryHead = "[Lomi shortened the earlier part of this conversation. What happened, oldest first:]"
	summaryTail = "\nThe person's last message in this part, in full:\n"
)

func isSummary(m models.Message) bool { return strings.HasPrefix(messageText(m), summaryHead) }

func messageText(m models.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Kind == models.PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

func summaryLines(m models.Message) []string {
	var lines []string
	if isSummary(m) {
		before, _, _ := strings.Cut(messageText(m), summaryTail)
		return append(lines, strings.Split(before, "\n")[1:]...)
	}
	who := map[models.Role]string{models.RoleUser: "person", models.RoleAssistant: "you"}[m.Role]
	for _, p := range m.Parts {
		switch p.Kind {
		case models.PartText:
			lines = append(lines, "- "+who+" said: "+oneLine(p.Text, oldMessage))
		case models.PartCall:
			lines = append(lines, "- you called "+p.Call.Name+" "+oneLine(string(p.Call.Arguments), oldArguments))
		case models.PartResult:
			lines = append(lines, "  it answered: "+oneLine(p.Result.Text, oldArguments))
		}
	}
	return lines
}

func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		return cutBack(s, n) + "…"
	}
	return s
}
