package control

import "encoding/json"

// Tool is one entry of the catalog: one request type with its scopes, hints
// and result kinds. Both forms, the full and the short one, are made from it.
type Tool struct {
	Name        string // "lomi_terminal_run"
	Domain      string // "terminal": the catalog package that defines it
	Title       string // for people: "Run a command"
	Description string // for models, at most 40 words

	ReadOnly    bool
	Destructive bool
	OpenWorld   bool

	// Scopes are needed in every case; a request type may add its own by
	// implementing Scoper.
	Scopes []Scope

	// Unpaired tools answer before any approval.
	Unpaired bool
	// Operation tools answer with a receipt (data kind "operation").
	Operation bool
	// Lease tools need the lease of their target.
	Lease bool

	// Results are the data kinds of the answer, or for an Operation tool of
	// the receipt's result.
	Results []string

	// NewRequest returns a pointer to a zero request. Decode fills it; if it
	// implements Validator, Validate runs next.
	NewRequest func() any
	// Input and Output return JSON Schemas. They are resolved on first use,
	// because making all of them takes longer than starting the daemon may.
	Input  func() json.RawMessage
	Output func() json.RawMessage
}

// Validator checks what a JSON type cannot say. It fills defaults first. Its
// error is an *Error with code ResourceExhausted that names the field and the
// rule, never the value.
type Validator interface{ Validate() error }

// Scoper adds the scopes that only this request needs.
type Scoper interface{ NeedsScopes() []Scope }

// Addressed gives the workspace that a request names.
type Addressed interface{ Workspace() string }

// Retryable gives the idempotency key of a request. A request that expects no
// revision returns "".
type Retryable interface {
	Retry() (epoch, key, revision string)
}

// Mutation is embedded in requests that change a workspace ("MUT" in the
// catalog).
type Mutation struct {
	WorkspaceID      string `json:"workspaceId" is:"id"`
	ExpectedRevision string `json:"expectedRevision" is:"decimal" doc:"Current workspace revision"`
	RetryEpoch       string `json:"retryEpoch" is:"id" doc:"From lomi_connect"`
	RequestKey       string `json:"requestKey" is:"id" doc:"New for each request; the same to repeat it"`
}

// Workspace implements Addressed.
func (m Mutation) Workspace() string { return m.WorkspaceID }

// Retry implements Retryable.
func (m Mutation) Retry() (epoch, key, revision string) {
	return m.RetryEpoch, m.RequestKey, m.ExpectedRevision
}

// Keyed is embedded in requests that have a key and no revision ("MUT-rev").
type Keyed struct {
	WorkspaceID string `json:"workspaceId" is:"id"`
	RetryEpoch  string `json:"retryEpoch" is:"id" doc:"From lomi_connect"`
	RequestKey  string `json:"requestKey" is:"id" doc:"New for each request; the same to repeat it"`
}

// Workspace implements Addressed.
func (k Keyed) Workspace() string { return k.WorkspaceID }

// Retry implements Retryable.
func (k Keyed) Retry() (epoch, key, revision string) { return k.RetryEpoch, k.RequestKey, "" }

// Scoped is embedded in reads of one workspace.
type Scoped struct {
	WorkspaceID string `json:"workspaceId" is:"id"`
}

// Workspace implements Addressed.
func (s Scoped) Workspace() string { return s.WorkspaceID }
