package git

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Tools returns the seven tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "git"
		tool.Scopes = append([]control.Scope{control.FilesRead, control.GitRead}, tool.Scopes...)
		return rule.Define(tool, results...)
	}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_git_status", Title: "Changed files",
			Description: "List changed, staged and new files of a repository.",
			ReadOnly:    true, NewRequest: rule.Request[StatusRequest](),
		}, Status{}),
		define(control.Tool{
			Name: "lomi_git_diff", Title: "Changes of a file",
			Description: "Read a slice of one file's patch: not staged, staged, or of a commit.",
			ReadOnly:    true, NewRequest: rule.Request[DiffRequest](),
		}, Diff{}),
		define(control.Tool{
			Name: "lomi_git_history", Title: "List commits",
			Description: "List commits, newest first.",
			ReadOnly:    true, NewRequest: rule.Request[HistoryRequest](),
		}, History{}),
		define(control.Tool{
			Name: "lomi_git_commit", Title: "Read a commit",
			Description: "Read one commit: author, message and files. Makes no commit; lomi_git_mutate does.",
			ReadOnly:    true, NewRequest: rule.Request[CommitRequest](),
		}, Commit{}),
		define(control.Tool{
			Name: "lomi_git_remotes", Title: "List remotes",
			Description: "List the remotes of a repository, without credentials.",
			ReadOnly:    true, NewRequest: rule.Request[RemotesRequest](),
		}, Remotes{}),
		define(control.Tool{
			Name: "lomi_git_open", Title: "Show a diff or commit",
			Description: "Show a diff or a commit in a panel. Answers with an operation receipt.",
			Operation:   true, Scopes: []control.Scope{control.PanelCreate, control.PanelFocus},
			NewRequest: rule.Request[OpenRequest](),
		}, Opened{}),
		define(control.Tool{
			Name: "lomi_git_mutate", Title: "Change a repository",
			Description: "Stage, unstage, commit, fetch, push, discard or pull. The person sees the exact plan and decides within 120 s. Answers with an operation receipt.",
			Destructive: true, OpenWorld: true, Operation: true,
			Scopes:     []control.Scope{control.GitWrite, control.GitExecute},
			NewRequest: rule.Request[MutateRequest](),
		}, Mutated{}),
	}
}
