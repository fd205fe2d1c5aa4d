package terminal

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Tools returns the five tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "terminal"
		return rule.Define(tool, results...)
	}
	// What runs in a shell is anything, so each of these marks itself
	// destructive and open to the world.
	execute := []control.Scope{control.TerminalExecute}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_terminal_create", Title: "Open a terminal",
			Description: "Open a terminal panel with a shell in the project. Answers with an operation receipt whose result holds the first leaseId.",
			Destructive: true, OpenWorld: true, Operation: true,
			Scopes:     []control.Scope{control.PanelCreate, control.TerminalExecute},
			NewRequest: rule.Request[CreateRequest](),
		}, Created{}),
		define(control.Tool{
			Name: "lomi_terminal_run", Title: "Run a command",
			Description: "Run one command line in an idle shell and observe it to its end. Answers with an operation receipt; read the output with lomi_terminal_read.",
			Destructive: true, OpenWorld: true, Operation: true, Lease: true,
			Scopes:     execute,
			NewRequest: rule.Request[RunRequest](),
		}, Command{}),
		define(control.Tool{
			Name: "lomi_terminal_input", Title: "Type into a program",
			Description: "Type text or press one key in the program that is running. Repeating an inputSequence repeats nothing.",
			Destructive: true, OpenWorld: true, Lease: true,
			Scopes:     execute,
			NewRequest: rule.Request[InputRequest](),
		}, InputAck{}),
		define(control.Tool{
			Name: "lomi_terminal_interrupt", Title: "Press Ctrl+C",
			Description: "Press Ctrl+C once, for one running lomi_terminal_run. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true, Lease: true,
			Scopes:     execute,
			NewRequest: rule.Request[InterruptRequest](),
		}, Interrupted{}),
		define(control.Tool{
			Name: "lomi_terminal_read", Title: "Read a terminal",
			Description: "Read a terminal: output from a cursor, the state of one command, the screen of a full-screen program, or raw bytes. Needs no lease.",
			ReadOnly:    true,
			Scopes:      []control.Scope{control.TerminalRead},
			NewRequest:  rule.Request[ReadRequest](),
		}, Output{}, Screen{}, Raw{}),
	}
}
