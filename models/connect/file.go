package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lomi/internal/private"
)

// maxFile is more than 64 connections of 1,000 models take.
const maxFile = 16 << 20

const fileVersion = 1

// stored is the file. It holds no keys.
type stored struct {
	Version     int          `json:"version"`
	Connections []Connection `json:"connections"`
}

// read loads the file. A missing one is empty; one that cannot be read is an
// error and stays as it is, because replacing it would lose what it holds.
func read(path string) ([]Connection, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the connections: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading %s: larger than %d bytes", path, maxFile)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var s stored
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if s.Version != fileVersion {
		return nil, fmt.Errorf("reading %s: version %d, this program knows %d", path, s.Version, fileVersion)
	}
	if len(s.Connections) > maxConnections {
		return nil, fmt.Errorf("reading %s: more than %d connections", path, maxConnections)
	}
	for _, c := range s.Connections {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("reading %s: connection %.64q: %w", path, c.Name, err)
		}
	}
	return s.Connections, nil
}

// write replaces the file whole: after a crash it is the old one or the new one.
func write(path string, connections []Connection) error {
	data, err := json.MarshalIndent(stored{fileVersion, connections}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the connections: %w", err)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of the connections: %w", err)
	}
	if err := private.Write(path, append(data, '\n')); err != nil {
		return fmt.Errorf("writing the connections: %w", err)
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync() // some file systems have no such thing; the rename holds
		d.Close()
	}
	return nil
}
