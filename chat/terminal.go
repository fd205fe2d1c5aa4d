package chat

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lomi/agent"
	"lomi/broker/catalog/terminal"
	"lomi/broker/catalog/workbench"
	"lomi/broker/control"
)

// Waits and sizes of the terminal forms.
const (
	runWait       = 20 * time.Second // default of wait_s
	maxRunWait    = 600              // in seconds
	inputSettle   = 1500 * time.Millisecond
	inputPoll     = 150 * time.Millisecond
	createWait    = 30 * time.Second
	interruptWait = 10 * time.Second
	readBytes     = 65536 // at most, of one lomi_terminal_read
	tailBytes     = 1024  // of progress
	maxBackground = 5     // processes that a result names
	lineBytes     = 120   // guess for a line, to turn lines into bytes
)

// terminalState is what the session holds of one terminal.
type terminalState struct {
	name    string
	session terminal.Session
	lease   string
	input   uint64 // next input sequence, 0: ask
	cursor  string // where the model has stopped reading

	operation string // the last run
	command   string
	started   time.Time
}

type runArguments struct {
	Command  string  `json:"command"`
	Terminal string  `json:"terminal,omitempty"`
	WaitS    integer `json:"wait_s,omitempty"`
}

func (a *runArguments) check() string {
	switch {
	case strings.TrimSpace(a.Command) == "":
		return `command: must not be empty. Example: {"command":"ls -l"}`
	case strings.ContainsAny(a.Command, "\n\r"):
		return "command: must be one line. Join lines with && or ;, or write a script file first."
	case a.WaitS < 0 || a.WaitS > maxRunWait:
		return "wait_s: must be 1 to 600 seconds."
	}
	return ""
}

// terminalOf finds a terminal, or makes the first one.
func (c *sessionCall) terminalOf(name string) (*terminalState, error) {
	terminals := &c.session.terminals
	if t, ok := terminals.find(name); ok {
		return t, nil
	}
	if len(terminals.order) > 0 {
		return nil, advise("terminal: there is none called %q; there are: %s. Use one of these, or terminal_create.", clip(name, 60), terminals.names())
	}
	if name == "" {
		name = "main"
	}
	return c.createTerminal(name, "")
}

func (c *sessionCall) createTerminal(name, folder string) (*terminalState, error) {
	name = clip(name, 60)
	created, err := resultOf[terminal.Created](c.mutate("lomi_terminal_create", createWait, true, func(key, revision string) control.Retryable {
		return terminal.CreateRequest{Mutation: c.mutation(key, revision), CWDRelative: folder, Title: name}
	}, nil))
	if err != nil {
		return nil, err
	}
	t := &terminalState{session: terminal.Session{PanelID: created.PanelID, TerminalSessionID: created.TerminalSessionID}, lease: created.LeaseID}
	t.name = c.session.terminals.add(name, t)
	return t, nil
}

func (c *sessionCall) mutation(key, revision string) control.Mutation {
	return control.Mutation{WorkspaceID: c.session.cfg.WorkspaceID, ExpectedRevision: revision, RetryEpoch: c.session.epoch, RequestKey: key}
}

func (c *sessionCall) keyed(key string) control.Keyed {
	return control.Keyed{WorkspaceID: c.session.cfg.WorkspaceID, RetryEpoch: c.session.epoch, RequestKey: key}
}

func (c *sessionCall) scoped() control.Scoped {
	return control.Scoped{WorkspaceID: c.session.cfg.WorkspaceID}
}

func (c *sessionCall) terminalRun(a runArguments) (agent.Result, error) {
	t, err := c.terminalOf(a.Terminal)
	if err != nil {
		return agent.Result{}, err
	}
	wait := runWait
	if a.WaitS > 0 {
		wait = time.Duration(a.WaitS) * time.Second
	}
	op, err := c.run(t, a.Command, wait)
	if err != nil {
		if e, ok := control.AsError(err); ok && e.Code == control.TargetBusy {
			return t.busy(), nil
		}
		return agent.Result{}, err
	}
	return c.runResult(t, op)
}

// run dispatches a command and watches it, no longer than the program lets it
// go on without waiting for input.
func (c *sessionCall) run(t *terminalState, command string, wait time.Duration) (operation, error) {
	op, err := c.dispatch("lomi_terminal_run", func(key string) control.Retryable {
		return terminal.RunRequest{Keyed: c.keyed(key), Session: t.session, LeaseID: t.lease, Command: command}
	})
	if err != nil {
		return op, err
	}
	t.operation, t.command, t.started = op.OperationID, command, time.Now()
	deadline, waiting := time.Now().Add(wait), 0
	for {
		before := time.Now()
		step := min(max(time.Until(deadline), 0), pollWait)
		if op, err = c.settle(op, step, nil); err != nil || op.State.Settled() || c.ctx.Err() != nil {
			return op, err
		}
		if op.asked && op.State == control.StateRunning {
			// settle has counted the person's time out of its own step only.
			deadline = deadline.Add(max(time.Since(before)-step, 0))
			op.asked = false
		}
		out, err := c.peek(t, tailBytes)
		if err != nil {
			return op, err
		}
		c.progress(string(op.State), out.Text)
		if out.WaitingForInput {
			waiting++
		} else {
			waiting = 0
		}
		if waiting > 1 || !time.Now().Before(deadline) {
			return op, nil
		}
	}
}

func (c *sessionCall) peek(t *terminalState, bytes int) (terminal.Output, error) {
	return read[terminal.Output](c, "lomi_terminal_read", terminal.ReadRequest{Scoped: c.scoped(), Session: t.session, Mode: "output", MaxBytes: bytes})
}

func (t *terminalState) busy() agent.Result {
	what := ""
	if t.command != "" {
		what = ": " + clip(t.command, 100)
	}
	return failed("Terminal %q still runs a command%s. See its output with terminal_read{}, stop it with terminal_interrupt{}, answer it with terminal_input, or open another terminal with terminal_create.", t.name, what)
}

// runResult says how a command ended, or that it goes on.
func (c *sessionCall) runResult(t *terminalState, op operation) (agent.Result, error) {
	if !op.State.Settled() {
		return c.stillRunning(t)
	}
	ran, err := resultOf[terminal.Command](op, nil)
	if err != nil {
		if op.Code == control.TargetBusy {
			return t.busy(), nil
		}
		return agent.Result{}, err
	}
	output, err := c.runOutput(t, op.OperationID, ran.Observation)
	if err != nil {
		return agent.Result{}, err
	}
	head := "It ended, but its exit code was not seen."
	if code := ran.Observation.ExitCode; code != nil {
		head = fmt.Sprintf("Exit code %d.", *code)
	}
	t.operation = ""
	left := inBackground(ran.Background)
	if strings.TrimSpace(output) == "" {
		head, output = head+" No output.", ""
	}
	if left != "" {
		head, output = head+" It left programs running in the background.", strings.TrimSuffix(output, "\n")+left
	}
	if output == "" {
		return agent.Result{Text: head}, nil
	}
	return agent.Result{Text: head + "\n" + fence(t.source(), strings.TrimPrefix(output, "\n"))}, nil
}

// inBackground names what a command left running, on one line of its own.
func inBackground(left []terminal.BackgroundProcess) string {
	if len(left) == 0 {
		return ""
	}
	var names []string
	for _, p := range left[:min(len(left), maxBackground)] {
		names = append(names, fmt.Sprintf("%s (pid %d)", clip(p.Command, 80), p.PID))
	}
	text := "\nStill running in the background: " + strings.Join(names, ", ")
	if more := len(left) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + "."
}

func (t *terminalState) source() string { return fmt.Sprintf("terminal %q", t.name) }

func (c *sessionCall) stillRunning(t *terminalState) (agent.Result, error) {
	out, err := c.peek(t, min(max(c.view.chars/3, tailBytes), readBytes))
	if err != nil {
		return agent.Result{}, err
	}
	t.cursor = out.NextCursor
	text := out.Text
	if out.WaitingForInput {
		if out.Foreground != "" {
			text = "[" + clip(out.Foreground, 60) + " waits]\n" + text
		}
		return agent.Result{Text: fmt.Sprintf("It waits for input in terminal %q. Answer with terminal_input{\"text\":\"…\"}, or stop it with terminal_interrupt{}. Last output:\n%s",
			t.name, c.fenced(t.source(), text, ""))}, nil
	}
	seconds := int(time.Since(t.started).Seconds())
	return agent.Result{Text: fmt.Sprintf("Still running in terminal %q, started %d s ago. It goes on by itself. See more with terminal_read{\"from\":\"cursor\"}, stop it with terminal_interrupt{}, or use another terminal with terminal_create. Last output:\n%s",
		t.name, seconds, c.fenced(t.source(), text, ""))}, nil
}

// runOutput reads what a command printed: all of it, or head and tail.
func (c *sessionCall) runOutput(t *terminalState, operation string, o terminal.Observation) (string, error) {
	limit := max(c.view.chars-fenceRoom, fenceRoom)
	start, end := parseCursor(o.StartCursor), parseCursor(o.EndCursor)
	t.cursor = o.EndCursor
	if end <= start {
		return "", nil
	}
	if end-start <= uint64(limit) {
		text, _, err := c.readRange(t, operation, start, end)
		return text, err
	}
	const saying = 200
	headBytes, tailPart := uint64(limit-saying)*3/5, uint64(limit-saying)*2/5
	head, headEnd, err := c.readRange(t, operation, start, start+headBytes)
	if err != nil {
		return "", err
	}
	from := max(end-tailPart, headEnd)
	tail, _, err := c.readRange(t, operation, from, end)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\n[… %d bytes left out here; run it again with | grep, | head or > file to see them …]\n%s", head, from-headEnd, tail), nil
}

// readRange reads the output of a run between two cursors and says where it
// stopped.
func (c *sessionCall) readRange(t *terminalState, operation string, from, to uint64) (string, uint64, error) {
	var b strings.Builder
	for from < to {
		out, err := read[terminal.Output](c, "lomi_terminal_read", terminal.ReadRequest{Scoped: c.scoped(), Session: t.session,
			Mode: "command", OperationID: operation, Cursor: strconv.FormatUint(from, 10), MaxBytes: int(min(to-from, readBytes))})
		if err != nil {
			return "", from, err
		}
		if out.Gap {
			b.WriteString("[… output before this is no longer kept …]\n")
		}
		b.WriteString(out.Text)
		next := parseCursor(out.NextCursor)
		if next <= from {
			break
		}
		from = next
	}
	return b.String(), from, nil
}

func parseCursor(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// pause waits, unless the turn ends first.
func (c *sessionCall) pause(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

type readArguments struct {
	From     string  `json:"from,omitempty"`
	Lines    integer `json:"lines,omitempty"`
	Terminal string  `json:"terminal,omitempty"`
}

func (a *readArguments) check() string {
	switch a.From {
	case "", "last", "start", "cursor":
	default:
		return "from: must be last, start or cursor."
	}
	if a.Lines < 0 || a.Lines > 1000 {
		return "lines: must be 1 to 1000."
	}
	if a.Lines == 0 {
		a.Lines = 100
	}
	return ""
}

func (c *sessionCall) terminalRead(a readArguments) (agent.Result, error) {
	t, err := c.terminalOf(a.Terminal)
	if err != nil {
		return agent.Result{}, err
	}
	req := terminal.ReadRequest{Scoped: c.scoped(), Session: t.session, Mode: "output"}
	req.MaxBytes = min(max(c.view.chars-fenceRoom, tailBytes), int(a.Lines)*lineBytes*4, readBytes)
	fromStart := a.From == "start" || a.From == "cursor" && t.cursor != ""
	switch {
	case a.From == "start":
		req.Cursor = "0"
	case fromStart:
		req.Cursor = t.cursor
	}
	out, err := read[terminal.Output](c, "lomi_terminal_read", req)
	if err != nil {
		return agent.Result{}, err
	}
	text := outputLines(out.Text, int(a.Lines), fromStart)
	t.cursor = out.NextCursor
	if fromStart && len(text) < len(out.Text) {
		// Cursors count bytes of the same text, so the rest begins here.
		first := parseCursor(out.NextCursor) - uint64(len(out.Text))
		t.cursor = strconv.FormatUint(first+uint64(len(text)), 10)
	}
	head := "State: " + promptWord(out) + "."
	if out.Gap && a.From == "cursor" {
		head += " Some output in between is no longer kept."
	}
	if fromStart && t.cursor != out.StreamSequence && len(text) > 0 {
		head += ` Go on with terminal_read{"from":"cursor"}.`
	}
	if strings.TrimSpace(text) == "" {
		return agent.Result{Text: head + " No output there."}, nil
	}
	return agent.Result{Text: head + "\n" + c.fenced(t.source(), text, `read less at once with "lines"`)}, nil
}

// outputLines takes at most n lines, from the start or from the end.
func outputLines(text string, n int, fromStart bool) string {
	if fromStart {
		at := 0
		for range n {
			i := strings.IndexByte(text[at:], '\n')
			if i < 0 {
				return text
			}
			at += i + 1
		}
		return text[:at]
	}
	at := len(strings.TrimRight(text, "\n"))
	for range n {
		i := strings.LastIndexByte(text[:at], '\n')
		if i < 0 {
			return text
		}
		at = i
	}
	return text[at+1:]
}

func promptWord(out terminal.Output) string {
	switch {
	case out.Exited:
		return "the shell has ended"
	case out.WaitingForInput:
		return "a program waits for input"
	case out.Prompt == "running":
		return "a command is running"
	case out.Prompt == "ready":
		return "the prompt is ready for a command"
	case out.Prompt == "editing":
		return "something is typed at the prompt"
	}
	return "unknown"
}

type terminalArguments struct {
	Terminal string `json:"terminal,omitempty"`
}

func (c *sessionCall) screen(t *terminalState) (terminal.Screen, error) {
	return read[terminal.Screen](c, "lomi_terminal_read", terminal.ReadRequest{Scoped: c.scoped(), Session: t.session, Mode: "screen"})
}

func (c *sessionCall) terminalScreen(a terminalArguments) (agent.Result, error) {
	t, err := c.terminalOf(a.Terminal)
	if err != nil {
		return agent.Result{}, err
	}
	screen, err := c.screen(t)
	if err != nil {
		return agent.Result{}, err
	}
	return c.screenResult(t, screen), nil
}

func (c *sessionCall) screenResult(t *terminalState, s terminal.Screen) agent.Result {
	lines := strings.Split(strings.TrimRight(s.Text, "\n "), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return agent.Result{Text: fmt.Sprintf("The screen of terminal %q, %d by %d; the cursor is at row %d, column %d.\n%s",
		t.name, s.Columns, s.Rows, s.CursorRow+1, s.CursorColumn+1, c.fenced(t.source(), strings.Join(lines, "\n"), ""))}
}

func (c *sessionCall) terminalInterrupt(a terminalArguments) (agent.Result, error) {
	t, err := c.terminalOf(a.Terminal)
	if err != nil {
		return agent.Result{}, err
	}
	if t.operation == "" {
		return failed("No command of yours runs in terminal %q. To press Ctrl+C all the same, use terminal_input{\"key\":\"ctrl_c\"}.", t.name), nil
	}
	run := operation{Operation: control.Operation{OperationID: t.operation, State: control.StateRunning}}
	_, err = resultOf[terminal.Interrupted](c.mutate("lomi_terminal_interrupt", interruptWait, false, func(key, _ string) control.Retryable {
		return terminal.InterruptRequest{Keyed: c.keyed(key), Session: t.session, LeaseID: t.lease, OperationID: t.operation}
	}, nil))
	if err != nil {
		if e, ok := errorCode(err); !ok || e != control.TargetNotFound {
			return agent.Result{}, err
		}
		// It ended by itself in the meantime: its result says so.
	}
	ended, err := c.settle(run, interruptWait, nil)
	if err != nil {
		return agent.Result{}, err
	}
	if !ended.State.Settled() {
		return failed("Ctrl+C was sent, but the program in terminal %q still runs. Look with terminal_screen{}; it may ask something. terminal_input{\"key\":\"ctrl_d\"} or a second terminal_interrupt{} may help.", t.name), nil
	}
	result, err := c.runResult(t, ended)
	if err != nil {
		t.operation = ""
		return agent.Result{Text: fmt.Sprintf("Stopped with Ctrl+C. Terminal %q is free again.", t.name)}, nil
	}
	result.Text = "Stopped with Ctrl+C. " + result.Text
	return result, nil
}

func errorCode(err error) (control.Code, bool) {
	if e, ok := control.AsError(err); ok {
		return e.Code, true
	}
	return operationCode(err)
}

type createArguments struct {
	Name   string `json:"name,omitempty"`
	Folder string `json:"folder,omitempty"`
}

func (c *sessionCall) terminalCreate(a createArguments) (agent.Result, error) {
	if a.Name == "" {
		a.Name = "terminal"
		if len(c.session.terminals.order) == 0 {
			a.Name = "main"
		}
	}
	t, err := c.createTerminal(a.Name, strings.Trim(strings.TrimPrefix(a.Folder, "./"), "/"))
	if err != nil {
		return agent.Result{}, err
	}
	return agent.Result{Text: fmt.Sprintf("Terminal %q is open and is the one used by default now. Run something with terminal_run{\"command\":\"…\"}.", t.name)}, nil
}

func (c *sessionCall) terminalList(struct{}) (agent.Result, error) {
	panels, err := read[workbench.Panels](c, "lomi_panel_list", workbench.PanelListRequest{Scoped: c.scoped()})
	if err != nil {
		return agent.Result{}, err
	}
	live := map[string]workbench.PanelEntry{}
	for _, p := range panels.Items {
		live[p.ID] = p
	}
	var lines []string
	for _, name := range append([]string(nil), c.session.terminals.order...) {
		t := c.session.terminals.items[name]
		if _, ok := live[t.session.PanelID]; !ok {
			c.session.terminals.drop(name)
			lines = append(lines, name+": closed")
			continue
		}
		out, err := c.peek(t, 1)
		if err != nil {
			return agent.Result{}, err
		}
		line := name + ": " + promptWord(out)
		if t.operation != "" && out.Prompt == "running" {
			line += " (" + clip(t.command, 80) + ")"
		}
		if out.Folder != "" {
			line += ", in " + clip(out.Folder, 200)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return agent.Result{Text: "You have no terminal yet. terminal_run opens one."}, nil
	}
	return agent.Result{Text: "Your terminals.\n" + c.fenced("the list of terminals", strings.Join(lines, "\n"), "")}, nil
}

type statusArguments struct {
	Receipt string `json:"receipt"`
}

func (a *statusArguments) check() string {
	if !control.ValidID(a.Receipt) {
		return "receipt: must be the id from an earlier result."
	}
	return ""
}

func (c *sessionCall) operationStatus(a statusArguments) (agent.Result, error) {
	op, err := c.poll(operation{Operation: control.Operation{OperationID: a.Receipt}}, pollWait)
	if err != nil {
		return agent.Result{}, err
	}
	text := fmt.Sprintf("%s is %s; its effect is %s.", op.Tool, op.State, op.EffectState) + told(op.Message)
	if len(op.Result) > 0 {
		text += "\n" + c.fenced("the receipt", string(op.Result), "")
	}
	return agent.Result{Text: text}, nil
}
