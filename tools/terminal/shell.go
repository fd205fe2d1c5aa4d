package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lomi/internal/keeper"
)

// shell is how one kind of shell is started with its integration: marks at
// prompts and commands, each with a secret that the shell holds in an
// unexported variable. No file of the user is touched, and none holds the
// secret: the shell reads it from descriptor 3, a pipe that is drained before
// any other program runs.
type shell struct {
	path   string
	args   []string
	env    []string // added to the user's
	script string   // for descriptor 3
	dir    string   // a folder to remove when the shell has ended, or empty
	// canonical shells have no line editor: the terminal's own line buffer
	// holds 4095 bytes.
	canonical bool
	// silent shells report 0 for a loop that Ctrl+C broke.
	silent bool
}

// pickShell finds the program: the user's shell where we know its kind, else
// bash, else sh.
func pickShell(wanted string) (path, kind string) {
	switch kind := strings.TrimPrefix(filepath.Base(wanted), "-"); kind {
	case "bash", "zsh", "sh", "dash", "ash":
		if path, err := exec.LookPath(wanted); err == nil {
			return path, kind
		}
	}
	if path, err := exec.LookPath("bash"); err == nil {
		return path, "bash"
	}
	return "/bin/sh", "sh"
}

// newShell prepares the shell at wanted with the given secret.
func newShell(wanted, secret string, env []string) (*shell, error) {
	path, kind := pickShell(wanted)
	s := &shell{path: path}
	switch kind {
	case "bash":
		s.args = []string{"--rcfile", "/dev/fd/3", "-i"}
		s.script = strings.ReplaceAll(bashScript, "SECRET", secret)
	case "zsh":
		dir, err := os.MkdirTemp("", "lomi-zsh-*")
		if err != nil {
			return nil, fmt.Errorf("preparing zsh: %w", err)
		}
		s.dir, s.silent = dir, true
		s.args = []string{"-i"}
		s.env = []string{"ZDOTDIR=" + dir, "USER_ZDOTDIR=" + lookup(env, "ZDOTDIR")}
		s.script = secret + "\n"
		for name, text := range map[string]string{".zshenv": zshEnv, ".zshrc": zshRC} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				s.cleanUp()
				return nil, fmt.Errorf("preparing zsh: %w", err)
			}
		}
	default:
		s.canonical = true
		s.args = []string{"-i"}
		s.env = []string{"ENV=/dev/fd/3"}
		s.script = strings.NewReplacer("SECRET", secret, "ESC", "\x1b", "BEL", "\a", "USERENV", quote(lookup(env, "ENV"))).Replace(shScript)
	}
	return s, nil
}

func (s *shell) cleanUp() {
	if s.dir != "" {
		os.RemoveAll(s.dir)
	}
}

func lookup(env []string, name string) string {
	value := ""
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// shellEnv is the user's environment as a new terminal should have it: no
// other terminal's identity, and UTF-8, which the page speaks.
func shellEnv(env []string, extra []string) []string {
	foreign := []string{"TMUX", "TMUX_PANE", "STY", "WINDOWID", "VTE_VERSION", "TERM_PROGRAM", "TERM_PROGRAM_VERSION",
		"TERM", "COLORTERM", "COLUMNS", "LINES", "PS0", "PROMPT_COMMAND", "SHELL_SESSION_ID", "TERM_SESSION_ID"}
	clean := slices.DeleteFunc(keeper.CleanEnv(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		// Of a name that stands there twice, zsh takes the first.
		return slices.Contains(foreign, name) || slices.ContainsFunc(extra, func(e string) bool { return strings.HasPrefix(e, name+"=") })
	})
	clean = append(clean, "TERM=xterm-256color", "COLORTERM=truecolor", "TERM_PROGRAM=lomi")
	if lookup(clean, "LC_ALL") == "" && lookup(clean, "LC_CTYPE") == "" && lookup(clean, "LANG") == "" {
		clean = append(clean, "LANG=C.UTF-8")
	}
	return append(clean, extra...)
}
