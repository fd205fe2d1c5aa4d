// Command lomi is the daemon with its page, the helper that external MCP hosts
// start, and the command line of both. It holds flags, one wiring table and
// signals; what they do is in the rooms.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"lomi/internal/keeper"
)

// version is set by the build.
var version = "dev"

// Exit codes; scripts rely on them.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNoDaemon = 3
	exitDenied   = 4
)

// env is what a command may touch of the process, so that tests can run one.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
}

// command is one entry of the table below.
type command struct {
	name  string
	usage string // after the name
	about string
	run   func(ctx context.Context, e env, args []string) error
}

func commands() []command {
	return []command{
		{"serve", "[--data DIR] [--config DIR] [--listen 127.0.0.1:7717] [--no-open] [--ready-file FILE] [--yolo] [--decide page|terminal] [--new-ledger]", "run the daemon and its page", serve},
		{"mcp", "[--data DIR] | [--discovery-file FILE --discovery-key HEX]  [--label NAME]", "serve the tools to an MCP host on stdio", mcp},
		{"chat", "[--model CONNECTION/MODEL] [--project DIR] [--domains terminal,browser] [--origins a,b] [--approve ask|grant|deny] [--conversation ID] [--json] [-p TEXT]", "talk in the terminal", chatCommand},
		{"open", "[--revoke]", "print a one-time login link for the page; --revoke ends every older login", open},
		{"pair", "list | approve ID [--scopes a,b] [--domains a,b] [--workspaces a,b] [--origins a,b] [--policy NAME] | reject ID", "decide who may connect", pair},
		{"approve", "list | yes ID | no ID", "answer what waits for you", approve},
		{"session", "list | revoke ID | policy ID grant|ask_for_risk|ask_always | stop | resume", "see and end what is connected", session},
		{"receipt", "list [--session ID] [--state S] [--limit N] | show ID", "see what was done", receipt},
		{"model", "list | show CONNECTION/MODEL | pull CONNECTION/MODEL | connect NAME --kind KIND --url URL [--key-stdin] | disconnect NAME", "see and connect models", model},
		{"conversation", "list | show ID | search TEXT | delete ID", "see and search conversations", conversation},
		{"catalog", "[--short] [--json] [--tokens]", "list the tools", catalogCommand},
		{"doctor", "[--json]", "check what this machine has", doctor},
		{"version", "[--json]", "print the version", versionCommand},
	}
}

func main() {
	// A keeper is this program again: it must not read flags, open folders or
	// catch signals before it is one.
	if len(os.Args) > 1 && os.Args[1] == keeper.Arg {
		os.Exit(keeper.Main(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, env{os.Stdin, os.Stdout, os.Stderr, os.Getenv}, os.Args[1:])
	stop()
	os.Exit(code)
}

// run carries one command out and reports its failure: one line "lomi: what
// went wrong", then hints, on stderr.
func run(ctx context.Context, e env, args []string) int {
	name, rest := "serve", args
	switch {
	case len(args) > 0 && args[0] == "--mcp":
		name, rest = "mcp", args[1:]
	case len(args) > 0 && slices.Contains([]string{"help", "-h", "--help"}, args[0]):
		if i := slices.IndexFunc(commands(), func(c command) bool { return len(args) > 1 && c.name == args[1] }); i >= 0 {
			commands()[i].help(e.stdout)
		} else {
			help(e.stdout)
		}
		return exitDone
	case len(args) > 0 && args[0] == "--version":
		name, rest = "version", args[1:]
	case len(args) > 0 && !strings.HasPrefix(args[0], "-"):
		name, rest = args[0], args[1:]
	}
	i := slices.IndexFunc(commands(), func(c command) bool { return c.name == name })
	if i < 0 {
		return report(e, usagef("there is no command %q", name).withHint("lomi help lists the commands"))
	}
	err := commands()[i].run(ctx, e, rest)
	if errors.Is(err, flag.ErrHelp) {
		commands()[i].help(e.stdout)
		return exitDone
	}
	return report(e, err)
}

func help(w io.Writer) {
	fmt.Fprint(w, "Lomi: chat with a model that works in your terminals and browser, with your grant.\n\n")
	for _, c := range commands() {
		c.help(w)
	}
	fmt.Fprint(w, "\nEvery command takes --data DIR and --config DIR; every list and show takes --json.\n"+
		"lomi alone is lomi serve. Exit codes: 0 done, 1 failed, 2 usage, 3 no daemon, 4 denied.\n")
}

func (c command) help(w io.Writer) {
	fmt.Fprintf(w, "  lomi %s\n      %s\n", strings.TrimSpace(c.name+" "+c.usage), c.about)
}

// failure is an error with an exit code and hints.
type failure struct {
	code   int
	text   string
	hints  []string
	status int // HTTP, when the daemon refused
}

// Error implements error.
func (f *failure) Error() string { return f.text }

func (f *failure) withHint(hint string) *failure {
	f.hints = append(f.hints, hint)
	return f
}

func usagef(format string, args ...any) *failure {
	return &failure{code: exitUsage, text: fmt.Sprintf(format, args...)}
}

func failf(format string, args ...any) *failure {
	return &failure{code: exitFailed, text: fmt.Sprintf(format, args...)}
}

// errShown ends a command whose failure was already printed.
var errShown = errors.New("shown")

func report(e env, err error) int {
	if err == nil {
		return exitDone
	}
	if errors.Is(err, errShown) {
		return exitFailed
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{code: exitFailed, text: err.Error()}
	}
	fmt.Fprintln(e.stderr, "lomi: "+f.text)
	for _, h := range f.hints {
		fmt.Fprintln(e.stderr, "hint: "+h)
	}
	return f.code
}
