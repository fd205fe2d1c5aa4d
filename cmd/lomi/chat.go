package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/term"

	"lomi/cmd/lomi/tui"
)

// chatFlags are the flags of lomi chat.
type chatFlags struct {
	*options
	model, project, conversation, approve, text string
	domains, origins                            []string
}

// chatCommand is a conversation in the terminal: one turn with -p, a prompt
// without. It is a client of the daemon like the page.
func chatCommand(ctx context.Context, e env, args []string) error {
	fs, o := flags("chat", e)
	c := chatFlags{options: o}
	var domains, origins string
	fs.StringVar(&c.model, "model", "", "the `model`, as CONNECTION/MODEL")
	fs.StringVar(&c.project, "project", "", "the project `folder`; default the current one")
	fs.StringVar(&domains, "domains", "terminal,browser", "the tools to offer")
	fs.StringVar(&origins, "origins", "", "origins that the browser may open without asking")
	fs.StringVar(&c.approve, "approve", "ask", "ask, grant or deny what the turn asks")
	fs.StringVar(&c.conversation, "conversation", "", "go on with this conversation")
	fs.StringVar(&c.text, "p", "", "say this, print the answer, and end")
	words, err := parse(fs, o, e, args)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return usagef("lomi chat takes no word %q", words[0]).withHint("say something with -p TEXT")
	}
	if !slices.Contains([]string{"ask", "grant", "deny"}, c.approve) {
		return usagef("--approve is ask, grant or deny")
	}
	c.domains, c.origins = list(domains), list(origins)
	if c.project == "" {
		if c.project, err = os.Getwd(); err != nil {
			return failf("the current folder is not there: %v", err).withHint("name one with --project DIR")
		}
	}
	if c.project, err = filepath.Abs(c.project); err != nil {
		return failf("no such folder: %v", err)
	}
	a := newAdmin(o.data)
	t := &talk{admin: a, flags: c, env: e}
	if c.text == "" {
		if o.json {
			return usagef("--json needs -p TEXT")
		}
		if !isTerminal(e.stdin) {
			return usagef("there is no terminal to talk in").withHint("say something with -p TEXT")
		}
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	if c.text != "" {
		return t.once(ctx)
	}
	return t.loop(ctx)
}

func isTerminal(r any) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// once says one thing and ends with its turn: 0 only for end_turn.
func (t *talk) once(ctx context.Context) error {
	var show printer = &plainPrinter{out: t.env.stdout, err: t.env.stderr, answers: t.flags.approve != "ask"}
	if t.flags.json {
		show = &jsonPrinter{out: t.env.stdout, conversation: t.id}
	}
	stop, err := t.turn(ctx, t.flags.text, show)
	if err != nil {
		return err
	}
	if stop != "end_turn" {
		if t.flags.json {
			return errShown
		}
		return failf("the turn ended with %s", stop)
	}
	return nil
}

// loop is the conversation at a prompt.
func (t *talk) loop(ctx context.Context) error {
	// Ctrl+C is for the turn, or for the prompt, never for the whole program:
	// main's own context ends with it, and must not end the conversation.
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()
	screen := tui.New(t.env.stdin.(*os.File), t.env.stdout)
	t.screen = screen
	screen.Welcome(t.model, t.flags.project, t.id)
	for {
		text, err := screen.Prompt(ctx)
		if errors.Is(err, tui.ErrQuit) || ctx.Err() != nil {
			screen.Goodbye(t.id)
			return nil
		}
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		// Ctrl+C in a turn stops the turn and keeps the conversation.
		if _, err := t.turn(ctx, text, &screenPrinter{screen: screen}); err != nil {
			if f, ok := errors.AsType[*failure](err); ok && f.code == exitNoDaemon {
				return err
			}
			screen.Failure(err.Error())
		}
	}
}
