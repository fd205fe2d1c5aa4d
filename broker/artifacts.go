package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"lomi/broker/catalog/artifact"
	"lomi/broker/control"
)

// Bounds of the artifact store (broker spec 6.5). What is kept at present are
// pictures, whose own bounds lie far below the common ones of 2 GiB.
const (
	artifactLife       = 24 * time.Hour
	maxArtifacts       = 64
	maxImageBytes      = 3 << 20
	maxImagesOfAll     = 64 << 20
	maxImagesOfOne     = 16 << 20
	maxImagePixels     = 2_000_000
	maxImageEdge       = 4096
	concurrentReserves = 2

	artifactIndex = "index.json"
)

// artifactState is how far an artifact has come. What is not ready at a start
// was interrupted, and is finished or removed by the names that its id gives.
type artifactState string

const (
	artifactReserved artifactState = "reserved"
	artifactReady    artifactState = "ready"
)

// artifactRow is one line of the index.
type artifactRow struct {
	State artifactState     `json:"state"`
	Owner string            `json:"owner"` // session; "" once it has ended
	Meta  artifact.Artifact `json:"meta"`
	pins  int               // readers that hold its bytes
}

// Artifacts keeps immutable outputs of tools under one folder. An artifact is
// never changed: it is staged, synced, linked as ready, published under its
// final name, and only then known to readers. It is safe for concurrent use.
type Artifacts struct {
	dir      string
	log      *slog.Logger
	reserves chan struct{}

	mu   sync.Mutex
	rows map[string]*artifactRow
}

// OpenArtifacts opens the store in a folder, which it makes, and finishes or
// removes what the last run left half done. Owners of the last run are gone,
// so what it left can be seen by people only.
func OpenArtifacts(dir string, logger *slog.Logger) (*Artifacts, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the artifact folder: %w", err)
	}
	s := &Artifacts{dir: dir, log: logger, reserves: make(chan struct{}, concurrentReserves), rows: make(map[string]*artifactRow)}
	if err := s.load(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, row := range s.rows {
		row.Owner = ""
		if row.State == artifactReserved {
			s.recover(id, row)
		}
	}
	s.expire(time.Now())
	return s, s.save(true)
}

// load reads the index. A damaged one is kept aside, because it is the only
// thing that knows which files are whose.
func (s *Artifacts) load() error {
	path := filepath.Join(s.dir, artifactIndex)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the artifact index: %w", err)
	}
	if err := json.Unmarshal(raw, &s.rows); err != nil {
		aside := fmt.Sprintf("%s.damaged-%d", path, time.Now().Unix())
		if moved := os.Rename(path, aside); moved != nil {
			return fmt.Errorf("keeping a damaged artifact index: %w", errors.Join(err, moved))
		}
		s.log.Error("artifact index is damaged and was kept aside", "err", err, "path", aside)
		s.rows = make(map[string]*artifactRow)
	}
	for id, row := range s.rows {
		if row == nil || row.Meta.ID != id || !plainID(id) { // ids become file names (S-27)
			delete(s.rows, id)
		}
	}
	return nil
}

func plainID(id string) bool {
	raw, err := hex.DecodeString(id)
	return err == nil && len(raw) == 16 && hex.EncodeToString(raw) == id
}

// recover finishes a publication that got as far as its ready link, and
// removes any other.
func (s *Artifacts) recover(id string, row *artifactRow) {
	if _, err := os.Lstat(s.path(id, ".ready")); err == nil && row.Meta.SHA256 != "" {
		if err := s.publish(id); err == nil {
			row.State = artifactReady
			return
		}
	}
	s.remove(id)
}

func (s *Artifacts) path(id, ending string) string { return filepath.Join(s.dir, id+ending) }

// remove forgets an artifact and every name that its id gives. The mutex is
// held.
func (s *Artifacts) remove(id string) {
	for _, ending := range []string{".stage", ".ready", ".png"} {
		if err := os.Remove(s.path(id, ending)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("removing an artifact", "err", err)
		}
	}
	delete(s.rows, id)
}

// save replaces the index, durably if asked. The mutex is held: the index is
// small, and two writers would undo each other.
func (s *Artifacts) save(durable bool) error {
	raw, err := json.Marshal(s.rows)
	if err != nil {
		return fmt.Errorf("encoding the artifact index: %w", err)
	}
	temporary := s.path(artifactIndex, ".new")
	if err := write(temporary, raw, durable); err != nil {
		return fmt.Errorf("writing the artifact index: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(s.dir, artifactIndex)); err != nil {
		return fmt.Errorf("replacing the artifact index: %w", err)
	}
	if !durable {
		return nil
	}
	return syncDir(s.dir)
}

func write(path string, data []byte, durable bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if durable {
		err = errors.Join(err, f.Sync())
	}
	return errors.Join(err, f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Put keeps a PNG for a session and returns what the session may know of it.
// When the session's or the store's room for pictures is used up, the oldest
// pictures of ended sessions and then of this one go: each was in an answer
// already, and a long conversation must be able to go on looking.
func (s *Artifacts) Put(ctx context.Context, session, workspaceID string, source artifact.Source, image artifact.Image, data []byte) (artifact.Artifact, error) {
	if err := checkPNG(data); err != nil {
		return artifact.Artifact{}, err
	}
	select {
	case s.reserves <- struct{}{}:
		defer func() { <-s.reserves }()
	case <-ctx.Done():
		return artifact.Artifact{}, fmt.Errorf("waiting for the artifact store: %w", context.Cause(ctx))
	}
	now := time.Now()
	source.WorkspaceID = workspaceID
	digest := sum(data)
	meta := artifact.Artifact{Kind: "artifact", ID: control.NewID(), MediaType: "image/png", ByteLength: int64(len(data)),
		SHA256: hex.EncodeToString(digest[:]), CreatedAtSeconds: now.Unix(), ExpiresAtSeconds: now.Add(artifactLife).Unix(),
		Source: source, Image: &image}
	if err := s.reserve(session, meta, now); err != nil {
		return artifact.Artifact{}, err
	}
	if err := s.write(meta.ID, data); err != nil {
		s.mu.Lock()
		s.remove(meta.ID)
		err = errors.Join(err, s.save(true))
		s.mu.Unlock()
		return artifact.Artifact{}, storeError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if row := s.rows[meta.ID]; row != nil {
		row.State = artifactReady
	}
	return meta, storeError(s.save(true))
}

// storeError is what a caller learns of a disk that does not take artifacts.
func storeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", control.Errorf(control.StorageUnavailable, "the artifact could not be stored"), err)
}

// reserve takes a place in the index before any byte is written, so that a
// kill leaves no file that nothing knows of. It is not synced: after a power
// cut a stray file of a picture is the worst, and a screenshot is to be quick.
func (s *Artifacts) reserve(session string, meta artifact.Artifact, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(now)
	for !s.fits(session, meta.ByteLength) {
		oldest := s.oldest("")
		if oldest == "" {
			oldest = s.oldest(session)
		}
		if oldest == "" {
			return control.Errorf(control.ResourceExhausted, "the artifact store is full")
		}
		s.remove(oldest)
	}
	s.rows[meta.ID] = &artifactRow{State: artifactReserved, Owner: session, Meta: meta}
	return storeError(s.save(false))
}

func (s *Artifacts) fits(session string, size int64) bool {
	all, own := size, size
	for _, row := range s.rows {
		all += row.Meta.ByteLength
		if row.Owner == session {
			own += row.Meta.ByteLength
		}
	}
	return len(s.rows) < maxArtifacts && all <= maxImagesOfAll && own <= maxImagesOfOne
}

// oldest finds the oldest artifact of an owner that nobody reads.
func (s *Artifacts) oldest(owner string) string {
	var found string
	for id, row := range s.rows {
		if row.Owner != owner || row.pins > 0 || row.State != artifactReady {
			continue
		}
		if found == "" || row.Meta.CreatedAtSeconds < s.rows[found].Meta.CreatedAtSeconds {
			found = id
		}
	}
	return found
}

// expire removes what is past its time and not being read. The mutex is held.
func (s *Artifacts) expire(now time.Time) {
	for id, row := range maps.Clone(s.rows) {
		if row.pins == 0 && now.Unix() >= row.Meta.ExpiresAtSeconds {
			s.remove(id)
		}
	}
}

// write stages the bytes, links them as ready, and publishes them.
func (s *Artifacts) write(id string, data []byte) error {
	if err := write(s.path(id, ".stage"), data, true); err != nil {
		return fmt.Errorf("staging an artifact: %w", err)
	}
	if err := os.Link(s.path(id, ".stage"), s.path(id, ".ready")); err != nil {
		return fmt.Errorf("marking an artifact ready: %w", err)
	}
	return s.publish(id)
}

// publish gives a ready artifact its final name. Doing it again is harmless.
func (s *Artifacts) publish(id string) error {
	if err := os.Rename(s.path(id, ".ready"), s.path(id, ".png")); err != nil {
		return fmt.Errorf("publishing an artifact: %w", err)
	}
	// A rename between two links of one file does nothing at all.
	for _, ending := range []string{".stage", ".ready"} {
		if err := os.Remove(s.path(id, ending)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("publishing an artifact: %w", err)
		}
	}
	return nil // the index that says so is synced with the folder
}

func checkPNG(data []byte) error {
	if len(data) > maxImageBytes {
		return control.Errorf(control.ArtifactTooLarge, "a picture has at most %d bytes", maxImageBytes)
	}
	size, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return control.Errorf(control.ArtifactInvalid, "it is no PNG")
	}
	if max(size.Width, size.Height) > maxImageEdge || size.Width*size.Height > maxImagePixels {
		return control.Errorf(control.ArtifactTooLarge, "a picture has at most %d pixels and no edge over %d", maxImagePixels, maxImageEdge)
	}
	return nil
}

// Read gives an artifact to the session that owns it, while what it was taken
// from is still open to that session: the workspace and the scope are granted,
// and neither was the page closed nor has a person taken it over.
func (s *Artifacts) Read(session, workspaceID, id string, now Authority) (artifact.Artifact, []byte, error) {
	row, unpin, err := s.pin(id)
	if err != nil {
		return artifact.Artifact{}, nil, err
	}
	defer unpin()
	source := row.Meta.Source
	switch {
	case session == "" || row.Owner != session || source.WorkspaceID != workspaceID || !now.Workspace(source.WorkspaceID):
		return artifact.Artifact{}, nil, errNoArtifact()
	case source.RequiredScope != "" && !now.Scope(source.RequiredScope):
		return artifact.Artifact{}, nil, control.Errorf(control.ScopeDenied, "the grant does not hold %s", source.RequiredScope)
	case source.Type == "browser" && now.Holder("browser:"+source.PanelID) != "this_session":
		return artifact.Artifact{}, nil, control.Errorf(control.ControlRevoked, "the page it was taken from is closed or under a person's control")
	}
	data, err := s.bytes(row.Meta)
	return row.Meta, data, err
}

// Show gives an artifact to a person, whoever owned it.
func (s *Artifacts) Show(id string) (artifact.Artifact, []byte, error) {
	row, unpin, err := s.pin(id)
	if err != nil {
		return artifact.Artifact{}, nil, err
	}
	defer unpin()
	data, err := s.bytes(row.Meta)
	return row.Meta, data, err
}

func errNoArtifact() error {
	return control.Errorf(control.TargetNotFound, "artifactId: is none of this connection's, or has expired")
}

// pin finds a ready artifact and keeps its bytes and its place until unpin.
func (s *Artifacts) pin(id string) (artifactRow, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	row := s.rows[id]
	if row == nil || row.State != artifactReady {
		return artifactRow{}, nil, errNoArtifact()
	}
	row.pins++
	return *row, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		row.pins--
	}, nil
}

// bytes reads the file of an artifact and believes nothing about it.
func (s *Artifacts) bytes(meta artifact.Artifact) ([]byte, error) {
	invalid := control.Errorf(control.ArtifactInvalid, "the stored bytes are not those that were stored")
	f, err := os.OpenFile(s.path(meta.ID, ".png"), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", invalid, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != meta.ByteLength {
		return nil, invalid
	}
	data, err := io.ReadAll(io.LimitReader(f, meta.ByteLength+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", invalid, err)
	}
	if digest := sum(data); hex.EncodeToString(digest[:]) != meta.SHA256 {
		return nil, invalid
	}
	return data, nil
}

// disown keeps the artifacts of an ended session for people until they expire
// or their place is needed.
func (s *Artifacts) disown(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.rows {
		if row.Owner == session {
			row.Owner = ""
		}
	}
}

// List names what is stored, the newest first.
func (s *Artifacts) List() []artifact.Artifact {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	out := []artifact.Artifact{}
	for _, row := range s.rows {
		if row.State == artifactReady {
			out = append(out, row.Meta)
		}
	}
	slices.SortFunc(out, func(x, y artifact.Artifact) int {
		return cmp.Or(cmp.Compare(y.CreatedAtSeconds, x.CreatedAtSeconds), cmp.Compare(x.ID, y.ID))
	})
	return out
}
