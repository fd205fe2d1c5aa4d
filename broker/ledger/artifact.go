package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lomi/broker/control"
	"lomi/internal/sqlite"
)

// Quotas of broker spec 6.5. A reservation counts with the bytes that it may
// grow to, so that publishing never meets a full store.
const (
	artifactLife     = 24 * time.Hour
	maxArtifacts     = 64
	maxReserved      = 2 // being written at once
	artifactBytes    = 2 << 30
	artifactShare    = 1 << 30 // of one owner, and of one project
	imageBytes       = 3 << 20
	imagesBytes      = 64 << 20
	imagesOwnerBytes = 16 << 20
	apkBytes         = 512 << 20
	fileBytes        = 4 << 20
)

// Artifact is the row of one stored output: first a reservation, which holds
// its place in the quotas while the bytes are written, then ready for good.
// Class is image, apk or file. Source says what it was made from, and with
// which scope; it is the broker's to read.
type Artifact struct {
	ID        string
	Class     string
	Owner     string // a pairing
	Project   string
	Receipt   string
	Source    json.RawMessage
	MediaType string
	Ready     bool
	Bytes     int64 // of a reservation: at most
	Hash      Hash  // zero until ready
	Created   time.Time
	Expires   time.Time
}

// ReserveArtifact takes a place for an output of at most a.Bytes bytes, or
// refuses with ARTIFACT_TOO_LARGE or RESOURCE_EXHAUSTED. The row is durable
// before a file is made, so that a start finds every file by its row.
func (l *Ledger) ReserveArtifact(ctx context.Context, a Artifact) (Artifact, error) {
	if err := a.check(); err != nil {
		return Artifact{}, fmt.Errorf("reserving an artifact: %w", err)
	}
	var reserved Artifact
	err := l.submit(ctx, func(b *batch) (err error) {
		reserved, err = b.reserve(a)
		return err
	})
	if err != nil {
		return Artifact{}, fmt.Errorf("reserving an artifact: %w", err)
	}
	return reserved, nil
}

func (a Artifact) check() error {
	limit := int64(0)
	switch a.Class {
	case "image":
		limit = imageBytes
	case "apk":
		limit = apkBytes
	case "file":
		limit = fileBytes
	default:
		return invalid("an artifact is an image, an apk or a file")
	}
	switch {
	case len(a.ID) != 32 || !control.ValidID(a.ID):
		return invalid("an artifact id is 32 hex digits")
	case len(a.Owner) > maxField || len(a.Project) > maxField || len(a.MediaType) > maxField || len(a.Source) > maxResult:
		return invalid("a field that is too long")
	case a.Bytes <= 0:
		return invalid("an artifact without bytes")
	case a.Bytes > limit:
		return refuse(control.Errorf(control.ArtifactTooLarge, "The output is larger than %d bytes.", limit))
	}
	return nil
}

const artifactColumns = `id, class, owner, project, receipt, source, media_type, ready, bytes, hash, created, expires`

func (b *batch) reserve(a Artifact) (Artifact, error) {
	all, err := b.artifacts()
	if err != nil {
		return Artifact{}, err
	}
	if err := fits(all, a); err != nil {
		return Artifact{}, err
	}
	a.Ready, a.Hash, a.Created, a.Expires = false, Hash{}, b.now, b.now.Add(artifactLife)
	if len(a.Source) == 0 {
		a.Source = json.RawMessage(`{}`)
	}
	_, err = b.tx.Exec(`INSERT INTO artifacts(id, class, owner, project, receipt, source, media_type, bytes, created, expires)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, a.ID, a.Class, a.Owner, a.Project, a.Receipt, string(a.Source), a.MediaType,
		a.Bytes, stamp(a.Created), stamp(a.Expires))
	if sqlite.IsConstraint(err) {
		return Artifact{}, invalid("an artifact id that is taken")
	}
	return a, err
}

// fits adds up at most 64 rows.
func fits(all []Artifact, a Artifact) error {
	var open int
	var total, owner, project, images, mine int64
	for _, other := range append(all, a) {
		total += other.Bytes
		if !other.Ready {
			open++
		}
		if other.Owner == a.Owner {
			owner += other.Bytes
		}
		if other.Project == a.Project {
			project += other.Bytes
		}
		if other.Class == "image" && a.Class == "image" {
			images += other.Bytes
			if other.Owner == a.Owner {
				mine += other.Bytes
			}
		}
	}
	if len(all) >= maxArtifacts || open > maxReserved || total > artifactBytes || owner > artifactShare ||
		project > artifactShare || images > imagesBytes || mine > imagesOwnerBytes {
		return refusef(control.ResourceExhausted, "The store of outputs is full. Older ones go after 24 hours.")
	}
	return nil
}

func (b *batch) artifacts() ([]Artifact, error) {
	rows, err := b.tx.Query(`SELECT ` + artifactColumns + ` FROM artifacts ORDER BY created`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Artifact
	for rows.Next() {
		a, err := scanArtifact(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, rows.Err()
}

func scanArtifact(row scanner) (Artifact, error) {
	var a Artifact
	var source string
	var sum []byte
	var created, expires int64
	err := row.Scan(&a.ID, &a.Class, &a.Owner, &a.Project, &a.Receipt, &source, &a.MediaType, &a.Ready, &a.Bytes, &sum, &created, &expires)
	a.Source, a.Created, a.Expires = json.RawMessage(source), when(created), when(expires)
	copy(a.Hash[:], sum)
	return a, err
}

// PublishArtifact makes a reservation ready, with its real size and hash. It
// happens once.
func (l *Ledger) PublishArtifact(ctx context.Context, id string, bytes int64, sum Hash) error {
	return l.artifact(ctx, "publishing", func(b *batch) (int64, error) {
		done, err := b.tx.Exec(`UPDATE artifacts SET ready = 1, bytes = ?, hash = ? WHERE id = ? AND ready = 0 AND bytes >= ?`, bytes, sum[:], id, bytes)
		if err != nil {
			return 0, err
		}
		return done.RowsAffected()
	})
}

// DropArtifact forgets an artifact or gives a reservation back. The caller
// removes the file first, so that no file is ever without a row.
func (l *Ledger) DropArtifact(ctx context.Context, id string) error {
	return l.artifact(ctx, "dropping", func(b *batch) (int64, error) {
		done, err := b.tx.Exec(`DELETE FROM artifacts WHERE id = ?`, id)
		if err != nil {
			return 0, err
		}
		return done.RowsAffected()
	})
}

func (l *Ledger) artifact(ctx context.Context, what string, run func(*batch) (int64, error)) error {
	err := l.submit(ctx, func(b *batch) error {
		n, err := run(b)
		if err == nil && n == 0 {
			err = refusef(control.TargetNotFound, "There is no such output, or it is complete already.")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s an artifact: %w", what, err)
	}
	return nil
}

// Artifacts returns every row, the oldest first: at most 64. Those that are
// past Expires, or not ready at a start, are the caller's to remove.
func (l *Ledger) Artifacts(ctx context.Context) ([]Artifact, error) {
	rows, err := l.db.Query(ctx, `SELECT `+artifactColumns+` FROM artifacts ORDER BY created`)
	if err != nil {
		return nil, fmt.Errorf("listing artifacts: %w", readError(err))
	}
	defer rows.Close()
	var all []Artifact
	for rows.Next() {
		a, err := scanArtifact(rows)
		if err != nil {
			return nil, fmt.Errorf("listing artifacts: %w", err)
		}
		all = append(all, a)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, fmt.Errorf("listing artifacts: %w", readError(err))
	}
	return all, nil
}
