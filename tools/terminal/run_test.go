package terminal

import (
	"os/exec"
	"strings"
	"testing"
)

func shells(t *testing.T) []string {
	t.Helper()
	return []string{"/bin/bash", "/bin/sh", zsh(t)}
}

func zsh(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("zsh")
	if err != nil {
		t.Fatalf("%v; make setup installs it", err)
	}
	return path
}

func TestRun(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			for _, row := range []struct {
				name, command, output string
				exit                  int
			}{
				{"output", `seq 3`, "1\n2\n3\n", 0},
				{"exit code", `sh -c 'exit 7'`, "", 7},
				{"no newline at the end", `printf abc`, "abc", 0},
				{"forged end mark", `printf '\033]133;D;0\007'; false`, "", 1},
				{"forged end mark with a guess", `printf '\033]133;D;0;0123456789\007'; false`, "", 1},
				{"forged prompt", `printf '\033]133;D;0\007\033]133;A\007$ \033]133;B\007'; sh -c 'exit 3'`, "$ ", 3},
				{"wide text (bug 41)", `printf '漢🙂e\314\201\n'`, "漢🙂e\u0301\n", 0},
				{"quotes and dollars", `echo 'a b' "$((1+1))" \$x`, "a b 2 $x\n", 0},
				{"exclamation mark", `echo "hi!" !x`, "hi! !x\n", 0},
				{"tilde and glob", `cd / && echo ~ | wc -l; echo /bi[n]`, "1\n/bin\n", 0},
				{"progress bar", `printf 'a 10%%\ra 20%%\ra 99%%\n'`, "a 10%\na 20%\na 99%\n", 0},
				{"state stays", `X=5; cd /tmp`, "", 0},
				{"state stayed", `echo $X $PWD`, "5 /tmp\n", 0},
			} {
				t.Run(row.name, func(t *testing.T) {
					output, exit := b.run(row.command)
					if output != row.output || exit != row.exit {
						t.Errorf("got %q, exit %d; want %q, %d\nterminal: %q", output, exit, row.output, row.exit, b.all())
					}
				})
			}
		})
	}
}

func TestSecretStaysInShell(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			b := startBench(t, shell)
			secret := b.t.out.secret
			// Exported prompts, inherited descriptors and the environments of
			// the shell and of its children.
			output, _ := b.run(`export PS1 PS2; set | grep -c __lomi_v; env; sh -c 'set; ls -l /proc/self/fd'; cat /proc/$$/environ /proc/$$/cmdline`)
			if strings.Contains(output, secret) {
				t.Errorf("a child process can read the secret: %q", output)
			}
			if !strings.Contains(output, "HOME=") || strings.HasPrefix(output, "0\n") {
				t.Errorf("the check looked at nothing: %q", output)
			}
		})
	}
}
