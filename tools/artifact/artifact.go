// Package artifact gives stored outputs of tools to the sessions that own
// them, again and for as long as they may see what it was made from.
package artifact

import (
	"context"
	"errors"

	"lomi/broker"
	"lomi/broker/catalog/artifact"
	"lomi/broker/control"
)

// Adapter answers lomi_artifact_read.
type Adapter struct{ store *broker.Artifacts }

var (
	_ broker.Adapter = Adapter{}
	_ broker.Offerer = Adapter{}
)

// New makes the adapter of the domain "artifact".
func New(store *broker.Artifacts) (Adapter, error) {
	if store == nil {
		return Adapter{}, errors.New("the artifact tools need a store")
	}
	return Adapter{store: store}, nil
}

// Offers implements broker.Offerer.
func (Adapter) Offers(tool string) (bool, string) { return tool == "lomi_artifact_read", "" }

// Resolve implements broker.Adapter. Whose the artifact is, is asked in Do:
// that reads a disk.
func (Adapter) Resolve(_ context.Context, call broker.Call) (broker.Target, error) {
	r, ok := call.Request.(*artifact.ReadRequest)
	if !ok {
		return broker.Target{}, control.Errorf(control.UnsupportedCapability, "this build of Lomi does not offer the tool")
	}
	return broker.Target{WorkspaceID: r.WorkspaceID}, nil
}

// Do implements broker.Adapter.
func (a Adapter) Do(_ context.Context, _ *broker.Permit, call broker.Call, target broker.Target) (broker.Result, error) {
	r, ok := call.Request.(*artifact.ReadRequest)
	if !ok {
		return broker.Result{}, control.Errorf(control.UnsupportedCapability, "this build of Lomi does not offer the tool")
	}
	meta, data, err := a.store.Read(call.Session, target.WorkspaceID, r.ArtifactID, call.Authority)
	if err != nil {
		return broker.Result{}, err
	}
	return broker.Result{Data: meta, Image: &control.Image{MediaType: meta.MediaType, Data: data}}, nil
}
