package main_test

import (
	"bufio"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestScripts runs the stories of the command line. Each has folders of its
// own, found by the environment as a user's are.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			for name, value := range map[string]string{
				"HOME": e.WorkDir, "XDG_DATA_HOME": filepath.Join(e.WorkDir, "share"), "XDG_CONFIG_HOME": filepath.Join(e.WorkDir, "settings"),
				"SHELL": "/bin/bash", "OLLAMA_HOST": "127.0.0.1:9", // where nothing answers
			} {
				e.Setenv(name, value)
			}
			e.Values[tbKey{}] = e.T()
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": scriptServe, "site": scriptSite, "host": scriptHost, "exits": scriptExits, "grab": scriptGrab,
		},
	})
}

type tbKey struct{}

// scriptServe is `serve [flags]`: it starts a daemon on the story's folders,
// which stops with the story, and sets URL and DAEMON, its pid.
func scriptServe(ts *testscript.TestScript, neg bool, args []string) {
	refuse(ts, neg)
	binary, err := exec.LookPath("lomi")
	ts.Check(err)
	d := &daemon{
		t: ts.Value(tbKey{}).(testing.TB), binary: binary, data: filepath.Join(ts.Getenv("XDG_DATA_HOME"), "lomi"),
		config: filepath.Join(ts.Getenv("XDG_CONFIG_HOME"), "lomi"), project: ts.Getenv("WORK"), args: args, seen: map[int]process{},
	}
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "SHELL", "OLLAMA_HOST"} {
		d.env = append(d.env, name+"="+ts.Getenv(name))
	}
	d.start()
	ts.Defer(d.stop)
	ts.Setenv("URL", d.ready.URL)
	ts.Setenv("DAEMON", strconv.Itoa(d.ready.PID))
}

// scriptSite is `site`: it serves one page on loopback and sets SITE.
func scriptSite(ts *testscript.TestScript, neg bool, _ []string) {
	refuse(ts, neg)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<!doctype html><title>A small site</title><h1>Welcome</h1>")
	}))
	ts.Defer(site.Close)
	ts.Setenv("SITE", site.URL+"/")
}

// scriptHost is `host LABEL`: an MCP host in a session of its own, as another
// terminal of the person is, asks for a pairing. The host is a shell below the
// session's leader, so that it can be told from the person's own. It sets
// PAIRING.
func scriptHost(ts *testscript.TestScript, neg bool, args []string) {
	refuse(ts, neg)
	cmd := exec.Command("sh", "-c", `sh -c 'lomi mcp --label "$0"; exit' "$0"; exit`, args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	stdin, err := cmd.StdinPipe()
	ts.Check(err)
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		stdin.Close()
		cmd.Wait()
	})
	_, err = io.WriteString(stdin, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"story","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lomi_status","arguments":{}}}
`)
	ts.Check(err)
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		ts.Check(err)
		if found := regexp.MustCompile(`"pairingRequestId":"([0-9a-f]+)"`).FindStringSubmatch(line); found != nil {
			ts.Setenv("PAIRING", found[1])
			return
		}
		if strings.Contains(line, `"id":2`) {
			ts.Fatalf("no pairing request in %s", line)
		}
	}
}

// scriptExits is `exits CODE program …`: like exec, for one exact exit code.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	refuse(ts, neg)
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if args[0] != strconv.Itoa(code) {
		ts.Fatalf("%s ended with %d, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// scriptGrab is `grab NAME REGEXP`: it sets a variable to what the first group
// finds in the last standard output.
func scriptGrab(ts *testscript.TestScript, neg bool, args []string) {
	refuse(ts, neg)
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("the output has nothing like %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func refuse(ts *testscript.TestScript, neg bool) {
	if neg {
		ts.Fatalf("this command takes no !")
	}
}
