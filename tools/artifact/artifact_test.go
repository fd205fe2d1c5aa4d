package artifact

import (
	"bytes"
	"image"
	"image/png"
	"testing"

	"lomi/broker"
	"lomi/broker/catalog/artifact"
	"lomi/broker/control"
)

type owner struct{}

func (owner) Scope(control.Scope) bool { return true }
func (owner) Workspace(string) bool    { return true }
func (owner) Origin(string) bool       { return true }
func (owner) Holder(string) string     { return "this_session" }

func TestReadGivesThePictureBesideItsData(t *testing.T) {
	store, err := broker.OpenArtifacts(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(store)
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if err := png.Encode(&data, image.NewGray(image.Rect(0, 0, 4, 4))); err != nil {
		t.Fatal(err)
	}
	kept, err := store.Put(t.Context(), "s1", "w1", artifact.Source{Type: "browser", PanelID: "p"}, artifact.Image{PixelWidth: 4, PixelHeight: 4}, data.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	call := broker.Call{Session: "s1", Authority: owner{},
		Request: &artifact.ReadRequest{Scoped: control.Scoped{WorkspaceID: "w1"}, ArtifactID: kept.ID}}
	target, err := a.Resolve(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	result, err := a.Do(t.Context(), broker.NewPermit(func() error { return nil }, nil), call, target)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := result.Data.(artifact.Artifact); !ok || got.Kind != "artifact" || got.ID != kept.ID || got.Image.PixelWidth != 4 {
		t.Errorf("data %+v", result.Data)
	}
	if result.Image == nil || result.Image.MediaType != "image/png" || !bytes.Equal(result.Image.Data, data.Bytes()) {
		t.Error("the picture is not the one that was stored")
	}
	call.Session = "s2"
	_, err = a.Do(t.Context(), broker.NewPermit(func() error { return nil }, nil), call, target)
	if e, ok := control.AsError(err); !ok || e.Code != control.TargetNotFound {
		t.Errorf("a foreign session got %v", err)
	}
}

func TestOnlyReadingIsOffered(t *testing.T) {
	var a Adapter
	for tool, want := range map[string]bool{"lomi_artifact_read": true, "lomi_artifact_import": false, "lomi_artifact_export": false} {
		if got, _ := a.Offers(tool); got != want {
			t.Errorf("Offers(%s) = %v", tool, got)
		}
	}
	_, err := a.Resolve(t.Context(), broker.Call{Request: &artifact.ImportRequest{}})
	if e, ok := control.AsError(err); !ok || e.Code != control.UnsupportedCapability {
		t.Errorf("importing gave %v", err)
	}
}
