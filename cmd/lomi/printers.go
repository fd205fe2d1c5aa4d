package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"lomi/cmd/lomi/tui"
)

// printer shows a turn as it happens.
type printer interface {
	show(frame) error
}

// callStarted and callEnded are the data of the events of a call.
type callStarted struct {
	Call      string          `json:"call"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Title     string          `json:"title"`
}

type callEnded struct {
	Call       string     `json:"call"`
	Name       string     `json:"name"`
	IsError    bool       `json:"isError"`
	Text       string     `json:"text"`
	Images     []imageRef `json:"images"`
	Receipt    string     `json:"receipt"`
	Outcome    string     `json:"outcome"`
	DurationMs int64      `json:"durationMs"`
}

type imageRef struct {
	MediaType string `json:"mediaType"`
	Artifact  string `json:"artifact"`
}

// turnEnded is the data of the last event of a turn.
type turnEnded struct {
	StopReason string          `json:"stopReason"`
	Error      string          `json:"error"`
	Usage      json.RawMessage `json:"usage"`
}

// replyEnded is the data of the last event of a reply: its parts, whole.
type replyEnded struct {
	Message string `json:"message"`
	Parts   []struct {
		Kind string `json:"kind"`
		Text string `json:"text"`
	} `json:"parts"`
}

// pieces finds the text in a frame, whichever of the four forms it has.
func pieces(f frame) ([]piece, error) {
	switch {
	case f.Delta != nil:
		return []piece{*f.Delta}, nil
	case f.Snapshot != nil:
		return f.Snapshot.Parts, nil
	case f.Event == nil:
		return nil, nil
	}
	switch f.Event.Kind {
	case "text.appended":
		var p piece
		err := json.Unmarshal(f.Event.Data, &p)
		return []piece{p}, err
	case "reply.ended":
		var r replyEnded
		if err := json.Unmarshal(f.Event.Data, &r); err != nil {
			return nil, err
		}
		var out []piece
		for i, p := range r.Parts {
			if p.Kind == "text" || p.Kind == "thinking" {
				out = append(out, piece{Message: r.Message, Part: i, Kind: p.Kind, Text: p.Text})
			}
		}
		return out, nil
	}
	return nil, nil
}

// jsonPrinter prints one event a line, in the stable form for programs. Its
// text deltas add up to the stored message.
type jsonPrinter struct {
	out          io.Writer
	conversation string
	texts        texts
}

// field is one name and value of a line; their order is kept, because people
// read these lines too.
type field struct {
	name  string
	value any
}

func (p *jsonPrinter) line(kind string, fields ...field) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, f := range append([]field{{"type", kind}}, fields...) {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, "%q:", f.name)
		if err := enc.Encode(f.value); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		b.Truncate(b.Len() - 1) // Encode's newline
	}
	b.WriteString("}\n")
	if _, err := p.out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

func (p *jsonPrinter) show(f frame) error {
	ps, err := pieces(f)
	if err != nil {
		return fmt.Errorf("reading text: %w", err)
	}
	for _, one := range ps {
		if text := p.texts.next(one); text != "" {
			if err := p.line(one.Kind, field{"delta", text}); err != nil {
				return err
			}
		}
	}
	if f.Event == nil {
		return nil
	}
	return p.event(*f.Event)
}

func (p *jsonPrinter) event(e event) error {
	switch e.Kind {
	case "turn.started":
		return printEvent(e, func(d struct{ Turn, Model string }) error {
			return p.line(e.Kind, field{"conversation", p.conversation}, field{"turn", d.Turn}, field{"model", d.Model})
		})
	case "call.started":
		return printEvent(e, func(d callStarted) error {
			return p.line("tool.call", field{"call", d.Call}, field{"tool", d.Name}, field{"arguments", d.Arguments})
		})
	case "call.ended":
		return printEvent(e, func(d callEnded) error {
			content := []any{textContent{"text", d.Text}}
			for _, i := range d.Images {
				content = append(content, imageContent{"image", i.MediaType, i.Artifact})
			}
			return p.line("tool.result", field{"call", d.Call}, field{"tool", d.Name}, field{"isError", d.IsError},
				field{"content", content}, field{"receipt", d.Receipt})
		})
	case "approval.requested":
		return printEvent(e, func(d asked) error {
			return p.line(e.Kind, field{"id", d.ID}, field{"kind", d.Kind}, field{"summary", d.Summary})
		})
	case "turn.ended":
		return printEvent(e, func(d turnEnded) error {
			fields := []field{{"stopReason", d.StopReason}, {"usage", d.Usage}}
			if d.Error != "" {
				fields = append(fields, field{"error", d.Error})
			}
			return p.line(e.Kind, fields...)
		})
	}
	return nil
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type imageContent struct {
	Type      string `json:"type"`
	MediaType string `json:"mediaType"`
	Artifact  string `json:"artifact"`
}

// printEvent decodes the data of an event and prints it.
func printEvent[T any](e event, show func(T) error) error {
	var data T
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return fmt.Errorf("reading %s: %w", e.Kind, err)
	}
	return show(data)
}

// plainPrinter prints the answer on stdout, and what was done on stderr.
type plainPrinter struct {
	out, err io.Writer
	texts    texts
	wrote    bool
	answers  bool // what the turn asks is answered from here
}

func (p *plainPrinter) show(f frame) error {
	ps, err := pieces(f)
	if err != nil {
		return fmt.Errorf("reading text: %w", err)
	}
	for _, one := range ps {
		if text := p.texts.next(one); text != "" && one.Kind == "text" {
			fmt.Fprint(p.out, plainText(text))
			p.wrote = !strings.HasSuffix(text, "\n")
		}
	}
	note, ok, err := noteOf(f)
	if err != nil || !ok {
		return err
	}
	if p.wrote {
		fmt.Fprintln(p.out)
		p.wrote = false
	}
	if asks := f.Event.Kind == "approval.requested"; note.text != "" && !(asks && p.answers) {
		fmt.Fprintln(p.err, note.sign+" "+plain(note.text))
	}
	return nil
}

// note is a line that says what happened.
type note struct{ sign, text string }

// noteOf puts an event into words for a person, "" for one that has none. ok is
// false for what is no event.
func noteOf(f frame) (note, bool, error) {
	if f.Event == nil {
		return note{}, false, nil
	}
	var err error
	n := note{}
	switch f.Event.Kind {
	case "call.started":
		var d callStarted
		err = json.Unmarshal(f.Event.Data, &d)
		n = note{"→", strings.TrimSpace(d.Name + " " + about(d.Arguments))}
	case "call.ended":
		var d callEnded
		err = json.Unmarshal(f.Event.Data, &d)
		n = note{"←", firstLines(d.Text, 12)}
		if d.IsError {
			n.sign = "✗"
		}
	case "approval.requested":
		var d asked
		err = json.Unmarshal(f.Event.Data, &d)
		n = note{"?", d.Summary + " (waits for an answer: lomi approve yes " + d.ID + ", or in the page)"}
		if d.Kind == "pairing" {
			n.text = d.Summary + " (waits for an answer: lomi pair approve " + d.ID + ", or in the page)"
		}
	case "turn.ended":
		var d turnEnded
		err = json.Unmarshal(f.Event.Data, &d)
		if d.Error != "" {
			n = note{"!", d.Error}
		}
	case "text.appended", "reply.started", "message.added", "turn.started":
		return note{}, false, nil
	}
	return n, true, err
}

// about puts the arguments of a call into one line: the one thing that it is
// about, or all of them.
func about(arguments json.RawMessage) string {
	var fields map[string]any
	if err := json.Unmarshal(arguments, &fields); err != nil {
		return string(arguments)
	}
	for _, name := range []string{"command", "url", "text", "path", "question", "key"} {
		if value, ok := fields[name].(string); ok {
			return value
		}
	}
	if n, ok := fields["element"].(float64); ok {
		return fmt.Sprintf("element %.0f", n)
	}
	if len(fields) == 0 {
		return ""
	}
	return string(arguments)
}

func firstLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) <= n {
		return strings.Join(lines, "\n")
	}
	return strings.Join(lines[:n], "\n") + fmt.Sprintf("\n… %d more lines", len(lines)-n)
}

// screenPrinter shows a turn on a person's terminal.
type screenPrinter struct {
	screen *tui.Screen
	texts  texts
	status string
}

func (p *screenPrinter) show(f frame) error {
	ps, err := pieces(f)
	if err != nil {
		return fmt.Errorf("reading text: %w", err)
	}
	for _, one := range ps {
		text := p.texts.next(one)
		switch one.Kind {
		case "text":
			p.screen.Text(text)
		case "thinking":
			p.screen.Thinking(text)
		}
	}
	if f.Status != nil && f.Status.State != p.status {
		p.status = f.Status.State
		p.screen.Note("·", p.status)
	}
	n, ok, err := noteOf(f)
	if err != nil || !ok || n.text == "" || f.Event.Kind == "approval.requested" {
		return err
	}
	p.screen.Note(n.sign, n.text)
	return nil
}
