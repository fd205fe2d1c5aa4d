package browser

import (
	"lomi/broker/catalog/artifact"
	"lomi/broker/control"
)

// Target names one run of one browser panel in a result.
type Target struct {
	WorkspaceID       string `json:"workspaceId"`
	PanelID           string `json:"panelId"`
	BrowserGeneration string `json:"browserGeneration"`
}

// Opened is the data kind "browser".
type Opened struct {
	Kind string `json:"kind" enum:"browser"`
	Target
	ProfileID        string `json:"profileId"`
	NavigationID     string `json:"navigationId"`
	LeaseID          string `json:"leaseId,omitempty"`
	Ready            bool   `json:"ready"`
	Engine           string `json:"engine"`           // "Chromium"
	NetworkIsolation string `json:"networkIsolation"` // "none"
	URL              string `json:"url,omitempty"`
	Title            string `json:"title,omitempty"`
	// Notes tell what the page did by itself since the last result: dialogs
	// that were closed, navigations, windows and downloads that were refused.
	Notes []string `json:"notes,omitempty"`
}

// Navigated is the data kind "browser_navigation".
type Navigated struct {
	Kind string `json:"kind" enum:"browser_navigation"`
	Target
	NavigationID string   `json:"navigationId"`
	URL          string   `json:"url"`
	Title        string   `json:"title,omitempty"`
	Committed    bool     `json:"committed"`
	Loaded       bool     `json:"loaded"`
	Notes        []string `json:"notes,omitempty"`
}

// Snapshot is the data kind "browser_snapshot". SnapshotKind is "dom" and
// FrameID "main".
type Snapshot struct {
	Kind string `json:"kind" enum:"browser_snapshot"`
	Target
	NavigationID  string               `json:"navigationId"`
	SnapshotID    string               `json:"snapshotId"`
	SnapshotKind  string               `json:"snapshotKind"`
	FrameID       string               `json:"frameId"`
	Origin        string               `json:"origin"`
	URL           string               `json:"url"`
	Title         string               `json:"title,omitempty"`
	CapturedAt    string               `json:"capturedAt"`
	Viewport      Viewport             `json:"viewport"`
	Frames        control.List[Frame]  `json:"frames"`
	Elements      control.List[Node]   `json:"elements"`
	Truncated     bool                 `json:"truncated"`
	NextCursor    string               `json:"nextCursor,omitempty"`
	OmittedFrames int                  `json:"omittedFrames"`
	Limitations   control.List[string] `json:"limitations"`
	Notes         []string             `json:"notes,omitempty"`
}

// Viewport is the visible part of a page or frame, in CSS pixels.
type Viewport struct {
	Width             float64 `json:"width"`
	Height            float64 `json:"height"`
	DeviceScaleFactor float64 `json:"deviceScaleFactor"`
}

// Frame is one document of a page.
type Frame struct {
	FrameID       string   `json:"frameId"`
	ParentFrameID string   `json:"parentFrameId,omitempty"`
	Origin        string   `json:"origin"`
	URL           string   `json:"url"`
	ViewportRef   string   `json:"viewportRef"`
	Viewport      Viewport `json:"viewport"`
}

// Node is one element of a snapshot, in document order. Landmarks, headings
// and plain text have no ElementRef: they only show where the others stand.
// Value is set only where it is not secret.
type Node struct {
	FrameID     string   `json:"frameId"`
	ElementRef  string   `json:"elementRef,omitempty"`
	Role        string   `json:"role"`
	Name        string   `json:"name"`
	Level       int      `json:"level,omitempty"` // of a heading, 1 to 6
	Enabled     bool     `json:"enabled"`
	Editable    bool     `json:"editable"`
	Checked     *bool    `json:"checked,omitempty"`
	Expanded    *bool    `json:"expanded,omitempty"`
	ValueLength *int     `json:"valueLength,omitempty"`
	Value       *string  `json:"value,omitempty"`
	Options     []Option `json:"options,omitempty"`
}

// Option is one choice of a drop-down list.
type Option struct {
	Label    string `json:"label"`
	Selected bool   `json:"selected,omitempty"`
}

// Waited is the data kind "browser_wait".
type Waited struct {
	Kind      string   `json:"kind" enum:"browser_wait"`
	Matched   bool     `json:"matched"`
	ElapsedMS int      `json:"elapsedMs"`
	Snapshot  Snapshot `json:"snapshot"`
}

// Interaction is the data kind "browser_interaction". InputMode is "trusted":
// events come from the browser itself, as from a person's mouse and keys.
type Interaction struct {
	Kind string `json:"kind" enum:"browser_interaction"`
	Target
	NavigationID   string          `json:"navigationId"`
	SnapshotID     string          `json:"snapshotId"`
	ElementRef     string          `json:"elementRef,omitempty"`
	Dispatched     bool            `json:"dispatched"`
	InputMode      string          `json:"inputMode"`
	DefaultAction  string          `json:"defaultAction,omitempty"`
	ScrollPosition *ScrollPosition `json:"scrollPosition,omitempty"`
	ValueLength    *int            `json:"valueLength,omitempty"`
	Notes          []string        `json:"notes,omitempty"`
}

// ScrollPosition is where a viewport stands, in CSS pixels.
type ScrollPosition struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// Logs is the data kind "browser_logs".
type Logs struct {
	Kind string `json:"kind" enum:"browser_logs"`
	Target
	NavigationID           string                 `json:"navigationId"`
	FrameID                string                 `json:"frameId"`
	LogKind                string                 `json:"logKind"`
	Origin                 string                 `json:"origin"`
	CaptureStartedAtMillis int64                  `json:"captureStartedAtMillis"`
	Coverage               control.List[string]   `json:"coverage"`
	Entries                control.List[LogEntry] `json:"entries"`
	NextCursor             string                 `json:"nextCursor"`
	Dropped                int                    `json:"dropped"`
	HasMore                bool                   `json:"hasMore"`
}

// LogEntry is one line of a page's log.
type LogEntry struct {
	Sequence         string `json:"sequence"`
	CapturedAtMillis int64  `json:"capturedAtMillis"`
	Kind             string `json:"kind"`
	Message          string `json:"message"`
	Level            string `json:"level,omitempty"`
	EventTrusted     *bool  `json:"eventTrusted,omitempty"`
}

// Uploaded is the data kind "browser_uploaded".
type Uploaded struct {
	Kind string `json:"kind" enum:"browser_uploaded"`
	Target
	Field      UploadField       `json:"target"`
	FileName   string            `json:"fileName"`
	Artifact   artifact.Artifact `json:"artifact"`
	InputMode  string            `json:"inputMode"`
	Dispatched bool              `json:"dispatched"`
}

// UploadField is the file input that took the file.
type UploadField struct {
	FrameID     string `json:"frameId"`
	Origin      string `json:"origin"`
	DocumentURL string `json:"documentUrl"`
	Label       string `json:"label"`
}

// Downloaded is the data kind "browser_downloaded".
type Downloaded struct {
	Kind     string            `json:"kind" enum:"browser_downloaded"`
	Artifact artifact.Artifact `json:"artifact"`
}
