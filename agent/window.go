package agent

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"lomi/models"
)

// Figures of the estimate. The first ratio is that of code and English with a
// BPE tokenizer, leaning to the safe side; the reported input tokens correct
// it from the first reply on. A byte-level tokenizer has 1.
const (
	firstRatio    = 0.32
	lowestRatio   = 0.2
	highestRatio  = 2.0
	pictureTokens = 1000
	messageBytes  = 16 // the template's frame around a message

	defaultWindow    = 128 << 10 // when an engine does not tell
	defaultMaxOutput = 4096
)

// WindowConfig describes what a Window is for.
type WindowConfig struct {
	// System is the system prompt. It must not change within a conversation.
	System string
	// Tokens is the model's window, 0 if the engine does not tell.
	Tokens int
	// MaxOutput bounds a reply, 4096 if 0.
	MaxOutput int
	// Vision keeps pictures in the prompt; without it a note stands for them.
	Vision bool
}

// Window builds prompts from a history. Messages once added stay as they are
// until a compaction, so each prompt is a prefix of the next and the engine's
// cache holds. It belongs to one turn at a time.
type Window struct {
	cfg      WindowConfig
	asked    int // what the engine is asked for: one fixed value, 0 leaves it to it
	messages []models.Message
	ids      map[string]bool // of all calls so far, compacted ones included

	ratio     float64 // tokens a byte
	sentBytes int     // of the last prompt
	sentPics  int
	reported  int  // input tokens of the last reply, 0 after a compaction
	warned    bool // about a window that the engine cut
}

// NewWindow returns a window that holds history, repaired.
func NewWindow(cfg WindowConfig, history []models.Message) *Window {
	asked := max(cfg.Tokens, 0)
	if cfg.Tokens <= 0 {
		cfg.Tokens = defaultWindow
	}
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = defaultMaxOutput
	}
	w := &Window{cfg: cfg, asked: asked, ids: map[string]bool{}, ratio: firstRatio}
	for _, m := range Repair(history) {
		w.Add(m)
	}
	return w
}

// Add appends a message, with tool results sized to the window. A reply with
// neither text nor calls is left out: no model can go on from it.
func (w *Window) Add(m models.Message) {
	parts := make([]models.Part, 0, len(m.Parts))
	speaks := m.Role != models.RoleAssistant
	for _, p := range m.Parts {
		switch p.Kind {
		case models.PartCall:
			w.ids[p.Call.ID] = true
			speaks = true
		case models.PartText:
			speaks = speaks || p.Text != ""
		case models.PartResult:
			r := *p.Result
			r.Text = Shorten(r.Text, ResultLimit(w.cfg.Tokens), "")
			r = w.see(r)
			p.Result = &r
		}
		parts = append(parts, p)
	}
	if speaks {
		w.messages = append(w.messages, models.Message{Role: m.Role, Parts: parts})
	}
}

// see takes the pictures away from a model that cannot see: they end the
// conversation with an error in most engines (bug 31).
func (w *Window) see(r models.ToolResult) models.ToolResult {
	if w.cfg.Vision || len(r.Images) == 0 {
		return r
	}
	r.Text = strings.TrimSpace(fmt.Sprintf("%s\n(%d picture left out: this model cannot see pictures.)", r.Text, len(r.Images)))
	r.Images = nil
	return r
}

// Messages returns the prompt. The slice must not be changed.
func (w *Window) Messages() []models.Message {
	all := make([]models.Message, 0, len(w.messages)+1)
	if w.cfg.System != "" {
		all = append(all, models.Message{Role: models.RoleSystem,
			Parts: []models.Part{{Kind: models.PartText, Text: w.cfg.System}}})
	}
	return append(all, w.messages...)
}

// Estimate returns the tokens that the next prompt is thought to have.
func (w *Window) Estimate(specs []models.ToolSpec) int {
	bytes, pictures := w.size(specs)
	return int(float64(bytes)*w.ratio) + pictures*pictureTokens
}

func (w *Window) size(specs []models.ToolSpec) (bytes, pictures int) {
	bytes = len(w.cfg.System) + messageBytes
	for _, s := range specs {
		bytes += len(s.Name) + len(s.Description) + len(s.Parameters) + messageBytes
	}
	for _, m := range w.messages {
		b, p := messageSize(m)
		bytes, pictures = bytes+b, pictures+p
	}
	return bytes, pictures
}

func messageSize(m models.Message) (bytes, pictures int) {
	bytes = messageBytes
	for _, p := range m.Parts {
		bytes += len(p.Text) + len(p.Opaque)
		switch {
		case p.Call != nil:
			bytes += len(p.Call.Name) + len(p.Call.Arguments) + messageBytes
		case p.Result != nil:
			bytes += len(p.Result.Text) + messageBytes
			pictures += len(p.Result.Images)
		case p.Image != nil:
			pictures++
		}
	}
	return bytes, pictures
}

// room is what a prompt may have: the window without the reply.
func (w *Window) room() int { return w.cfg.Tokens - w.reserve() }

func (w *Window) reserve() int { return min(w.cfg.MaxOutput, w.cfg.Tokens/4) }

// sending notes what is about to be sent and returns the reply's bound.
func (w *Window) sending(specs []models.ToolSpec) int {
	w.sentBytes, w.sentPics = w.size(specs)
	return max(w.reserve(), min(w.cfg.MaxOutput, w.cfg.Tokens-w.Estimate(specs)))
}

// observe corrects the estimate by what the engine counted. The text is a
// warning for the person, "" for none: an engine that counts fewer tokens for a
// longer prompt has dropped part of it (F-67).
func (w *Window) observe(u models.Usage) string {
	if u.InputTokens <= 0 {
		return ""
	}
	before := w.reported
	w.reported = u.InputTokens
	if text := u.InputTokens - w.sentPics*pictureTokens; text > 0 && w.sentBytes > 0 {
		w.ratio = min(max(float64(text)/float64(w.sentBytes), lowestRatio), highestRatio)
	}
	switch {
	case w.warned:
		return ""
	case u.ContextWindow > 0 && u.ContextWindow < w.cfg.Tokens:
		w.warned = true
		was := w.cfg.Tokens
		w.cfg.Tokens = u.ContextWindow
		return fmt.Sprintf("The engine runs this model with a window of %d tokens, not the %d that were asked for. Lomi shortens earlier messages sooner.", u.ContextWindow, was)
	case before > u.InputTokens:
		w.warned = true
		return fmt.Sprintf("The engine read %d tokens of a prompt that is longer than the one of %d before: it seems to drop earlier messages.", u.InputTokens, before)
	}
	return ""
}

// overflowed makes the estimate say what the engine just said: too large.
func (w *Window) overflowed(specs []models.ToolSpec) {
	bytes, _ := w.size(specs)
	w.ratio = min(max(w.ratio*1.25, float64(w.cfg.Tokens)*1.05/float64(bytes)), highestRatio)
}

// Limits of a tool result's text in characters, by window.
var resultLimits = [...]struct{ tokens, chars int }{
	{4 << 10, 3000}, {8 << 10, 6000}, {16 << 10, 15000}, {32 << 10, 30000},
}

const largestResult = 60000

// ResultLimit returns how many characters of a tool result a model with this
// window should see.
func ResultLimit(tokens int) int {
	if tokens <= 0 {
		tokens = defaultWindow
	}
	for _, l := range resultLimits {
		if tokens <= l.tokens {
			return l.chars
		}
	}
	return largestResult
}

// Shorten keeps head and tail of a text that is longer than limit bytes and
// names what is missing in the middle; how says the way to read it.
func Shorten(text string, limit int, how string) string {
	if len(text) <= limit {
		return text
	}
	if how != "" {
		how = "; " + how
	}
	keep := max(limit-120-len(how), limit/2)
	head := cutBack(text, keep*3/5)
	tail := cutForward(text, len(text)-keep*2/5)
	missing := len(text) - len(head) - len(tail)
	return fmt.Sprintf("%s\n[… %d characters left out here%s …]\n%s", head, missing, how, tail)
}

// cutBack returns the first n bytes or fewer, ending at a whole character.
func cutBack(s string, n int) string {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func cutForward(s string, from int) string {
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}
