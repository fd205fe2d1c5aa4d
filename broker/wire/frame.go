package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// frameTime is how long a frame may take once its first byte has come.
const frameTime = 5 * time.Second

// writeTime is how long one frame may take to leave.
const writeTime = 5 * time.Second

// headerBytes is the length of the big-endian length before each frame.
const headerBytes = 4

var errEmptyFrame = errors.New("a frame of length zero")

// frameSizeError is a frame that is longer than the reader takes. Nothing of
// its body has been read.
type frameSizeError struct{ size, limit int64 }

func (e *frameSizeError) Error() string {
	return fmt.Sprintf("a frame of %d bytes where %d are allowed", e.size, e.limit)
}

// readFrame reads one frame of at most limit bytes. begun, if not nil, is
// called when the first byte has come, to start the clock of frameTime. The
// error is io.EOF only when the stream ended between two frames.
//
// The body is stored as it comes, not as it is announced: a peer cannot make
// us allocate what it does not send.
func readFrame(r io.Reader, limit int64, begun func()) ([]byte, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(r, header[:1]); err != nil {
		return nil, err
	}
	if begun != nil {
		begun()
	}
	if _, err := io.ReadFull(r, header[1:]); err != nil {
		return nil, unexpected(err)
	}
	size := int64(binary.BigEndian.Uint32(header[:]))
	switch {
	case size == 0:
		return nil, errEmptyFrame
	case size > limit:
		return nil, &frameSizeError{size: size, limit: limit}
	}
	var body bytes.Buffer
	body.Grow(int(min(size, 4096)))
	if _, err := io.CopyN(&body, r, size); err != nil {
		return nil, unexpected(err)
	}
	return body.Bytes(), nil
}

// unexpected marks an end of the stream inside a frame: that spoils the
// connection, unlike an end between two.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame puts a body into a frame.
func appendFrame(body []byte) []byte {
	frame := make([]byte, headerBytes, headerBytes+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	return append(frame, body...)
}
