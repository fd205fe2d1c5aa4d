package mcpserver

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine is the longest message that is looked at.
const maxLine = 8 << 20

var errLongLine = errors.New("a line longer than 8 MiB")

// lines reads messages, one a line. It holds at most maxLine bytes.
type lines struct {
	r     *bufio.Reader
	begun bool
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line that is not blank, without white space around it,
// in memory of its own. A line that is too long is skipped whole and gives
// errLongLine; reading goes on behind it. A last line without its end counts.
func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.whole()
		if !l.begun {
			l.begun = true
			// Some shells put a mark before what they pipe.
			line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 || err != nil {
			return line, err
		}
	}
}

// whole reads to the end of a line. An error of the stream is kept back as
// long as there is something before it.
func (l *lines) whole() ([]byte, error) {
	var line []byte
	long := false
	for {
		piece, err := l.r.ReadSlice('\n')
		if long = long || len(line)+len(piece) > maxLine; long {
			line = nil
		} else {
			line = append(line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case long:
			return nil, errLongLine
		case err != nil && len(line) > 0:
			return line, nil // the reader gives the error again
		}
		return line, err
	}
}
