// Package git defines the tools of the project's git repositories.
package git

import (
	"strings"

	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Repository names one repository of the project. It is embedded in requests.
type Repository struct {
	RepositoryRelative string `json:"repositoryRelative,omitempty" is:"path" max:"4096"`
}

// StatusRequest is lomi_git_status.
type StatusRequest struct {
	control.Scoped
	Repository
	Limit  int    `json:"limit,omitempty" default:"100" min:"1" max:"200"`
	Cursor string `json:"cursor,omitempty" is:"id"`
}

// Validate implements control.Validator.
func (r *StatusRequest) Validate() error { return rule.Check(r) }

// DiffRequest is lomi_git_diff.
type DiffRequest struct {
	control.Scoped
	Repository
	RelativePath                string `json:"relativePath" is:"path" min:"1" max:"4096"`
	Comparison                  string `json:"comparison" enum:"worktree,staged,commit"`
	Commit                      string `json:"commit,omitempty" is:"commit" doc:"Full hash; with comparison commit"`
	StartUTF16                  int    `json:"startUtf16,omitempty" min:"0" max:"2097152"`
	MaxChars                    int    `json:"maxChars,omitempty" default:"4096" min:"2" max:"8192"`
	ExpectedObservationRevision string `json:"expectedObservationRevision,omitempty" is:"id" doc:"When paging"`
}

// Validate implements control.Validator.
func (r *DiffRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	switch {
	case r.Comparison == "commit" && r.Commit == "":
		return rule.Bad("commit", "is required with comparison commit")
	case r.Comparison != "commit" && r.Commit != "":
		return rule.Bad("commit", "goes with comparison commit only")
	case r.StartUTF16 > 0 && r.ExpectedObservationRevision == "":
		return rule.Bad("expectedObservationRevision", "is required when startUtf16 is more than 0")
	}
	return nil
}

// HistoryRequest is lomi_git_history.
type HistoryRequest struct {
	control.Scoped
	Repository
	Commit string `json:"commit,omitempty" is:"commit" doc:"Start; required when skip > 0"`
	Skip   int    `json:"skip,omitempty" min:"0" max:"10000"`
	Limit  int    `json:"limit,omitempty" default:"20" min:"1" max:"100"`
}

// Validate implements control.Validator.
func (r *HistoryRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	if r.Skip > 0 && r.Commit == "" {
		return rule.Bad("commit", "is required when skip is more than 0")
	}
	return nil
}

// CommitRequest is lomi_git_commit.
type CommitRequest struct {
	control.Scoped
	Repository
	Commit     string `json:"commit" is:"commit" doc:"Full hash"`
	FilesSkip  int    `json:"filesSkip,omitempty" min:"0" max:"4096"`
	FilesLimit int    `json:"filesLimit,omitempty" default:"100" min:"1" max:"200"`
}

// Validate implements control.Validator.
func (r *CommitRequest) Validate() error { return rule.Check(r) }

// RemotesRequest is lomi_git_remotes.
type RemotesRequest struct {
	control.Scoped
	Repository
}

// Validate implements control.Validator.
func (r *RemotesRequest) Validate() error { return rule.Check(r) }

// OpenRequest is lomi_git_open.
type OpenRequest struct {
	control.Mutation
	Repository
	View View `json:"view"`
}

// View is what a git panel shows.
type View struct {
	Type         string `json:"type" oneof:"diff,commit"`
	RelativePath string `json:"relativePath,omitempty" in:"diff" is:"path" min:"1" max:"4096"`
	Staged       bool   `json:"staged,omitempty" in:"diff?"`
	Commit       string `json:"commit,omitempty" in:"commit" is:"commit"`
}

// Validate implements control.Validator.
func (r *OpenRequest) Validate() error { return rule.Check(r) }

// MutateRequest is lomi_git_mutate.
type MutateRequest struct {
	control.Mutation
	Repository
	Operation            string   `json:"operation" enum:"stage,unstage,commit,fetch,push,discard,pull"`
	Paths                []string `json:"paths" each:"path" max:"64" doc:"At least one; empty for fetch, push, pull"`
	Message              string   `json:"message,omitempty" is:"text" max:"16384" doc:"For commit"`
	Remote               string   `json:"remote,omitempty" is:"line" max:"256" doc:"For fetch, push, pull"`
	Reference            string   `json:"reference,omitempty" is:"line" max:"1024" doc:"refs/heads/…"`
	SourceCommit         string   `json:"sourceCommit,omitempty" is:"commit" doc:"For push and pull: full hash"`
	ExpectedRemoteCommit string   `json:"expectedRemoteCommit,omitempty" is:"commit" doc:"Required for pull"`
	PullMode             string   `json:"pullMode,omitempty" enum:"ff_only,rebase" doc:"Required for pull"`
}

// Validate implements control.Validator. What each operation takes and needs
// is one row of a table.
func (r *MutateRequest) Validate() error {
	if err := rule.Check(r); err != nil {
		return err
	}
	network := r.Operation == "fetch" || r.Operation == "push" || r.Operation == "pull"
	push, pull := r.Operation == "push", r.Operation == "pull"
	rows := []struct {
		field              string
		set, needed, taken bool
	}{
		{"paths", len(r.Paths) > 0, !network, !network},
		{"message", r.Message != "", r.Operation == "commit", r.Operation == "commit"},
		{"remote", r.Remote != "", network, network},
		{"reference", r.Reference != "", network, network},
		{"sourceCommit", r.SourceCommit != "", push || pull, push || pull},
		{"expectedRemoteCommit", r.ExpectedRemoteCommit != "", pull, push || pull},
		{"pullMode", r.PullMode != "", pull, pull},
	}
	for _, row := range rows {
		switch {
		case row.needed && !row.set:
			return rule.Bad(row.field, "is required for "+r.Operation)
		case row.set && !row.taken:
			return rule.Bad(row.field, "does not go with "+r.Operation)
		}
	}
	if r.Reference != "" && !strings.HasPrefix(r.Reference, "refs/heads/") {
		return rule.Bad("reference", "must start with refs/heads/")
	}
	return nil
}

// NeedsScopes implements control.Scoper.
func (r *MutateRequest) NeedsScopes() []control.Scope {
	switch r.Operation {
	case "fetch":
		return []control.Scope{control.GitNetwork}
	case "push":
		return []control.Scope{control.GitNetwork, control.GitPush}
	case "pull":
		return []control.Scope{control.GitNetwork, control.GitPull}
	case "discard":
		return []control.Scope{control.GitDiscard}
	}
	return nil
}
