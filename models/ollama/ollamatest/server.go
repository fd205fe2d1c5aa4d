// Package ollamatest runs a real Ollama server for tests and makes models for
// it whose answers a test chooses. No weights are downloaded: the model file is
// a lookup table in the shape of a qwen3 network.
package ollamatest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ollama/ollama/api"
)

const (
	// buildLimit is for the first run on a machine, which builds Ollama.
	buildLimit = 30 * time.Minute
	readyLimit = 60 * time.Second
	stopLimit  = 10 * time.Second
)

// Server is a running Ollama.
type Server struct {
	// Address is http://127.0.0.1:PORT.
	Address string

	client *api.Client
	log    *tail
}

// Start starts an Ollama of its own: port, home, models. It ends with the test,
// with all its children. The binary is found or built by the project's setup
// script; a machine where that is impossible fails the test, it never skips.
func Start(tb testing.TB) *Server {
	tb.Helper()
	binary := findBinary(tb)
	var err error
	for range 3 { // another process may take the port between choosing and using it
		var s *Server
		if s, err = start(tb, binary, freePort(tb)); err == nil {
			return s
		}
	}
	tb.Fatal(err)
	return nil
}

func start(tb testing.TB, binary, host string) (*Server, error) {
	tb.Helper()
	home := tb.TempDir()
	s := &Server{Address: "http://" + host, log: &tail{}}
	base, err := url.Parse(s.Address)
	if err != nil {
		return nil, err
	}
	s.client = api.NewClient(base, &http.Client{Transport: &http.Transport{Proxy: nil}})
	cmd := exec.Command(binary, "serve")
	cmd.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "OLLAMA_HOST=" + host, "OLLAMA_MODELS=" + filepath.Join(home, "models"),
		"OLLAMA_NUM_PARALLEL=1", "OLLAMA_MAX_LOADED_MODELS=2", "OLLAMA_NOPRUNE=1",
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its runners are children to be ended too
	cmd.WaitDelay = stopLimit
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting Ollama: %w", err)
	}
	exited := make(chan struct{})
	go func() { // ends with the process, which stop ends
		cmd.Wait()
		close(exited)
	}()
	stop := func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-exited
	}
	if err := s.await(exited); err != nil {
		stop()
		return nil, fmt.Errorf("%w\n%s", err, s.log)
	}
	tb.Cleanup(func() {
		stop()
		if tb.Failed() {
			tb.Logf("the last of Ollama's log:\n%s", s.log)
		}
	})
	return s, nil
}

// await returns when the server answers.
func (s *Server) await(exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		if _, err := s.client.Version(ctx); err == nil {
			return nil
		}
		select {
		case <-exited:
			return errors.New("the server ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("no answer from the server within %v", readyLimit)
		case <-ticker.C:
		}
	}
}

// template writes a token for the length of the conversation where the answer
// begins, and the same token before that answer in later prompts, so that each
// prompt begins with the one before.
const template = `{{- if .Tools }}<tools>{{ range .Tools }}
{{ json . }}{{ end }}
</tools>
{{ end }}
{{- range $i, $m := .Messages }}
{{- if eq .Role "assistant" }}<|turn_{{ $i }}|>{{ else }}<|im_start|>{{ .Role }}
{{ end }}{{ .Content }}
{{- range .ToolCalls }}
<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ json .Function.Arguments }}}
</tool_call>
{{- end }}<|im_end|>
{{ end }}<|turn_{{ len .Messages }}|>`

// Create makes a model that speaks the script. Making it again under the same
// name replaces it.
func Create(tb testing.TB, s *Server, name string, script Script) {
	tb.Helper()
	var model bytes.Buffer
	if err := WriteModel(&model, script); err != nil {
		tb.Fatalf("making the model %s: %v", name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyLimit)
	defer cancel()
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(model.Bytes()))
	if err := s.client.CreateBlob(ctx, digest, bytes.NewReader(model.Bytes())); err != nil {
		tb.Fatalf("giving Ollama the model %s: %v\n%s", name, err, s.log)
	}
	last := ""
	err := s.client.Create(ctx, &api.CreateRequest{
		Model: name, Files: map[string]string{"model.gguf": digest}, Template: template, Parser: "qwen3",
		Parameters: map[string]any{"temperature": 0, "stop": []string{"<|im_end|>"}},
	}, func(p api.ProgressResponse) error {
		last = p.Status
		return nil
	})
	if err != nil || last != "success" {
		tb.Fatalf("creating the model %s: %v, ended with %q\n%s", name, err, last, s.log)
	}
}

// findBinary runs the setup script of the project.
func findBinary(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), buildLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(moduleRoot(tb), "internal", "setup", "ollama.sh"))
	log := &tail{}
	cmd.Stderr = log
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("finding or building Ollama: %v\n%s", err, log)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// moduleRoot walks up from the test's folder to the one with go.mod.
func moduleRoot(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			tb.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

func freePort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// tail keeps the last part of what is written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

var _ io.Writer = (*tail)(nil)

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const keep = 8 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if len(t.last) > 2*keep {
		t.last = append(t.last[:0], t.last[len(t.last)-keep:]...)
	}
	return len(p), nil
}

// String returns what is kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}
