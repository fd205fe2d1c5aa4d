package chat

import (
	"strconv"
	"strings"
	"time"

	"lomi/agent"
	"lomi/broker/catalog/terminal"
	"lomi/broker/control"
)

type inputArguments struct {
	Text     *string  `json:"text,omitempty"`
	Key      string   `json:"key,omitempty"`
	Enter    *boolean `json:"enter,omitempty"`
	Terminal string   `json:"terminal,omitempty"`
}

func (a *inputArguments) check() string {
	switch {
	case a.Text == nil && a.Key == "":
		return `text or key: one of them is needed. Example: {"text":"yes"} or {"key":"ctrl_c"}`
	case a.Text != nil && a.Key != "":
		return "text and key: only one at a time. Send the text first, then the key."
	case a.Key != "" && !terminal.ValidKey(a.Key):
		return "key: is none of the keys. Use enter, tab, escape, backspace, up, down, left, right, ctrl_c, ctrl_d."
	}
	return ""
}

func (c *sessionCall) terminalInput(a inputArguments) (agent.Result, error) {
	t, err := c.terminalOf(a.Terminal)
	if err != nil {
		return agent.Result{}, err
	}
	before, err := c.peek(t, 1)
	if err != nil {
		return agent.Result{}, err
	}
	input := terminal.Input{Type: "key", Key: a.Key}
	if a.Text != nil {
		input = terminal.Input{Type: "text", Text: *a.Text}
		if a.Enter == nil || *a.Enter {
			input.Text += "\r"
		}
	}
	t.input = parseCursor(before.NextInputSequence)
	if err := c.typeIn(terminal.InputRequest{Scoped: c.scoped(), Session: t.session, LeaseID: t.lease,
		InputSequence: strconv.FormatUint(t.input, 10), Input: input}); err != nil {
		return agent.Result{}, err
	}
	result, err := c.afterInput(t, before.NextCursor)
	if err != nil {
		result = c.failure(err)
		result.Text = "Typed, but what came after it could not be read. " + result.Text
	}
	return result, nil
}

// typeIn has one input typed and returns nil only when it was. The answer is an
// operation while a person is asked, else an acknowledgement that may leave
// the end open.
func (c *sessionCall) typeIn(request terminal.InputRequest) error {
	const tool = "lomi_terminal_input"
	_, key, _ := request.Retry()
	op, err := c.dispatch(tool, func(string) control.Retryable { return request })
	if err == nil {
		op, err = c.settle(op, settleTimeout, nil)
	}
	ack, err := resultOf[terminal.InputAck](op, err)
	if err == nil && ack.Dispatch == "pending" {
		if op.Operation, err = c.byKey(tool, key); err == nil {
			op, err = c.settle(op, settleTimeout, nil)
		}
		ack, err = resultOf[terminal.InputAck](op, err)
	}
	if err == nil && ack.Dispatch != "dispatched" {
		op.State, op.EffectState = control.StateOutcomeUnknown, control.EffectUnknown
		return &operationError{op}
	}
	return err
}

// afterInput shows what came after something was typed: the new output, once it
// pauses, or the screen of a full-screen program.
func (c *sessionCall) afterInput(t *terminalState, cursor string) (agent.Result, error) {
	deadline := time.Now().Add(inputSettle)
	var out terminal.Output
	last := ""
	for {
		if err := c.pause(inputPoll); err != nil {
			return agent.Result{}, err
		}
		var err error
		out, err = read[terminal.Output](c, "lomi_terminal_read", terminal.ReadRequest{Scoped: c.scoped(), Session: t.session,
			Mode: "output", Cursor: cursor, MaxBytes: min(max(c.view.chars, tailBytes), readBytes)})
		if err != nil {
			return agent.Result{}, err
		}
		quiet := out.Text != "" && out.NextCursor == last
		last = out.NextCursor
		if quiet || out.Exited || !time.Now().Before(deadline) {
			break
		}
	}
	screen, err := c.screen(t)
	if err == nil && screen.Buffer == "alternate" {
		return c.screenResult(t, screen), nil
	}
	t.cursor = out.NextCursor
	head := "Typed."
	switch {
	case out.Exited:
		head = "Typed. The shell has ended."
		c.session.terminals.drop(t.name)
	case out.WaitingForInput:
		head = "Typed. The program waits for input again."
	case out.Prompt == "ready":
		head = "Typed. The program has ended; the shell's prompt is back."
	case out.Prompt == "running":
		head = "Typed. The program goes on; see more with terminal_read{\"from\":\"cursor\"}."
	}
	if strings.TrimSpace(out.Text) == "" {
		return agent.Result{Text: head + " No new output yet."}, nil
	}
	return agent.Result{Text: head + "\n" + c.fenced(t.source(), out.Text, "")}, nil
}
