package terminal

import (
	"strings"
	"testing"

	"lomi/broker/control"
)

// A line that runs nothing, or a command that removes the shell's hooks, must
// not leave a run that is waited for until tomorrow and blocks the next one.
func TestALineThatRunsNothingEnds(t *testing.T) {
	for _, shell := range []string{"bash", "zsh"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			b := startBench(t, shell)
			if shell == "zsh" { // where comments are off unless asked for
				if _, exit := b.run("setopt interactive_comments"); exit != 0 {
					t.Fatal(exit)
				}
			}
			b.run("false")
			got := b.runWith("# nothing", freePermit())
			if got.State != control.StateFailed || got.Effect != control.EffectNone {
				t.Errorf("a comment: %+v", got.Result)
			}
			if output, exit := b.run("echo after"); exit != 0 || !strings.Contains(output, "after") {
				t.Errorf("the next run: %q, %d", output, exit)
			}
		})
	}
}

func TestARunWithoutItsHooksEnds(t *testing.T) {
	t.Parallel()
	b := startBench(t, "bash")
	got := b.runWith("unset PROMPT_COMMAND PS0; PS1='$ '", freePermit())
	if got.State != control.StateOutcomeUnknown || !strings.Contains(got.Message, "lost its integration") {
		t.Errorf("got %+v", got.Result)
	}
}

func TestTheShellsOwnEndIsTold(t *testing.T) {
	t.Parallel()
	b := startBench(t, "bash")
	got := b.runWith("exit 7", freePermit())
	if got.State != control.StateOutcomeUnknown || !strings.Contains(got.Message, "exit code 7") {
		t.Errorf("got %+v", got.Result)
	}
}
