package terminal

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lomi/broker"
	"lomi/broker/control"
)

func TestPickShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	odd := filepath.Join(t.TempDir(), "fish")
	if err := os.Symlink("/bin/true", odd); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ wanted, path, kind string }{
		{"/bin/bash", "/bin/bash", "bash"},
		{"/bin/sh", "/bin/sh", "sh"},
		{zsh(t), zsh(t), "zsh"},
		{odd, bash, "bash"}, // no integration for it: the user's bash instead
		{"/nowhere/zsh", bash, "bash"},
		{"", bash, "bash"},
	} {
		if path, kind := pickShell(row.wanted); path != row.path || kind != row.kind {
			t.Errorf("%q: got %s (%s), want %s (%s)", row.wanted, path, kind, row.path, row.kind)
		}
	}
}

// zshFiles are a user's files with everything in them that the integration
// also touches.
const (
	zshenvFile = `export SEEN_ENV=yes
`
	zshrcFile = `setopt prompt_subst ksh_arrays sh_word_split all_export nounset extended_history
PROMPT='%F{green}mine $count>%f '
RPROMPT='right'
PS2='more> '
count=0
precmd() { last=$?; count=$((count+1)) }
other_precmd() { seen=$seen+ }
seen=
precmd_functions=(other_precmd)
preexec() { started="$1" }
zle-line-init() { inits=$((${inits:-0}+1)) }
zle -N zle-line-init
alias hi='echo hello'
HISTFILE=$HOME/.zsh_history HISTSIZE=100 SAVEHIST=100
`
)

func startZsh(t *testing.T, files map[string]string, env ...string) *bench {
	t.Helper()
	b := newBench(t, zsh(t), env...)
	for name, text := range files {
		path := filepath.Join(b.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return b.open()
}

func TestZshUserFiles(t *testing.T) {
	files := map[string]string{".zshenv": zshenvFile, ".zshrc": zshrcFile}
	b := startZsh(t, files)
	for _, row := range []struct {
		command, output string
		exit            int
	}{
		{`hi; false`, "hello\n", 1},
		{`echo $last $SEEN_ENV ${ZDOTDIR-unset} ${USER_ZDOTDIR-unset}`, "1 yes unset unset\n", 0},
		{`echo $started; sh -c 'exit 9'`, "echo $started; sh -c 'exit 9'\n", 9},
		{`echo $((count > 3)) $((${#seen} > 3)) $((inits > 3))`, "1 1 1\n", 0}, // once a prompt, all three
		{`a='x y'; for w in $a; do echo $w; done`, "x\ny\n", 0},                // sh_word_split stayed on
		{`b=(1 2); echo ${b[0]}`, "1\n", 0},                                    // and ksh_arrays
		{`echo "hi!" !x`, "hi! !x\n", 0},
		{`print -r -- "$PROMPT|$RPROMPT|$PS2"`, "%F{green}mine $count>%f |right|more> \n", 0},
	} {
		if output, exit := b.run(row.command); output != row.output || exit != row.exit {
			t.Errorf("%s: got %q, %d; want %q, %d", row.command, output, exit, row.output, row.exit)
		}
	}
	b.ready()
	if text := b.screen().Text; !strings.Contains(text, "mine ") || !strings.Contains(text, "right") {
		t.Errorf("the user's prompt is gone: %q", text)
	}
	output, _ := b.run("env; sh -c env")
	if strings.Contains(output, b.t.out.secret) || strings.Contains(output, "*****") || strings.Contains(output, "__lomi") {
		t.Errorf("ours is exported: %q", output)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(b.home, name)); err != nil || string(got) != want {
			t.Errorf("%s was changed: %q, %v", name, got, err)
		}
	}
	dir := b.t.shell.dir
	b.runWith("exit", freePermit())
	if history, err := os.ReadFile(filepath.Join(b.home, ".zsh_history")); err != nil || !strings.Contains(string(history), ";hi; false\n") {
		t.Errorf("history %q, %v", history, err)
	}
	b.eventually("our folder is gone", func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) })
}

func TestZshFolderOfFiles(t *testing.T) { // ZDOTDIR, from outside and from .zshenv
	for name, row := range map[string]struct {
		files map[string]string
		env   []string
	}{
		"none":         {map[string]string{}, nil},
		"in .zshenv":   {map[string]string{".zshenv": "ZDOTDIR=$HOME/z\n", "z/.zshrc": "own=z\n"}, nil},
		"changed late": {map[string]string{".zshenv": "own=z\n", ".zshrc": "ZDOTDIR=$HOME/z\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := startZsh(t, row.files, row.env...)
			want := "z " + filepath.Join(b.home, "z") + "\n"
			if name == "none" {
				want = "none none\n"
			}
			if output, _ := b.run(`echo ${own-none} ${ZDOTDIR-none}`); output != want {
				t.Errorf("got %q, want %q", output, want)
			}
		})
	}
	b := newBench(t, zsh(t))
	dir := filepath.Join(b.home, "elsewhere")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".zshrc"), []byte("own=there\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.m.cfg.Env = append(b.m.cfg.Env, "ZDOTDIR="+dir)
	b.open()
	if output, _ := b.run(`echo $own $ZDOTDIR; sh -c 'echo $ZDOTDIR'`); output != "there "+dir+"\n"+dir+"\n" {
		t.Errorf("got %q", output)
	}
}

// What a user does later to prompts, hooks and options keeps the marks.
func TestZshLaterChanges(t *testing.T) {
	b := startZsh(t, nil)
	for _, command := range []string{
		`PROMPT='other> '`, `PS1=`, `precmd() { echo from precmd; false }`, `precmd_functions+=(nothing_like_it)`,
		`zle-line-init() { :; }; zle -N zle-line-init`,
		`autoload -Uz add-zle-hook-widget; w() { inits=$((${inits:-0}+1)) }; zle -N w; add-zle-hook-widget line-init w`,
		`setopt xtrace`, `unsetopt xtrace`, `setopt ksh_arrays sh_word_split nounset`, `setopt err_return no_prompt_percent`,
		`trap 'echo debug' DEBUG`, `trap - DEBUG`, `bindkey -v`, `IFS=3`, `unset TTY`,
	} {
		b.run(command)
		if output, exit := b.run(`sh -c 'exit 5'`); exit != 5 {
			t.Errorf("after %s: %q, %d; terminal %q", command, output, exit, b.all())
		}
	}
	if output, _ := b.run(`echo $((inits > 3))`); !strings.HasPrefix(output, "1\n") {
		t.Errorf("the widget that came later is not called: %q", output)
	}
}

// The line editor at work in a running command is not a prompt.
func TestZshEditsVariable(t *testing.T) {
	b := startZsh(t, nil)
	done := b.startRun(`v=val; vared -p 'edit: ' v; echo "<$v>"`, "edit: ", freePermit())
	b.eventually("the editor shows the value", func() bool { return strings.Contains(b.screen().Text, "edit: val") })
	if prompt := b.output().Prompt; prompt != "running" {
		t.Errorf("prompt %q", prompt)
	}
	b.typeText("ue\n")
	if r := <-done; r.err != nil || r.State != "" || !strings.Contains(b.outputOf(b.operation()).Text, "<value>\n") {
		t.Errorf("got %+v, %v", r.Result, r.err)
	}
}

// A trace goes where the user sends it, and the secret must not.
func TestTraceHidesSecret(t *testing.T) {
	for _, shell := range []string{"/bin/bash", zsh(t)} {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			trace := filepath.Join(b.home, "trace")
			redirect := `exec 2>` + trace
			if shell == "/bin/bash" { // whose line editor draws to descriptor 2
				redirect = `exec 9>` + trace + `; BASH_XTRACEFD=9`
			}
			b.run(redirect + `; set -x`)
			b.run(`echo traced`)
			if got, err := os.ReadFile(trace); err != nil || !strings.Contains(string(got), "echo traced") || strings.Contains(string(got), b.t.out.secret) {
				t.Errorf("trace %q, %v", got, err)
			}
		})
	}
}

func TestPastedLines(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			b.typeText("echo o''ne\nfor i in 1 2\ndo echo l''$i\ndone\nsh -c 'exit 4'\n")
			b.eventually("all lines ran", func() bool {
				out := b.output()
				return strings.Contains(out.Text, "\none\n") && strings.Contains(out.Text, "l2\n") && out.Prompt == "ready"
			})
			b.ready()
			if output, exit := b.run(`echo $?`); output != "4\n" || exit != 0 {
				t.Errorf("got %q, %d; terminal %q", output, exit, b.all())
			}
		})
	}
}

// Stopped with Ctrl+Z, a command has ended as far as its shell is concerned.
func TestSuspend(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			done := b.startRun(`sleep 300`, "", freePermit())
			b.eventually("sleep runs", func() bool { return b.output().Foreground == "sleep" })
			b.press("ctrl_z")
			r := <-done
			if r.err != nil || r.State != control.StateFailed || !strings.Contains(r.Message, "148") {
				t.Errorf("got %+v, %v; want exit code 148", r.Result, r.err)
			}
			b.ready()
			if output, exit := b.run("kill %1; echo on"); !strings.Contains(output, "on\n") || exit != 0 {
				t.Errorf("got %q, %d", output, exit)
			}
		})
	}
}

// A loop without programs is interrupted too, and the shell stays itself.
func TestInterruptBuiltin(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			b.run(`X=5; cd /tmp`)
			cancel := make(chan struct{})
			done := b.startRun(`echo up; while :; do :; done`, "up\n", broker.NewPermit(func() error { return nil }, cancel))
			close(cancel)
			if r := <-done; r.err != nil || r.State != control.StateCancelled {
				t.Errorf("got %+v, %v; terminal %q", r.Result, r.err, b.all())
			}
			b.ready()
			if output, exit := b.run(`echo $X $PWD`); output != "5 /tmp\n" || exit != 0 {
				t.Errorf("got %q, %d", output, exit)
			}
		})
	}
}

// A shell that ends while it starts makes no terminal that seems to work.
func TestShellThatEndsAtOnce(t *testing.T) {
	b := newBench(t, zsh(t))
	if err := os.WriteFile(filepath.Join(b.home, ".zshrc"), []byte("exit 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	panel, err := b.m.Open(t.Context(), "w", "")
	if err != nil || panel.Runtime != "exited" {
		t.Errorf("got %+v, %v", panel, err)
	}
}

// stressed is how often each shell is interrupted while it starts a program.
const stressed = 50

// Ctrl+C right after the start reaches the program, whatever the shell is
// doing at that moment.
func TestInterruptAtStart(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			b := startBench(t, shell)
			for i := range stressed {
				command := []string{`sleep 300`, `echo up; sleep 300`, `sleep 300 | cat`, `cat | sleep 300`, `(sleep 300; echo no)`, `while sleep 0.02; do :; done`}[i%6]
				cancel := make(chan struct{})
				done := b.startRun(command, "", broker.NewPermit(func() error { return nil }, cancel))
				close(cancel)
				if r := <-done; r.err != nil || r.State != control.StateCancelled || r.Effect != control.EffectPartial {
					t.Fatalf("%d, %s: got %+v, %v; terminal %q", i, command, r.Result, r.err, b.all())
				}
				b.ready()
			}
		})
	}
}
