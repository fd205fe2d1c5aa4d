package artifact

import (
	"lomi/broker/catalog/rule"
	"lomi/broker/control"
)

// Tools returns the three tools of this domain.
func Tools() []control.Tool {
	define := func(tool control.Tool, results ...any) control.Tool {
		tool.Domain = "artifact"
		return rule.Define(tool, results...)
	}
	return []control.Tool{
		define(control.Tool{
			Name: "lomi_artifact_import", Title: "Store a project file",
			Description: "Copy a project file into the artifact store, for upload or install. Answers with an operation receipt.",
			Operation:   true,
			Scopes:      []control.Scope{control.FilesRead},
			NewRequest:  rule.Request[ImportRequest](),
		}, Imported{}),
		define(control.Tool{
			Name: "lomi_artifact_read", Title: "Read an artifact",
			Description: "Read the data of an artifact, with the picture if it is one. Needs the scope of what it was made from.",
			ReadOnly:    true,
			NewRequest:  rule.Request[ReadRequest](),
		}, Artifact{}),
		define(control.Tool{
			Name: "lomi_artifact_export", Title: "Write an artifact to a file",
			Description: "Write an artifact to a new project file; never overwrites. Answers with an operation receipt.",
			OpenWorld:   true, Operation: true,
			Scopes: []control.Scope{control.ArtifactExport, control.FilesRead, control.FilesMutate,
				control.FilesCreate},
			NewRequest: rule.Request[ExportRequest](),
		}, Exported{}),
	}
}
