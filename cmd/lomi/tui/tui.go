// Package tui is the conversation at a terminal. The rules of its output: the
// model's text is printed as it comes; what Lomi says of itself is dim and
// starts with a sign; a question is bold, waits for a whole line, and takes no
// empty answer for yes; text of others never reaches the terminal with its
// control characters. Nothing is shown by colour alone.
package tui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// ErrQuit says that the person is done.
var ErrQuit = errors.New("the person is done")

// quiet is how long a question ignores what is typed: keys meant for something
// else must not answer it.
const quiet = 500 * time.Millisecond

const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	plain = "\x1b[0m"
)

// line is one line that the person typed.
type line struct {
	text string
	at   time.Time
	err  error
}

// Screen is a person's terminal. One goroutine reads its lines for as long as
// the program lives, because a read of a terminal cannot be called back.
type Screen struct {
	out   io.Writer
	lines chan line
	once  sync.Once
	in    *os.File
	fresh bool // the cursor stands at the start of a line
}

// New makes a screen of a terminal.
func New(in *os.File, out io.Writer) *Screen {
	return &Screen{in: in, out: out, lines: make(chan line), fresh: true}
}

// read starts the reader. It ends with the program or with the input.
func (s *Screen) read() {
	s.once.Do(func() {
		go func() {
			r := bufio.NewReader(s.in)
			for {
				text, err := r.ReadString('\n')
				s.lines <- line{strings.TrimRight(text, "\r\n"), time.Now(), err}
				if err != nil {
					return
				}
			}
		}()
	})
}

// Welcome prints where this conversation is.
func (s *Screen) Welcome(model, project, id string) {
	fmt.Fprintf(s.out, "%sLomi%s with %s in %s\n", bold, plain, model, project)
	fmt.Fprintf(s.out, "%s  Ctrl+C stops a turn; at the prompt it ends, as Ctrl+D does. Go on later with --conversation %s%s\n", dim, id, plain)
}

// Goodbye prints how to come back.
func (s *Screen) Goodbye(id string) {
	s.newline()
	fmt.Fprintf(s.out, "%s  lomi chat --conversation %s goes on here%s\n", dim, id, plain)
}

// Prompt waits for something to say. ErrQuit ends.
func (s *Screen) Prompt(ctx context.Context) (string, error) {
	s.read()
	s.newline()
	fmt.Fprintf(s.out, "%s>%s ", bold, plain)
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt)
	defer stop()
	select {
	case l := <-s.lines:
		if l.err != nil && l.text == "" {
			return "", ErrQuit
		}
		return strings.TrimSpace(l.text), nil
	case <-ctx.Done():
		return "", ErrQuit
	}
}

// Interrupted returns a context that ends when the person presses Ctrl+C.
func (s *Screen) Interrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt)
}

// Confirm asks a question that is answered yes or no. Only "y" and "yes" are
// yes; what was typed before the question stood there for half a second is not
// taken as an answer.
func (s *Screen) Confirm(ctx context.Context, question string) (bool, error) {
	answer, err := s.ask(ctx, question, "[y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// Answer asks what the model wants to know.
func (s *Screen) Answer(ctx context.Context, question string, options []string) (string, error) {
	hint := "answer"
	if len(options) > 0 {
		hint = strings.Join(options, " | ")
	}
	return s.ask(ctx, question, hint)
}

func (s *Screen) ask(ctx context.Context, question, hint string) (string, error) {
	s.read()
	s.newline()
	fmt.Fprintf(s.out, "%s? %s%s %s ", bold, Safe(question), plain, Safe(hint))
	asked := time.Now()
	for {
		select {
		case l := <-s.lines:
			if l.err != nil {
				return "", ErrQuit
			}
			if l.at.Sub(asked) < quiet {
				fmt.Fprintf(s.out, "%s  (typed before the question: please answer again)%s ", dim, plain)
				continue
			}
			return strings.TrimSpace(l.text), nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// Text prints a piece of the answer.
func (s *Screen) Text(text string) {
	if text == "" {
		return
	}
	fmt.Fprint(s.out, Safe(text))
	s.fresh = strings.HasSuffix(text, "\n")
}

// Thinking prints a piece of the model's reasoning.
func (s *Screen) Thinking(text string) {
	fmt.Fprint(s.out, dim+Safe(text)+plain)
	s.fresh = strings.HasSuffix(text, "\n")
}

// Note prints what Lomi says of itself, on a line of its own.
func (s *Screen) Note(sign, text string) {
	s.newline()
	for i, l := range strings.Split(strings.TrimRight(Safe(text), "\n"), "\n") {
		if i > 0 {
			sign = " "
		}
		fmt.Fprintf(s.out, "%s%s %s%s\n", dim, sign, s.fit(l), plain)
	}
}

// Block prints what a person decides about, whole: nothing of it is cut to the
// width of the terminal.
func (s *Screen) Block(text string) {
	s.newline()
	for l := range strings.SplitSeq(strings.TrimRight(Safe(text), "\n"), "\n") {
		fmt.Fprintf(s.out, "  %s\n", l)
	}
}

// Failure prints an error on a line of its own.
func (s *Screen) Failure(text string) {
	s.newline()
	fmt.Fprintf(s.out, "%s! %s%s\n", bold, Safe(text), plain)
}

func (s *Screen) newline() {
	if !s.fresh {
		fmt.Fprintln(s.out)
	}
	s.fresh = true
}

// fit cuts a line to the terminal's width.
func (s *Screen) fit(l string) string {
	width, _, err := term.GetSize(int(s.in.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	if r := []rune(l); len(r) > width-3 {
		return string(r[:width-4]) + "…"
	}
	return l
}

// Safe makes text of others harmless to a terminal: every control character
// but newline and tab is replaced, so are the ones that turn the writing round.
func Safe(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return -1
		case r < 0x20, r >= 0x7f && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '\uFFFD'
		}
		return r
	}, text)
}
