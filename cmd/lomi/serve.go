package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"lomi/broker/ledger"
	"lomi/internal/private"
	"lomi/tools/browser"
)

// stopTime is how long an orderly stop may take in all.
const stopTime = 5 * time.Second

// leastTime is what each part gets to stop, however late it is.
const leastTime = 300 * time.Millisecond

// serveFlags are the flags of lomi serve.
type serveFlags struct {
	*options
	listen, ready, decide string
	noOpen, yolo, verbose bool
	newLedger             bool
}

// ready is what --ready-file holds. Scripts rely on its names.
type ready struct {
	URL           string `json:"url"`
	LoginURL      string `json:"loginURL"`
	Socket        string `json:"socket"`
	AdminSocket   string `json:"adminSocket"`
	DiscoveryFile string `json:"discoveryFile"`
	DiscoveryKey  string `json:"discoveryKey"`
	InstanceID    string `json:"instanceId"`
	PID           int    `json:"pid"`
}

func serve(ctx context.Context, e env, args []string) error {
	fs, o := flags("serve", e)
	f := serveFlags{options: o}
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7717", "loopback `address` of the page")
	fs.BoolVar(&f.noOpen, "no-open", false, "do not open the page in a browser")
	fs.StringVar(&f.ready, "ready-file", "", "write a `file` when the daemon can serve")
	fs.BoolVar(&f.yolo, "yolo", false, "approve everything; for throw-away machines")
	fs.StringVar(&f.decide, "decide", "terminal", "where people decide: page or terminal")
	fs.BoolVar(&f.newLedger, "new-ledger", false, "set a receipt store that lost rows aside and begin a new one")
	fs.BoolVar(&f.verbose, "verbose", false, "log more")
	words, err := parse(fs, o, e, args)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		return usagef("lomi serve takes no word %q", words[0])
	}
	if f.decide != "page" && f.decide != "terminal" {
		return usagef("--decide is page or terminal")
	}
	if host, _, err := net.SplitHostPort(f.listen); err != nil {
		return usagef("--listen is an address and a port, such as 127.0.0.1:7717")
	} else if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usagef("the page is served on loopback only: --listen names 127.0.0.1, [::1] or localhost")
	}
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: level}))
	d, err := newDaemon(ctx, f, e, logger)
	if err != nil {
		return startFailure(err, f)
	}
	return d.run(ctx, func() error { return announce(ctx, e, f, d) })
}

// startFailure puts what keeps a daemon from starting into words with a hint.
func startFailure(err error, f serveFlags) error {
	if loss, ok := errors.AsType[*ledger.LossError](err); ok {
		return failf("the receipt store lost acknowledged rows: %v", loss).
			withHint("nothing was changed; look at " + filepath.Join(f.data, "agent-control")).
			withHint("put a newer copy back, or set it aside and begin anew with lomi serve --new-ledger")
	}
	if owned, ok := errors.AsType[*ledger.OwnedError](err); ok {
		return failf("Lomi already runs on this data folder: %v", owned).
			withHint("lomi open prints a link to its page").
			withHint("another one needs a folder of its own: lomi serve --data DIR --listen 127.0.0.1:0")
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "listen" {
		return failf("cannot listen on %s: %v", f.listen, op.Err).withHint("choose another with --listen 127.0.0.1:0")
	}
	return failf("%v", err)
}

// announce says that the daemon serves: the ready file for scripts, the link
// for people.
func announce(ctx context.Context, e env, f serveFlags, d *daemon) error {
	link := d.web.LoginLink()
	if f.ready != "" {
		raw, err := json.MarshalIndent(ready{
			URL: d.web.URL(), LoginURL: link, Socket: d.endpoint, AdminSocket: d.web.AdminSocket(),
			DiscoveryFile: d.discoveryFile, DiscoveryKey: d.discoveryKey, InstanceID: d.instance, PID: os.Getpid(),
		}, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the ready file: %w", err)
		}
		if err := private.Write(f.ready, raw); err != nil {
			return fmt.Errorf("writing the ready file: %w", err)
		}
	}
	fmt.Fprintf(e.stdout, "Lomi is ready. Open this link; it works once, for 2 minutes (lomi open makes another):\n\n  %s\n\n", link)
	if f.yolo {
		fmt.Fprintln(e.stdout, "YOLO is on: every client and every command runs without asking.")
	}
	if _, err := browser.FindChromium(); err != nil {
		fmt.Fprintln(e.stdout, "No Chromium was found: the browser tools are off until one is installed (sudo apt-get install chromium).")
	}
	if !f.noOpen && e.getenv("DISPLAY")+e.getenv("WAYLAND_DISPLAY") != "" || !f.noOpen && runtime.GOOS == "darwin" {
		openInBrowser(ctx, link)
	}
	return nil
}

// openInBrowser asks the desktop to open the page. It may fail without harm:
// the link stands in the terminal.
func openInBrowser(ctx context.Context, link string) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	if path, err := exec.LookPath(program); err == nil {
		cmd := exec.CommandContext(ctx, path, link)
		if cmd.Start() == nil {
			go cmd.Wait() // ends with the opener, at the latest with ctx
		}
	}
}
