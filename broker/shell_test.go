package broker

import (
	"bytes"
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// bashWords asks a real bash which words it makes of a line. The shell is
// restricted, has no PATH and no environment, and stands in an empty folder,
// so that a line which parseSimple lets through by mistake does nothing.
func bashWords(t *testing.T, dir, line string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-r", "-c", `printf '%s\0' `+line)
	cmd.Dir, cmd.Env = dir, []string{"PATH="}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bash on %q: %v", line, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// FuzzParseSimple holds the parser against the shell itself: whatever it takes
// for one command of literal words, bash takes for the very same words.
func FuzzParseSimple(f *testing.F) {
	for _, line := range []string{
		"ls -la src", "npm test", "'npm' test", `cat "a b.txt"`, "cat 'a b'c\"d e\"", "echo a=b --x=y", "echo 'a;b' \"c|d\" 'e>f'",
		"pytest 'a b'", "echo ''", "echo \"\" x", "echo @a,b:c%d+e", "echo '$HOME' '*' '{a,b}'", "ls;x", "ls $(x)", "ls *", "a=b c",
		"echo -- -x", "echo \u00e9\u6f22", "  ls   -l  ", "ls\t-l",
	} {
		f.Add(line)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, line string) {
		words, ok := parseSimple(line)
		if !ok {
			return
		}
		if got := bashWords(t, dir, line); !slices.Equal(got, words) {
			t.Errorf("parseSimple(%q) = %q, bash says %q", line, []string(words), got)
		}
		rule, ok := commandRule(line)
		if ok && !ruleCovers([]string{rule}, line) {
			t.Errorf("rule %q does not cover the line %q it was made from", rule, line)
		}
		if again, ok := parseSimple(strings.Join(quoteAll(words), " ")); rule != "" && (!ok || !slices.Equal(again, words)) {
			t.Errorf("the words %q of rule %q read back as %q", []string(words), rule, []string(again))
		}
	})
}

// What the tables take for harmless is one command to bash too.
func TestBashAgreesOnHarmlessLines(t *testing.T) {
	dir := t.TempDir()
	for _, line := range []string{"ls", "ls -la", "pwd", "cat README.md", "cat 'a b.txt'", "wc -l go.mod", "echo hello world", "true"} {
		if !readsOnly(line) {
			t.Errorf("%q asks", line)
		}
		words, _ := parseSimple(line)
		if got := bashWords(t, dir, line); !slices.Equal(got, words) {
			t.Errorf("%q: bash says %q", line, got)
		}
	}
	if bytes.Contains([]byte(strings.Join(bashWords(t, dir, "a b"), "")), []byte{0}) {
		t.Error("the shell's words were not split")
	}
}
