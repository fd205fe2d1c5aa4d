// Package editor defines the tools of open documents: their live text, which
// may be ahead of the disk.
package editor

import (
	"strconv"

	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// maxEditBytes bounds the inserted text of one request: text and edits fit
// into the arguments of a call beside everything else.
const maxEditBytes = 48 << 10

// OpenRequest is lomi_editor_open.
type OpenRequest struct {
	control.Mutation
	RelativePath string `json:"relativePath" is:"path" min:"1" max:"4096"`
	Presentation string `json:"presentation,omitempty" default:"editor" enum:"editor,preview,split"`
}

// Validate implements control.Validator.
func (r *OpenRequest) Validate() error { return rule.Check(r) }

// ReadRequest is lomi_editor_read.
type ReadRequest struct {
	control.Scoped
	PanelID                string `json:"panelId" is:"id"`
	RelativePath           string `json:"relativePath" is:"path" min:"1" max:"4096"`
	DocumentID             string `json:"documentId,omitempty" is:"id" doc:"This and the revision are required when startUtf16 > 0"`
	ExpectedBufferRevision string `json:"expectedBufferRevision,omitempty" is:"id"`
	StartUTF16             int    `json:"startUtf16,omitempty" min:"0" max:"16777216"`
	MaxChars               int    `json:"maxChars,omitempty" default:"4096" min:"2" max:"8192"`
}

// Validate implements control.Validator.
func (r *ReadRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	switch {
	case r.StartUTF16 > 0 && r.DocumentID == "":
		return rule.Bad("documentId", "is required when startUtf16 is more than 0")
	case r.StartUTF16 > 0 && r.ExpectedBufferRevision == "":
		return rule.Bad("expectedBufferRevision", "is required when startUtf16 is more than 0")
	}
	return nil
}

// Document names one state of one open document. It is embedded in requests
// that change it.
type Document struct {
	PanelID                string `json:"panelId" is:"id"`
	RelativePath           string `json:"relativePath" is:"path" min:"1" max:"4096"`
	DocumentID             string `json:"documentId" is:"id"`
	ExpectedBufferRevision string `json:"expectedBufferRevision" is:"id"`
	ExpectedDiskRevision   string `json:"expectedDiskRevision" is:"id"`
}

// ApplyEditsRequest is lomi_editor_apply_edits.
type ApplyEditsRequest struct {
	control.Mutation
	Document
	Edits []Edit `json:"edits" min:"1" max:"64" doc:"In order, not overlapping"`
}

// Edit replaces a range of the buffer as it was before the request.
type Edit struct {
	FromUTF16 int    `json:"fromUtf16" min:"0" max:"16777216"`
	ToUTF16   int    `json:"toUtf16" min:"0" max:"16777216"`
	Insert    string `json:"insert" is:"lf" doc:"No CR"`
}

// Validate implements control.Validator.
func (r *ApplyEditsRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	end, total := 0, 0
	for i, e := range r.Edits {
		path := "edits[" + strconv.Itoa(i) + "]"
		total += len(e.Insert)
		switch {
		case e.FromUTF16 < end:
			return rule.Bad(path+".fromUtf16", "must not be before the end of the edit before")
		case e.ToUTF16 < e.FromUTF16:
			return rule.Bad(path+".toUtf16", "must not be before fromUtf16")
		case total > maxEditBytes:
			return rule.Bad("edits", "must insert at most 49152 bytes together")
		}
		end = e.ToUTF16
	}
	return nil
}

// SaveRequest is lomi_editor_save.
type SaveRequest struct {
	control.Mutation
	Document
}

// Validate implements control.Validator.
func (r *SaveRequest) Validate() error { return rule.Check(r) }

// Opened is the data kind "editor_opened".
type Opened struct {
	Kind           string `json:"kind" enum:"editor_opened"`
	WorkspaceID    string `json:"workspaceId"`
	PanelID        string `json:"panelId"`
	RelativePath   string `json:"relativePath"`
	DocumentID     string `json:"documentId"`
	BufferRevision string `json:"bufferRevision"`
	DiskRevision   string `json:"diskRevision"`
	Dirty          bool   `json:"dirty"`
	Presentation   string `json:"presentation" enum:"editor,preview,split"`
}

// Previewed is the data kind "editor_previewed": a picture, shown reduced.
type Previewed struct {
	Kind           string `json:"kind" enum:"editor_previewed"`
	WorkspaceID    string `json:"workspaceId"`
	PanelID        string `json:"panelId"`
	RelativePath   string `json:"relativePath"`
	DiskRevision   string `json:"diskRevision"`
	Width          int    `json:"width"`
	Height         int    `json:"height"`
	OriginalWidth  int    `json:"originalWidth"`
	OriginalHeight int    `json:"originalHeight"`
}

// Text is the data kind "editor_text". Content has LF line ends, whatever the
// file has.
type Text struct {
	Kind           string `json:"kind" enum:"editor_text"`
	WorkspaceID    string `json:"workspaceId"`
	PanelID        string `json:"panelId"`
	RelativePath   string `json:"relativePath"`
	DocumentID     string `json:"documentId"`
	BufferRevision string `json:"bufferRevision"`
	DiskRevision   string `json:"diskRevision"`
	Source         string `json:"source" enum:"buffer"`
	Dirty          bool   `json:"dirty"`
	Conflict       bool   `json:"conflict"`
	Encoding       string `json:"encoding"`
	LineEndings    string `json:"lineEndings"`
	Content        string `json:"content"`
	StartUTF16     int    `json:"startUtf16"`
	TotalUTF16     int    `json:"totalUtf16"`
	NextUTF16      *int   `json:"nextUtf16,omitempty"`
	Truncated      bool   `json:"truncated"`
}

// Edited is the data kind "editor_edited".
type Edited struct {
	Kind                   string `json:"kind" enum:"editor_edited"`
	WorkspaceID            string `json:"workspaceId"`
	PanelID                string `json:"panelId"`
	RelativePath           string `json:"relativePath"`
	DocumentID             string `json:"documentId"`
	PreviousBufferRevision string `json:"previousBufferRevision"`
	BufferRevision         string `json:"bufferRevision"`
	DiskRevision           string `json:"diskRevision"`
	Dirty                  bool   `json:"dirty"`
	EditCount              int    `json:"editCount"`
}

// Saved is the data kind "editor_saved".
type Saved struct {
	Kind                 string `json:"kind" enum:"editor_saved"`
	WorkspaceID          string `json:"workspaceId"`
	PanelID              string `json:"panelId"`
	RelativePath         string `json:"relativePath"`
	DocumentID           string `json:"documentId"`
	SavedBufferRevision  string `json:"savedBufferRevision"`
	PreviousDiskRevision string `json:"previousDiskRevision"`
	DiskRevision         string `json:"diskRevision"`
	ByteLength           int64  `json:"byteLength"`
}

// Tools returns the four tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "editor"
		return rule.Define(tool, results...)
	}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_editor_open", Title: "Open a file",
			Description: "Open a project file in an editor panel; a picture opens reduced. Answers with an operation receipt.",
			Operation:   true,
			Scopes: []control.Scope{control.FilesRead, control.EditorRead, control.PanelCreate,
				control.PanelFocus},
			NewRequest: rule.Request[OpenRequest](),
		}, Opened{}, Previewed{}),
		define(control.Tool{
			Name: "lomi_editor_read", Title: "Read an open file",
			Description: "Read a slice of the live text of an open file, with what is not saved yet.",
			ReadOnly:    true,
			Scopes:      []control.Scope{control.FilesRead, control.EditorRead},
			NewRequest:  rule.Request[ReadRequest](),
		}, Text{}),
		define(control.Tool{
			Name: "lomi_editor_apply_edits", Title: "Edit an open file",
			Description: "Edit the live text of an open file, as one undo step; does not save. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true,
			Scopes:     []control.Scope{control.FilesRead, control.EditorRead, control.EditorWrite},
			NewRequest: rule.Request[ApplyEditsRequest](),
		}, Edited{}),
		define(control.Tool{
			Name: "lomi_editor_save", Title: "Save an open file",
			Description: "Save an open file to disk. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true,
			Scopes: []control.Scope{control.FilesRead, control.FilesMutate, control.EditorRead,
				control.EditorWrite},
			NewRequest: rule.Request[SaveRequest](),
		}, Saved{}),
	}
}
