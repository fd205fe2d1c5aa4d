// Package terminal defines the tools of terminals: their requests, their
// results and the rules on both.
package terminal

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Session names one shell in one panel. It is embedded in requests beside the
// workspace.
type Session struct {
	PanelID           string `json:"panelId" is:"id"`
	TerminalSessionID string `json:"terminalSessionId" is:"id"`
}

// CreateRequest is lomi_terminal_create.
type CreateRequest struct {
	control.Mutation
	CWDRelative string `json:"cwdRelative,omitempty" is:"path" max:"4096" doc:"Folder in the project; default its root"`
	ProfileID   string `json:"profileId,omitempty" is:"id" doc:"Only the approved one"`
	Title       string `json:"title,omitempty" is:"line" min:"1" max:"256"`
}

// Validate implements control.Validator.
func (r *CreateRequest) Validate() error { return rule.Check(r) }

// RunRequest is lomi_terminal_run.
type RunRequest struct {
	control.Keyed
	Session
	LeaseID string `json:"leaseId" is:"id"`
	Command string `json:"command" is:"line" min:"1" max:"16384" doc:"One line"`
}

// Validate implements control.Validator.
func (r *RunRequest) Validate() error { return rule.Check(r) }

// InputRequest is lomi_terminal_input. It has no request key: lease and
// sequence number together are the key of its receipt.
type InputRequest struct {
	control.Scoped
	Session
	LeaseID       string `json:"leaseId" is:"id" max:"64"` // so that the key made of it is an id
	InputSequence string `json:"inputSequence" is:"decimal" doc:"From 1; nextInputSequence of lomi_terminal_read"`
	Input         Input  `json:"input"`
}

// Input is what is typed: a text, or one key.
type Input struct {
	Type string `json:"type" oneof:"text,key"`
	Text string `json:"text,omitempty" in:"text" is:"text" max:"49152"`
	Key  string `json:"key,omitempty" in:"key" doc:"enter, tab, escape, backspace, delete, insert, up, down, left, right, home, end, page_up, page_down, f1 to f12, ctrl_a to ctrl_z"`
}

// Validate implements control.Validator.
func (r *InputRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if r.InputSequence == "0" {
		return rule.Bad("inputSequence", "starts at 1")
	}
	if r.Input.Type == "key" && !ValidKey(r.Input.Key) {
		return rule.Bad("input.key", "is none of the keys")
	}
	return nil
}

// Retry implements control.Retryable. The empty epoch stands for the session's
// own: a lease belongs to one session and so to one epoch.
func (r InputRequest) Retry() (epoch, key, revision string) {
	return "", "input:" + r.LeaseID + ":" + r.InputSequence, ""
}

// ValidKey reports whether lomi_terminal_input knows a key.
func ValidKey(key string) bool {
	switch key {
	case "enter", "tab", "escape", "backspace", "delete", "insert", "up", "down", "left", "right",
		"home", "end", "page_up", "page_down",
		"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12":
		return true
	}
	const ctrl = "ctrl_"
	return len(key) == len(ctrl)+1 && key[:len(ctrl)] == ctrl && key[len(ctrl)] >= 'a' && key[len(ctrl)] <= 'z'
}

// InterruptRequest is lomi_terminal_interrupt.
type InterruptRequest struct {
	control.Keyed
	Session
	LeaseID     string `json:"leaseId" is:"id"`
	OperationID string `json:"operationId" is:"id" doc:"The running lomi_terminal_run"`
}

// Validate implements control.Validator.
func (r *InterruptRequest) Validate() error { return rule.Check(r) }

// ReadRequest is lomi_terminal_read.
type ReadRequest struct {
	control.Scoped
	Session
	Mode                  string `json:"mode,omitempty" default:"output" enum:"output,command,screen,raw"`
	Cursor                string `json:"cursor,omitempty" is:"decimal"`
	MaxBytes              int    `json:"maxBytes,omitempty" default:"16384" min:"1" max:"65536"`
	OperationID           string `json:"operationId,omitempty" is:"id" doc:"For command"`
	MinimumParsedSequence string `json:"minimumParsedSequence,omitempty" is:"decimal" doc:"For screen"`
}

// Validate implements control.Validator.
func (r *ReadRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	switch {
	case r.Mode == "command" && r.OperationID == "":
		return rule.Bad("operationId", "is required for mode command")
	case r.Mode != "screen" && r.MinimumParsedSequence != "":
		return rule.Bad("minimumParsedSequence", "goes with mode screen only")
	}
	return nil
}
