package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	lomi "lomi/cmd/lomi"
)

// patience bounds every wait for something that will come: long, because the
// machine may do other work, and only reached by a test that fails.
const patience = 60 * time.Second

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"lomi": lomi.Main})
}

// suite keeps the folder of what is built once for all tests.
type suite struct{ m *testing.M }

// Run implements testscript.TestingM.
func (s suite) Run() int {
	dir, err := os.MkdirTemp("", "lomi-program-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = sync.OnceValues(func() (string, error) {
		path := filepath.Join(dir, "lomi")
		out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("building lomi: %w\n%s", err, out)
		}
		return path, nil
	})
	return s.m.Run()
}

// program builds lomi as a user has it, once.
var program func() (string, error)

func build(t testing.TB) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// until asks again and again until what is asked for is so. It fails the test
// after patience.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	if !within(patience, so) {
		t.Fatalf("after %v still not: %s", patience, what)
	}
}

// within reports whether something becomes so in time.
func within(limit time.Duration, so func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if so() {
			return true
		}
		select {
		case <-ctx.Done():
			return so()
		case <-tick.C:
		}
	}
}

// output collects what a process writes while others read it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// ran is how a program ended.
type ran struct {
	stdout, stderr string
	code           int
}

// runIn runs a program in a folder to its end. Name is looked up in PATH.
func runIn(t testing.TB, dir string, environment []string, stdin io.Reader, name string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	if environment != nil {
		cmd.Env = environment
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("running %s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return ran{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}
