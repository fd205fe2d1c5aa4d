package main

import (
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

func (p *jsonPrinter) line(v map[string]any) error {
	enc := json.NewEncoder(p.out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
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
			if err := p.line(map[string]any{"type": one.Kind, "delta": text}); err != nil {
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
		var d struct{ Turn, Model string }
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		return p.line(map[string]any{"type": e.Kind, "conversation": p.conversation, "turn": d.Turn, "model": d.Model})
	case "call.started":
		var d callStarted
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		return p.line(map[string]any{"type": "tool.call", "call": d.Call, "tool": d.Name, "arguments": d.Arguments})
	case "call.ended":
		var d callEnded
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		content := []map[string]any{{"type": "text", "text": d.Text}}
		for _, i := range d.Images {
			content = append(content, map[string]any{"type": "image", "mediaType": i.MediaType, "artifact": i.Artifact})
		}
		return p.line(map[string]any{"type": "tool.result", "call": d.Call, "tool": d.Name, "isError": d.IsError, "content": content, "receipt": d.Receipt})
	case "approval.requested":
		var d asked
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		return p.line(map[string]any{"type": e.Kind, "id": d.ID, "kind": d.Kind, "summary": d.Summary})
	case "turn.ended":
		var d turnEnded
		if err := json.Unmarshal(e.Data, &d); err != nil {
			return err
		}
		out := map[string]any{"type": e.Kind, "stopReason": d.StopReason, "usage": d.Usage}
		if d.Error != "" {
			out["error"] = d.Error
		}
		return p.line(out)
	}
	return nil
}

// plainPrinter prints the answer on stdout, and what was done on stderr.
type plainPrinter struct {
	out, err io.Writer
	texts    texts
	wrote    bool
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
	if note.text != "" {
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
		n = note{"→", strings.TrimSpace(d.Name + " " + string(d.Arguments))}
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
		n = note{"?", d.Summary + " (waiting for your answer)"}
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
