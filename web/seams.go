package web

import (
	"context"
	"iter"

	"lomi/broker/control"
)

// Terminals is what the page needs of the terminals. The person at the page
// owns every terminal: typing takes it over from an agent.
type Terminals interface {
	// Attach yields what the terminal printed so far, as far as it is kept, and
	// then its output as it comes. A reader that falls behind gets the kept
	// output again, after the bytes that reset its screen. It ends when the
	// shell does.
	Attach(ctx context.Context, panelID string) iter.Seq2[[]byte, error]
	Type(ctx context.Context, panelID string, data []byte) error
	Resize(panelID string, columns, rows int) error
}

// Screens is what the page needs of the browser panels.
type Screens interface {
	// Watch yields pictures of the page as they change, JPEG, only the newest
	// for a slow reader. It ends when the page closes.
	Watch(ctx context.Context, panelID string, width, height int) iter.Seq2[Frame, error]
	Act(ctx context.Context, panelID string, input ScreenInput) error
}

// Frame is one picture of a browser panel, in CSS pixels of the page.
type Frame struct {
	JPEG          []byte
	URL, Title    string
	Width, Height int
}

// ScreenInput is one thing that a person does in a browser panel. Type is
// "mouse", "wheel", "key", "text", "navigate" (URL) or "history" (Key: back,
// forward, reload). Its fields are those of the adapter's own input, so that
// one converts to the other.
type ScreenInput struct {
	Type string `json:"type"`
	// Action of a mouse (move, down, up) or a key (down, up).
	Action    string  `json:"action,omitempty"`
	X         float64 `json:"x,omitempty"` // CSS pixels of the page
	Y         float64 `json:"y,omitempty"`
	Button    string  `json:"button,omitempty"` // left, middle, right
	Buttons   int64   `json:"buttons,omitempty"`
	Clicks    int64   `json:"clicks,omitempty"`
	DeltaX    float64 `json:"deltaX,omitempty"`
	DeltaY    float64 `json:"deltaY,omitempty"`
	Key       string  `json:"key,omitempty"`  // KeyboardEvent.key
	Code      string  `json:"code,omitempty"` // KeyboardEvent.code
	KeyCode   int64   `json:"keyCode,omitempty"`
	Text      string  `json:"text,omitempty"`
	Modifiers int64   `json:"modifiers,omitempty"` // 1 alt, 2 control, 4 meta, 8 shift
	URL       string  `json:"url,omitempty"`
}

// Desk is what the page needs of the workbench.
type Desk interface {
	Workspaces() []control.Workspace
	Panels(workspaceID string) []control.Panel
	// OpenProject opens a folder, or gives back the workspace of one that is
	// open.
	OpenProject(ctx context.Context, path, name string) (control.Workspace, error)
}

// Panels makes and closes what a person asks for, and reads what was stored.
type Panels interface {
	NewTerminal(ctx context.Context, w control.Workspace, title string) (control.Panel, error)
	Close(ctx context.Context, p control.Panel) error
	Artifact(ctx context.Context, id string) (control.Image, error)
}
