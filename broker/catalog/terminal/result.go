package terminal

// Target names one shell in a result.
type Target struct {
	WorkspaceID       string `json:"workspaceId"`
	PanelID           string `json:"panelId"`
	TerminalSessionID string `json:"terminalSessionId"`
}

// Created is the data kind "terminal".
type Created struct {
	Kind string `json:"kind" enum:"terminal"`
	Target
	LeaseID string `json:"leaseId,omitempty"`
	Ready   bool   `json:"ready"`
}

// Command is the data kind "terminal_command". Background is what the command
// left running, as it stood at its end.
type Command struct {
	Kind string `json:"kind" enum:"terminal_command"`
	Target
	Observation Observation         `json:"observation"`
	Background  []BackgroundProcess `json:"background,omitempty"`
}

// BackgroundProcess is a process in a terminal that its shell does not wait
// for.
type BackgroundProcess struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
}

// Observation is what was seen of one command. Source is "shell_integration"
// when marks of this terminal's shell delimit it, else "unknown".
type Observation struct {
	OperationID     string `json:"operationId"`
	StartedObserved bool   `json:"startedObserved"`
	Completed       bool   `json:"completed"`
	ExitCode        *int   `json:"exitCode,omitempty"`
	Source          string `json:"source" enum:"shell_integration,unknown"`
	StartCursor     string `json:"startCursor"`
	EndCursor       string `json:"endCursor,omitempty"`
}

// InputAck is the data kind "terminal_input_ack".
type InputAck struct {
	Kind string `json:"kind" enum:"terminal_input_ack"`
	Target
	InputSequence string `json:"inputSequence"`
	Dispatch      string `json:"dispatch" enum:"pending,dispatched,outcome_unknown"`
}

// Interrupted is the data kind "terminal_interrupt".
type Interrupted struct {
	Kind string `json:"kind" enum:"terminal_interrupt"`
	Target
	TargetOperationID string `json:"targetOperationId"`
	Dispatched        bool   `json:"dispatched"`
}

// Output is the data kind "terminal_output", the answer of the modes output
// and command. Command is set in mode command. WaitingForInput says that the
// running program reads from the terminal, and Foreground names it. Background
// is set in mode output: what runs besides a shell that waits at its prompt.
type Output struct {
	Kind              string       `json:"kind" enum:"terminal_output"`
	Mode              string       `json:"mode" enum:"output,command"`
	Text              string       `json:"text"`
	NextCursor        string       `json:"nextCursor"`
	AvailableFrom     string       `json:"availableFrom"`
	Gap               bool         `json:"gap"`
	Prompt            string       `json:"prompt" enum:"unknown,ready,editing,running"`
	LeaseID           string       `json:"leaseId,omitempty"`
	Command           *Observation `json:"command,omitempty"`
	Exited            bool         `json:"exited"`
	ShellExitCode     *int         `json:"shellExitCode,omitempty"`
	NextInputSequence string       `json:"nextInputSequence"`
	StreamSequence    string       `json:"streamSequence"`
	ParsedSequence    string       `json:"parsedSequence"`
	WaitingForInput   bool         `json:"waitingForInput,omitempty"`
	Foreground        string       `json:"foreground,omitempty"`
	Folder            string       `json:"folder,omitempty"`

	Background []BackgroundProcess `json:"background,omitempty"`
}

// Raw is the data kind "terminal_raw".
type Raw struct {
	Kind           string `json:"kind" enum:"terminal_raw"`
	Base64         string `json:"base64"`
	NextCursor     string `json:"nextCursor"`
	AvailableFrom  string `json:"availableFrom"`
	Gap            bool   `json:"gap"`
	StreamSequence string `json:"streamSequence"`
}

// Screen is the data kind "terminal_screen".
type Screen struct {
	Kind           string `json:"kind" enum:"terminal_screen"`
	Columns        int    `json:"columns"`
	Rows           int    `json:"rows"`
	CursorColumn   int    `json:"cursorColumn"`
	CursorRow      int    `json:"cursorRow"`
	CursorVisible  bool   `json:"cursorVisible"`
	ViewportOffset int    `json:"viewportOffset"`
	Buffer         string `json:"buffer" enum:"normal,alternate"`
	Text           string `json:"text"`
	Truncated      bool   `json:"truncated"`
	ParsedSequence string `json:"parsedSequence"`
	StreamSequence string `json:"streamSequence"`
	ParserPending  bool   `json:"parserPending"`
}
