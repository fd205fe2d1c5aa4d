package lomi

import (
	"testing"

	"lomi/internal/laws"
)

// architecture is the map of the rooms. An arrow that is not here needs a
// reason in its room's comment before it may be added.
var architecture = laws.Config{
	// The vocabulary, and helpers without a word of the domain.
	Everywhere: []string{"broker/control", "internal/..."},
	Rooms: []laws.Room{
		{Path: ".", Reason: "the root holds only the laws"},
		{Path: "internal/...", Reason: "internal holds helpers without a domain word: they know no room"},

		// rank 0
		{Path: "models", Reason: "the port knows no engine, or a conversation would depend on one"},
		{Path: "broker/control", Reason: "the vocabulary decides nothing and links nothing"},

		// rank 1
		{Path: "models/internal/...", Imports: []string{"models"}, Reason: "what engines share speaks the port's words"},
		{Path: "models/ollama/...", Imports: []string{"models", "models/internal/..."}, Reason: "an engine knows the port alone"},
		{Path: "models/openai", Imports: []string{"models", "models/internal/..."}, Reason: "an engine knows the port alone"},
		{Path: "models/demo", Imports: []string{"models"}, Reason: "the guide is a model like any other: it sees messages and short forms"},
		{Path: "models/connect", Imports: []string{"models"}, Reason: "engines are handed in, so that a connection does not decide what is linked"},
		{Path: "models/modelstest", Imports: []string{"models"}, Reason: "one suite serves every engine"},
		{Path: "agent", Imports: []string{"models"}, Reason: "a turn must be testable without a broker, a store or a page"},
		{Path: "broker/catalog/...", Reason: "the catalog is read by both sides of the socket: it knows only the vocabulary"},
		{Path: "broker/wire", Reason: "frames carry calls and know none"},
		{Path: "broker/identity", Reason: "who is at the other end is asked before any call is read"},
		{Path: "broker/ledger", Reason: "what happened is kept by a room that cannot make anything happen"},

		// rank 2
		{Path: "broker", Imports: []string{"broker/catalog/...", "broker/wire", "broker/identity", "broker/ledger"},
			Reason: "the engine knows the rooms of the broker and no tool: adapters are handed in"},
		{Path: "broker/client", Imports: []string{"broker/wire", "broker/identity", "broker/catalog/..."},
			Reason: "the other side of the socket must not reach the engine but through it"},
		{Path: "broker/mcpserver", Imports: []string{"broker/client", "broker/catalog/..."},
			Reason: "the MCP face is a client like any other"},

		// rank 3
		{Path: "tools/workbench", Imports: []string{"broker", "broker/catalog/workbench"}, Reason: "an adapter knows its own domain"},
		{Path: "tools/terminal", Imports: []string{"broker", "broker/catalog/terminal"}, Reason: "an adapter knows its own domain"},
		{Path: "tools/browser", Imports: []string{"broker", "broker/catalog/browser", "broker/catalog/artifact"},
			Reason: "an adapter knows its own domain; a screenshot answers with the data kind artifact"},
		{Path: "tools/artifact", Imports: []string{"broker", "broker/catalog/artifact"}, Reason: "an adapter knows its own domain"},
		{Path: "chat/store", Reason: "the log keeps events and reads none"},
		{Path: "chat", Imports: []string{"agent", "models", "broker/client", "broker/catalog/...", "chat/store"},
			Reason: "the built-in chat has no path to an effect that an external host does not have: no engine, no tools"},

		// rank 4
		{Path: "web/ui", Reason: "the built page, embedded"},
		{Path: "web", Imports: []string{"chat", "broker", "broker/identity", "models/connect", "models", "web/ui"},
			Reason: "the doors call the rooms and hold no tool: terminals and screens come in as seams"},

		// rank 5
		{Path: "cmd/...", Imports: []string{"agent", "broker/...", "chat/...", "models/...", "tools/...", "web/..."},
			Reason: "flags, one wiring table, signals"},
	},
	Links: []laws.Link{
		{Module: "modernc.org/sqlite", Rooms: []string{"internal/sqlite"}, Reason: "one room opens databases, so that every one is opened safely"},
		{Module: "lomi/internal/sqlite", Rooms: []string{"broker/ledger", "chat/store"}, Reason: "state lives in two places: the ledger and the log"},
		{Module: "github.com/chromedp", Rooms: []string{"tools/browser"}, Reason: "control of the browser is control of the user"},
		{Module: "github.com/ollama/ollama", Rooms: []string{"models/ollama/..."}, Reason: "provider libraries stay behind the port"},
		{Module: "github.com/openai/openai-go", Rooms: []string{"models/openai"}, Reason: "provider libraries stay behind the port"},
		{Module: "github.com/modelcontextprotocol/go-sdk", Rooms: []string{"broker/mcpserver"}, Reason: "the MCP SDK is one face of the broker"},
		{Module: "github.com/coder/websocket", Rooms: []string{"web", "cmd/..."}, Reason: "sockets to people are the doors' business"},
		{Module: "github.com/creack/pty", Rooms: []string{"tools/terminal"}, Reason: "only a terminal needs a tty"},
		{Module: "lomi/cmd", Rooms: []string{"cmd/..."}, Reason: "nothing imports cmd"},
	},
	Exceptions: map[string]string{},
}

func TestTheLaws(t *testing.T) {
	found, err := laws.Check(".", architecture)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range found {
		t.Error(v)
	}
}
