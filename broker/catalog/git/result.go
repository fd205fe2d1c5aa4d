package git

import "lomi/broker/control"

// Status is the data kind "git_status".
type Status struct {
	Kind                string               `json:"kind" enum:"git_status"`
	WorkspaceID         string               `json:"workspaceId"`
	RepositoryRelative  string               `json:"repositoryRelative"`
	Source              string               `json:"source"`      // "git"
	Consistency         string               `json:"consistency"` // "per_command_snapshot"
	GitVersion          string               `json:"gitVersion"`
	ObservationRevision string               `json:"observationRevision"`
	Changes             control.List[Change] `json:"changes"`
	OmittedEntries      int                  `json:"omittedEntries"`
	NextCursor          string               `json:"nextCursor,omitempty"`
}

// Change is one changed path. Index and Worktree are git's letters.
type Change struct {
	RelativePath string `json:"relativePath"`
	OriginalPath string `json:"originalPath,omitempty"`
	Index        string `json:"index"`
	Worktree     string `json:"worktree"`
	Directory    bool   `json:"directory"`
}

// Diff is the data kind "git_diff".
type Diff struct {
	Kind                string `json:"kind" enum:"git_diff"`
	WorkspaceID         string `json:"workspaceId"`
	RepositoryRelative  string `json:"repositoryRelative"`
	RelativePath        string `json:"relativePath"`
	Comparison          string `json:"comparison" enum:"worktree,staged,commit"`
	Commit              string `json:"commit,omitempty"`
	ObservationRevision string `json:"observationRevision"`
	Patch               string `json:"patch"`
	StartUTF16          int    `json:"startUtf16"`
	TotalUTF16          int    `json:"totalUtf16"`
	NextUTF16           *int   `json:"nextUtf16,omitempty"`
	Notice              string `json:"notice,omitempty"` // binary or untracked
}

// History is the data kind "git_history".
type History struct {
	Kind               string                `json:"kind" enum:"git_history"`
	WorkspaceID        string                `json:"workspaceId"`
	RepositoryRelative string                `json:"repositoryRelative"`
	StartCommit        string                `json:"startCommit"`
	Commits            control.List[Summary] `json:"commits"`
	Skip               int                   `json:"skip"`
	NextSkip           *int                  `json:"nextSkip,omitempty"`
}

// Summary is one commit of a history.
type Summary struct {
	Commit     string               `json:"commit"`
	Parents    control.List[string] `json:"parents"`
	Author     string               `json:"author"`
	AuthoredAt string               `json:"authoredAt"`
	Subject    string               `json:"subject"`
}

// Commit is the data kind "git_commit".
type Commit struct {
	Kind               string                   `json:"kind" enum:"git_commit"`
	WorkspaceID        string                   `json:"workspaceId"`
	RepositoryRelative string                   `json:"repositoryRelative"`
	Commit             string                   `json:"commit"`
	Parents            control.List[string]     `json:"parents"`
	Author             string                   `json:"author"`
	AuthorEmail        string                   `json:"authorEmail"`
	AuthoredAt         string                   `json:"authoredAt"`
	Committer          string                   `json:"committer"`
	CommitterEmail     string                   `json:"committerEmail"`
	CommittedAt        string                   `json:"committedAt"`
	Message            string                   `json:"message"`
	Files              control.List[CommitFile] `json:"files"`
	FilesSkip          int                      `json:"filesSkip"`
	NextFilesSkip      *int                     `json:"nextFilesSkip,omitempty"`
	OmittedEntries     int                      `json:"omittedEntries"`
}

// CommitFile is one file of a commit.
type CommitFile struct {
	RelativePath string `json:"relativePath"`
	Status       string `json:"status"`
	OldMode      string `json:"oldMode"`
	NewMode      string `json:"newMode"`
}

// Remotes is the data kind "git_remotes".
type Remotes struct {
	Kind               string               `json:"kind" enum:"git_remotes"`
	WorkspaceID        string               `json:"workspaceId"`
	RepositoryRelative string               `json:"repositoryRelative"`
	Remotes            control.List[Remote] `json:"remotes"`
}

// Remote is one remote without its credentials.
type Remote struct {
	Name             string `json:"name"`
	Role             string `json:"role" enum:"fetch,push"`
	Transport        string `json:"transport"`
	Host             string `json:"host,omitempty"`
	Port             int    `json:"port,omitempty"`
	LocationRedacted bool   `json:"locationRedacted"`
}

// Opened is the data kind "git_opened". View is the one of the request.
type Opened struct {
	Kind                string `json:"kind" enum:"git_opened"`
	WorkspaceID         string `json:"workspaceId"`
	PanelID             string `json:"panelId"`
	RepositoryRelative  string `json:"repositoryRelative"`
	View                View   `json:"view"`
	ObservationRevision string `json:"observationRevision"`
}

// Mutated is the data kind "git_mutated". PlanHash is of the plan that the
// person saw.
type Mutated struct {
	Kind                 string                    `json:"kind" enum:"git_mutated"`
	WorkspaceID          string                    `json:"workspaceId"`
	RepositoryRelative   string                    `json:"repositoryRelative"`
	Operation            string                    `json:"operation"`
	PlanHash             string                    `json:"planHash"`
	BeforeRevision       string                    `json:"beforeRevision"`
	AfterRevision        string                    `json:"afterRevision"`
	Head                 string                    `json:"head,omitempty"`
	IndexRevision        string                    `json:"indexRevision"`
	Files                control.List[MutatedFile] `json:"files"`
	SelectedFilesChanged bool                      `json:"selectedFilesChanged"`
	Commit               *MadeCommit               `json:"commit,omitempty"`
	Fetch                *Fetched                  `json:"fetch,omitempty"`
	Push                 *Pushed                   `json:"push,omitempty"`
	Pull                 *Pulled                   `json:"pull,omitempty"`
}

// MutatedFile is one file of the plan as it is afterwards.
type MutatedFile struct {
	RelativePath string `json:"relativePath"`
	SHA256       string `json:"sha256,omitempty"`
	ByteLength   int64  `json:"byteLength"`
}

// MadeCommit is the commit that was made.
type MadeCommit struct {
	MessageSHA256 string `json:"messageSha256"`
	Author        string `json:"author"`
	Committer     string `json:"committer"`
}

// Fetched says what a fetch brought.
type Fetched struct {
	Remote      string `json:"remote"`
	Reference   string `json:"reference"`
	Destination string `json:"destination"`
	Commit      string `json:"commit"`
}

// Pushed says what a push did.
type Pushed struct {
	Target       string `json:"target"`
	Changed      bool   `json:"changed"`
	Verification string `json:"verification"` // "server_acknowledgement"
}

// Pulled says what a pull did.
type Pulled struct {
	Target        string `json:"target"`
	FetchedCommit string `json:"fetchedCommit"`
	Outcome       string `json:"outcome" enum:"applied,remote_changed,conflicted"`
}
