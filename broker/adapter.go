package broker

import (
	"context"

	"lomi/broker/control"
)

// Adapter carries out the tools of one domain. The broker has admitted a call
// before Do sees it; an adapter never decides who may.
type Adapter interface {
	// Resolve says what a call is about. It has no effect, does no I/O, and
	// takes at most 5 ms. A foreign and a missing target give the same
	// TARGET_NOT_FOUND.
	Resolve(ctx context.Context, call Call) (Target, error)
	// Do carries the call out. ctx ends when the session is revoked or the
	// daemon stops; a wish to cancel comes through permit.Cancelled instead,
	// so that an adapter can end its effect in order. An error that is no
	// *control.Error counts as effect unknown once permit.Start was called.
	Do(ctx context.Context, permit *Permit, call Call, target Target) (Result, error)
}

// Call is one request on its way to an adapter.
type Call struct {
	Tool      control.Tool
	Request   any    // what Tool.NewRequest made, decoded and validated
	Session   string // id of the approved session
	Label     string // what the session calls itself; proves nothing
	PeerPID   int    // of the process at the other end of the socket, 0 unknown
	Operation string // receipt id, "" for a read
	Lease     string // in Do: the lease that Session holds on Target.Resource, "" none
	Authority Authority
}

// Authority is what the caller may do at this moment, for adapters that list
// things or give stored ones out again. It only ever narrows what the broker
// has admitted, waits for nothing, and is never nil in a call of the broker.
type Authority interface {
	Scope(control.Scope) bool
	Workspace(id string) bool
	// Origin takes an exact origin, "https://host:443".
	Origin(origin string) bool
	// Holder says who may type or click on a resource: "this_session",
	// "another_session", or "" for nobody and for a person.
	Holder(resource string) string
}

// Target is what a call acts on. The broker checks it against the grant and
// the lease, puts it into the fingerprint, and shows Summary to people.
type Target struct {
	WorkspaceID string
	Resource    string // "terminal:PANEL", "browser:PANEL"; "" for none
	Generation  string // of the resource: terminal session, browser generation
	LeaseID     string // the lease that the request names, checked for Lease tools
	Origin      string // "https://host:443" that the call will load, "" for none

	// What a person reads when asked, one line, plain text: "Run npm test in
	// terminal main".
	Summary string
	// Command is the line that would run, for the rules on command lines.
	Command string
	// Risk overrides the catalog's marks for the policy "ask for risk": "" keeps
	// them, "none" never asks, anything else asks and says why ("types into
	// vim", asked once for Run).
	Risk string
	// Run names the thing for which one answer is enough: the running command
	// that input goes to.
	Run string
	// Refused is the way to take instead, for a call that the asking policies
	// refuse rather than ask about: input to a shell that waits at its prompt.
	Refused string
}

// Result is what an adapter did. Data marshals to an object with a "kind" of
// the tool's Results. Zero State and Effect mean succeeded and complete; a
// command that ran and exited 7 is StateFailed with EffectComplete.
type Result struct {
	Data    any
	State   control.State
	Effect  control.Effect
	Message string         // for a failed one, in words
	Image   *control.Image // shown with the answer, kept as an artifact when Source is set
	// Lease names the resource on which the caller now holds the first lease.
	Lease string
	// Workspaces were made by this call. They are added to its caller's grant,
	// and to nobody else's.
	Workspaces []string
}
