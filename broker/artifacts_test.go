package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lomi/broker/catalog/artifact"
	"lomi/broker/control"
)

// mayAll is an authority without limits but those that a test takes away.
type mayAll struct {
	noScope, noWorkspace bool
	holder               string
}

func (m mayAll) Scope(control.Scope) bool { return !m.noScope }
func (m mayAll) Workspace(string) bool    { return !m.noWorkspace }
func (m mayAll) Origin(string) bool       { return true }
func (m mayAll) Holder(string) string     { return m.holder }

func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var pageSource = artifact.Source{Type: "browser", PanelID: "b1", RequiredScope: control.BrowserCaptureComposite}

func openStore(t *testing.T, dir string) *Artifacts {
	t.Helper()
	s, err := OpenArtifacts(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Artifacts, session string, data []byte) artifact.Artifact {
	t.Helper()
	meta, err := s.Put(t.Context(), session, "w1", pageSource, artifact.Image{Crop: "viewport"}, data)
	if err != nil {
		t.Fatal(err)
	}
	return meta
}

func errorCode(err error) control.Code {
	if e, ok := control.AsError(err); ok {
		return e.Code
	}
	return ""
}

func TestArtifactBelongsToItsOwnerAndItsSource(t *testing.T) {
	s := openStore(t, t.TempDir())
	data := picture(t, 8, 8)
	meta := put(t, s, "s1", data)
	own := mayAll{holder: "this_session"}
	if got, read, err := s.Read("s1", "w1", meta.ID, own); err != nil || !bytes.Equal(read, data) || got.SHA256 != meta.SHA256 {
		t.Fatalf("reading back: %+v, %v", got, err)
	}
	for _, row := range []struct {
		name, session, workspace, id string
		now                          mayAll
		want                         control.Code
	}{
		{"a foreign session", "s2", "w1", meta.ID, own, control.TargetNotFound},
		{"no session", "", "w1", meta.ID, own, control.TargetNotFound},
		{"another workspace", "s1", "w2", meta.ID, own, control.TargetNotFound},
		{"an unknown id", "s1", "w1", control.NewID(), own, control.TargetNotFound},
		{"S-27: a path", "s1", "w1", "../index.json", own, control.TargetNotFound},
		{"S-27: upper case", "s1", "w1", strings.ToUpper(meta.ID), own, control.TargetNotFound},
		{"the source's scope is gone", "s1", "w1", meta.ID, mayAll{noScope: true, holder: "this_session"}, control.ScopeDenied},
		{"the workspace is gone", "s1", "w1", meta.ID, mayAll{noWorkspace: true, holder: "this_session"}, control.TargetNotFound},
		{"a person took the page over, or it was closed", "s1", "w1", meta.ID, mayAll{}, control.ControlRevoked},
		{"another session holds the page", "s1", "w1", meta.ID, mayAll{holder: "another_session"}, control.ControlRevoked},
	} {
		if _, _, err := s.Read(row.session, row.workspace, row.id, row.now); errorCode(err) != row.want {
			t.Errorf("%s: got %v, want %s", row.name, err, row.want)
		}
	}
	if _, shown, err := s.Show(meta.ID); err != nil || !bytes.Equal(shown, data) {
		t.Errorf("a person sees %v", err)
	}
	s.disown("s1")
	if _, _, err := s.Read("s1", "w1", meta.ID, own); errorCode(err) != control.TargetNotFound {
		t.Errorf("after the session's end: %v", err)
	}
}

func TestArtifactBytesAreVerified(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	own := mayAll{holder: "this_session"}
	for name, damage := range map[string]func(path string) error{
		"a flipped bit": func(path string) error {
			raw, err := os.ReadFile(path)
			if err == nil {
				raw[len(raw)-1] ^= 1
				err = os.WriteFile(path, raw, 0o600)
			}
			return err
		},
		"cut short": func(path string) error { return os.Truncate(path, 4) },
		"gone":      os.Remove,
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		},
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		meta := put(t, s, "s1", picture(t, 8, 8))
		if err := damage(filepath.Join(dir, meta.ID+".png")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Read("s1", "w1", meta.ID, own); errorCode(err) != control.ArtifactInvalid {
			t.Errorf("%s: got %v, want ARTIFACT_INVALID", name, err)
		}
	}
}

func TestArtifactRefusesWhatIsNoPicture(t *testing.T) {
	s := openStore(t, t.TempDir())
	for _, row := range []struct {
		name string
		data []byte
		want control.Code
	}{
		{"text", []byte("hello"), control.ArtifactInvalid},
		{"nothing", nil, control.ArtifactInvalid},
		{"too many bytes", make([]byte, maxImageBytes+1), control.ArtifactTooLarge},
		{"too many pixels", picture(t, 2000, 1001), control.ArtifactTooLarge},
		{"too long an edge", picture(t, 4097, 1), control.ArtifactTooLarge},
	} {
		if _, err := s.Put(t.Context(), "s1", "w1", pageSource, artifact.Image{}, row.data); errorCode(err) != row.want {
			t.Errorf("%s: got %v, want %s", row.name, err, row.want)
		}
	}
	if n := len(s.List()); n != 0 {
		t.Errorf("%d artifacts are left of refused ones", n)
	}
}

func TestArtifactsMakeRoom(t *testing.T) {
	s := openStore(t, t.TempDir())
	data := picture(t, 2, 2)
	ended := put(t, s, "gone", data)
	s.disown("gone")
	first := put(t, s, "s1", data)
	for range maxArtifacts - 2 {
		put(t, s, "s1", data)
	}
	last := put(t, s, "s1", data)
	if _, _, err := s.Show(ended.ID); errorCode(err) != control.TargetNotFound {
		t.Error("a picture of an ended session was kept over one of a live one")
	}
	if _, _, err := s.Show(first.ID); err != nil {
		t.Errorf("a live session's picture went although an ended one's was there: %v", err)
	}
	put(t, s, "s1", data)
	if _, _, err := s.Show(last.ID); err != nil || len(s.List()) != maxArtifacts {
		t.Errorf("%d artifacts, %v", len(s.List()), err)
	}
	if _, err := s.Put(t.Context(), "s2", "w1", pageSource, artifact.Image{}, data); errorCode(err) != control.ResourceExhausted {
		t.Errorf("another session's pictures made room for a stranger: %v", err)
	}
}

// F-01: an interruption at each step of a publication leaves either a whole
// artifact or none, and no file.
func TestArtifactInterruptions(t *testing.T) {
	for _, row := range []struct {
		name  string
		files []string // that are there at the crash
		whole bool
	}{
		{"reserved", nil, false},
		{"staged", []string{".stage"}, false},
		{"linked as ready", []string{".stage", ".ready"}, true},
		{"published, not in the index", []string{".png"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, dir)
			data := picture(t, 8, 8)
			meta := put(t, s, "s1", data)
			s.mu.Lock()
			s.rows[meta.ID].State = artifactReserved
			err := s.save(true)
			s.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, meta.ID+".png")); err != nil {
				t.Fatal(err)
			}
			for _, ending := range row.files {
				if err := os.WriteFile(filepath.Join(dir, meta.ID+ending), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			again := openStore(t, dir)
			if _, _, err := again.Show(meta.ID); (err == nil) != row.whole {
				t.Errorf("after the restart: %v", err)
			}
			left, err := os.ReadDir(dir)
			want := 1 // the index
			if row.whole {
				want = 2
			}
			if err != nil || len(left) != want {
				t.Errorf("files %v, %v", left, err)
			}
		})
	}
}

func TestArtifactIndex(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "precious.png")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "artifacts")
	if err := os.Mkdir(store, 0o700); err != nil {
		t.Fatal(err)
	}
	rows, err := json.Marshal(map[string]artifactRow{"../precious": {State: artifactReserved, Meta: artifact.Artifact{ID: "../precious"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store, artifactIndex), rows, 0o600); err != nil {
		t.Fatal(err)
	}
	openStore(t, store)
	if _, err := os.Stat(outside); err != nil {
		t.Errorf("S-27: an id in the index removed a file outside: %v", err)
	}
	if err := os.WriteFile(filepath.Join(store, artifactIndex), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	openStore(t, store)
	if kept, err := filepath.Glob(filepath.Join(store, artifactIndex+".damaged-*")); err != nil || len(kept) != 1 {
		t.Errorf("a damaged index was not kept: %v, %v", kept, err)
	}
}

func TestArtifactPutGivesUpWithItsCaller(t *testing.T) {
	s := openStore(t, t.TempDir())
	for range concurrentReserves {
		s.reserves <- struct{}{}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errRevoked())
	if _, err := s.Put(ctx, "s1", "w1", pageSource, artifact.Image{}, picture(t, 2, 2)); errorCode(err) != control.ControlRevoked {
		t.Errorf("got %v", err)
	}
}
