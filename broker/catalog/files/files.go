// Package files defines the tools of the project's files on disk.
package files

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// ListRequest is lomi_files_list.
type ListRequest struct {
	control.Scoped
	RelativeDirectory string `json:"relativeDirectory,omitempty" is:"path" max:"4096" doc:"Default the project root"`
	Limit             int    `json:"limit,omitempty" default:"100" min:"1" max:"200"`
	Cursor            string `json:"cursor,omitempty" is:"id" max:"96"`
}

// Validate implements control.Validator.
func (r *ListRequest) Validate() error { return rule.Check(r) }

// ReadRequest is lomi_files_read.
type ReadRequest struct {
	control.Scoped
	RelativePath         string `json:"relativePath" is:"path" min:"1" max:"4096"`
	StartUTF16           int    `json:"startUtf16,omitempty" min:"0" max:"4194304"`
	MaxChars             int    `json:"maxChars,omitempty" default:"4096" min:"2" max:"8192"`
	ExpectedDiskRevision string `json:"expectedDiskRevision,omitempty" is:"id" doc:"Required when startUtf16 > 0"`
}

// Validate implements control.Validator.
func (r *ReadRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if r.StartUTF16 > 0 && r.ExpectedDiskRevision == "" {
		return rule.Bad("expectedDiskRevision", "is required when startUtf16 is more than 0")
	}
	return nil
}

// SearchRequest is lomi_files_search.
type SearchRequest struct {
	control.Scoped
	RelativeDirectory string `json:"relativeDirectory,omitempty" is:"path" max:"4096"`
	Query             Query  `json:"query"`
	Limit             int    `json:"limit,omitempty" default:"100" min:"1" max:"200"`
	Cursor            string `json:"cursor,omitempty" is:"id" max:"80"`
}

// Query says what to look for. Include and Exclude are patterns of paths.
type Query struct {
	Text          string `json:"text" is:"line" min:"1" max:"1024" doc:"One line"`
	CaseSensitive bool   `json:"caseSensitive,omitempty"`
	WholeWord     bool   `json:"wholeWord,omitempty"`
	Regex         bool   `json:"regex,omitempty"`
	Include       string `json:"include,omitempty" is:"line" max:"4096" doc:"Glob patterns, with commas"`
	Exclude       string `json:"exclude,omitempty" is:"line" max:"4096"`
}

// Validate implements control.Validator.
func (r *SearchRequest) Validate() error { return rule.Check(r) }

// MutateRequest is lomi_files_mutate.
type MutateRequest struct {
	control.Mutation
	Operation Operation `json:"operation"`
}

// Operation is one change of the tree. Each names the revisions that it saw,
// so that nothing is changed that the caller has not seen.
type Operation struct {
	Type                      string `json:"type" oneof:"create,rename,move,rename_directory,move_directory,trash"`
	RelativePath              string `json:"relativePath" is:"path" min:"1" max:"4096"`
	Kind                      string `json:"kind,omitempty" in:"create,trash" enum:"file,directory"`
	NewName                   string `json:"newName,omitempty" in:"rename,rename_directory" is:"path" min:"1" max:"255"`
	TargetRelativePath        string `json:"targetRelativePath,omitempty" in:"move,move_directory" is:"path" min:"1" max:"4096"`
	ExpectedDiskRevision      string `json:"expectedDiskRevision,omitempty" in:"rename,move" is:"id"`
	ExpectedDirectoryRevision string `json:"expectedDirectoryRevision,omitempty" in:"rename_directory,move_directory" is:"id"`
	ExpectedEntryRevision     string `json:"expectedEntryRevision,omitempty" in:"trash" is:"id"`
	ExpectedParentRevision    string `json:"expectedParentRevision" is:"id"`
}

// Validate implements control.Validator.
func (r *MutateRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	for i := range len(r.Operation.NewName) {
		if r.Operation.NewName[i] == '/' {
			return rule.Bad("operation.newName", "must be a base name")
		}
	}
	return nil
}

// NeedsScopes implements control.Scoper.
func (r *MutateRequest) NeedsScopes() []control.Scope {
	switch r.Operation.Type {
	case "create":
		return []control.Scope{control.FilesCreate}
	case "trash":
		return []control.Scope{control.FilesTrash}
	}
	return []control.Scope{control.FilesRename}
}

// Listing is the data kind "files_list".
type Listing struct {
	Kind              string              `json:"kind" enum:"files_list"`
	WorkspaceID       string              `json:"workspaceId"`
	RelativeDirectory string              `json:"relativeDirectory"`
	DirectoryRevision string              `json:"directoryRevision"`
	Entries           control.List[Entry] `json:"entries"`
	NextCursor        string              `json:"nextCursor,omitempty"`
	Filtered          bool                `json:"filtered"`
}

// Entry is one file or directory. ByteLength is a decimal text.
type Entry struct {
	Name         string `json:"name"`
	RelativePath string `json:"relativePath"`
	Kind         string `json:"kind" enum:"directory,file"`
	ByteLength   string `json:"byteLength,omitempty"`
}

// Text is the data kind "file_text".
type Text struct {
	Kind         string `json:"kind" enum:"file_text"`
	WorkspaceID  string `json:"workspaceId"`
	RelativePath string `json:"relativePath"`
	Source       string `json:"source" enum:"disk"`
	DiskRevision string `json:"diskRevision"`
	Encoding     string `json:"encoding" enum:"utf8,utf8-bom,utf16-le,utf16-be"`
	LineEndings  string `json:"lineEndings" enum:"none,lf,cr_lf,cr,mixed"`
	Content      string `json:"content"`
	StartUTF16   int    `json:"startUtf16"`
	TotalUTF16   int    `json:"totalUtf16"`
	NextUTF16    *int   `json:"nextUtf16,omitempty"`
	Truncated    bool   `json:"truncated"`
}

// Found is the data kind "files_search".
type Found struct {
	Kind         string              `json:"kind" enum:"files_search"`
	Matches      control.List[Match] `json:"matches"`
	NextCursor   string              `json:"nextCursor,omitempty"`
	Limited      bool                `json:"limited"`
	Skipped      int                 `json:"skipped"`
	FilesScanned int                 `json:"filesScanned"`
	Filtered     bool                `json:"filtered"`
	Consistency  string              `json:"consistency"`  // "per_file_snapshot"
	FilterPolicy string              `json:"filterPolicy"` // "explicit_patterns_and_secret_paths"
}

// Match is one place where the text was found.
type Match struct {
	RelativePath      string `json:"relativePath"`
	DiskRevision      string `json:"diskRevision"`
	Line              int    `json:"line"`
	Column            int    `json:"column"`
	Length            int    `json:"length"`
	Preview           string `json:"preview"`
	PreviewStartUTF16 int    `json:"previewStartUtf16"`
}

// Mutated is the data kind "files_mutated".
type Mutated struct {
	Kind        string `json:"kind" enum:"files_mutated"`
	WorkspaceID string `json:"workspaceId"`
	OldPath     string `json:"oldPath,omitempty"`
	NewPath     string `json:"newPath,omitempty"`
	EntryKind   string `json:"entryKind" enum:"file,directory"`
}

// Tools returns the four tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "files"
		return rule.Define(tool, results...)
	}
	read := []control.Scope{control.FilesRead}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_files_list", Title: "List a folder",
			Description: "List one folder of the project. Secret and internal names are left out.",
			ReadOnly:    true, Scopes: read,
			NewRequest: rule.Request[ListRequest](),
		}, Listing{}),
		define(control.Tool{
			Name: "lomi_files_read", Title: "Read a file",
			Description: "Read a slice of a text file from disk.",
			ReadOnly:    true, Scopes: read,
			NewRequest: rule.Request[ReadRequest](),
		}, Text{}),
		define(control.Tool{
			Name: "lomi_files_search", Title: "Search in files",
			Description: "Find text or a regular expression in the project's files, within bounds.",
			ReadOnly:    true, Scopes: read,
			NewRequest: rule.Request[SearchRequest](),
		}, Found{}),
		define(control.Tool{
			Name: "lomi_files_mutate", Title: "Change files",
			Description: "Create, rename, move or trash a file or folder. Revisions come from lomi_files_list and lomi_files_read. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true,
			Scopes:     []control.Scope{control.FilesRead, control.FilesMutate},
			NewRequest: rule.Request[MutateRequest](),
		}, Mutated{}),
	}
}
