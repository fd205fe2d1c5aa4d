package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	chrome "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"lomi/broker/control"
	"lomi/internal/keeper"
)

const (
	// startBound covers a cold start of Chromium on a busy machine.
	startBound = 20 * time.Second
	// closeBound is how long an orderly end may take before the tree is ended.
	closeBound = 2 * time.Second
	// keepOutput is how much of Chromium's own words goes with a failed start.
	keepOutput = 4 << 10
	// socketRoom is the longest folder in which Chromium's own lock socket
	// (org.chromium.Chromium.XXXXXX/SingletonSocket) still fits 108 bytes.
	socketRoom = 60
	// runPrefix starts the name of the profile folder of one Chromium.
	runPrefix = "run-"
)

// FindChromium returns the Chromium that this machine has: the one that
// LOMI_CHROMIUM names, else the usual places. Debian's wrapper script adds
// flags and prints noise, so the real binary comes first.
func FindChromium() (string, error) {
	candidates := []string{
		os.Getenv("LOMI_CHROMIUM"), "/usr/lib/chromium/chromium",
		"chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
	}
	if runtime.GOOS == "darwin" {
		candidates = append(candidates,
			"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
			"/Applications/Chromium.app/Contents/MacOS/Chromium")
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		if path, err := exec.LookPath(c); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", control.Errorf(control.HostUnqualified,
		"no Chromium found; install it (Debian: apt-get install chromium) or set LOMI_CHROMIUM")
}

// chromium is one running Chromium with its pipe and its profile folder.
type chromium struct {
	*link
	process *keeper.Process
	dir     string
	log     *slog.Logger
	stop    sync.Once
	gone    chan struct{} // closed when tree and folder are gone

	making   sync.Mutex // held while a profile or page is made
	contexts map[string]cdp.BrowserContextID

	mu       sync.Mutex
	creating bool
	fresh    map[target.ID]target.SessionID // attached while creating
}

// newTarget opens an empty page in a profile. Only pages made here are kept;
// whatever else attaches is a popup.
func (c *chromium) newTarget(ctx context.Context, profile cdp.BrowserContextID) (target.ID, session, error) {
	c.making.Lock()
	defer c.making.Unlock()
	c.mu.Lock()
	c.creating = true
	c.mu.Unlock()
	made, err := cdp.Call(ctx, c.root(), target.CreateTarget, target.CreateTargetParams{URL: "about:blank", BrowserContextID: profile})
	c.mu.Lock()
	c.creating = false
	id, attached := c.fresh[made.TargetID]
	delete(c.fresh, made.TargetID)
	strays := c.fresh
	c.fresh = map[target.ID]target.SessionID{}
	c.mu.Unlock()
	for stray := range strays {
		post(c.root(), target.CloseTarget, target.CloseTargetParams{TargetID: stray})
	}
	if err == nil && !attached {
		err = errors.New("it did not attach")
	}
	if err != nil {
		return "", session{}, fmt.Errorf("making a page: %w", err)
	}
	return made.TargetID, session{link: c.link, id: id, dead: make(chan struct{})}, nil
}

// expects keeps a target that attached while one of ours is being made. One
// with an opener is a popup at any time.
func (c *chromium) expects(ev target.EventAttachedToTarget) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.creating || ev.TargetInfo.OpenerID != "" {
		return false
	}
	c.fresh[ev.TargetInfo.TargetID] = ev.SessionID
	return true
}

// launch starts a Chromium in a new profile folder under cfg.Dir. A new folder
// each time means that no lock of an earlier one can be in the way.
func launch(ctx context.Context, cfg Config) (*chromium, error) {
	path := cfg.Path
	if path == "" {
		found, err := FindChromium()
		if err != nil {
			return nil, err
		}
		path = found
	}
	dir := filepath.Join(cfg.Dir, runPrefix+control.NewID()[:8])
	if err := os.MkdirAll(filepath.Join(dir, "t"), 0o700); err != nil {
		return nil, fmt.Errorf("making a browser profile: %w", err)
	}
	c, err := start(ctx, cfg, path, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func start(ctx context.Context, cfg Config, path, dir string) (*chromium, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	pipes, err := newPipes()
	if err != nil {
		return nil, err
	}
	defer pipes.closeTheirs()
	process, err := keeper.Start(ctx, keeper.Spec{
		Name: "chromium", Path: path, Args: flags(cfg, dir), Env: environment(dir),
		Dir: dir, Stdout: pipes.output, Stderr: pipes.output,
		Files: []*os.File{pipes.commands[0], pipes.events[1]}, Instance: cfg.Instance,
		Grace: time.Second, Logger: cfg.Logger,
	})
	if err != nil {
		pipes.closeOurs()
		return nil, fmt.Errorf("starting Chromium: %w", err)
	}
	pipes.closeTheirs()
	c := &chromium{
		link:    newLink(chromedp.NewPipeConn(pipes.events[0], pipes.commands[1]), cfg.Logger),
		process: process, dir: dir, log: cfg.Logger, gone: make(chan struct{}),
		contexts: map[string]cdp.BrowserContextID{}, fresh: map[target.ID]target.SessionID{},
	}
	said := make(chan string, 1)
	go func() { said <- tail(pipes.said) }() // ends when the tree's last writer does
	if _, err := cdp.Call(ctx, c.root(), chrome.GetVersion, cdp.Empty{}); err != nil {
		c.end()
		return nil, fmt.Errorf("starting Chromium: %w: %s", err, <-said)
	}
	go c.watch() // ends with the process
	return c, nil
}

// watch ends the rest of the tree when the program or its pipe ends.
func (c *chromium) watch() {
	select {
	case <-c.done:
	case <-c.process.Done():
	}
	c.end()
}

// root is the session of the browser itself.
func (c *chromium) root() session { return session{link: c.link} }

// shut ends Chromium in order, bounded even when it is stopped or stuck. It
// may be called more than once.
func (c *chromium) shut(ctx context.Context) {
	asked, cancel := context.WithTimeout(ctx, closeBound)
	defer cancel()
	if _, err := cdp.Call(asked, c.root(), chrome.Close, cdp.Empty{}); err == nil {
		select {
		case <-c.process.Done():
		case <-asked.Done():
		}
	}
	c.end()
}

// end stops the whole tree, removes the folder, and returns when both are
// gone. It has a bound of its own: half an end would be worse than a late one.
func (c *chromium) end() {
	c.stop.Do(func() {
		defer close(c.gone)
		ctx, cancel := context.WithTimeout(context.Background(), startBound)
		defer cancel()
		c.drop()
		if err := c.process.Stop(ctx); err != nil {
			c.log.Warn("browser tree not ended", "err", err)
		}
		if err := os.RemoveAll(c.dir); err != nil {
			c.log.Warn("browser profile not removed", "err", err)
		}
	})
}

// sweepProfiles removes what a killed daemon left; the caller holds the lock
// of the data folder, so no profile there is in use.
func sweepProfiles(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing browser profiles: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), runPrefix) {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("removing a former browser profile: %w", err)
			}
		}
	}
	return nil
}

// flags are the switches of every Chromium: a private profile, the pipe
// instead of a port, and nothing that talks to anyone by itself.
func flags(cfg Config, dir string) []string {
	args := []string{
		"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + dir, "--no-startup-window",
		"--no-first-run", "--no-default-browser-check", "--disable-quic",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-default-apps", "--disable-extensions", "--disable-component-extensions-with-background-pages",
		"--disable-breakpad", "--disable-crash-reporter", "--disable-client-side-phishing-detection",
		"--disable-domain-reliability", "--no-pings", "--metrics-recording-only", "--disable-hang-monitor",
		"--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
		"--disable-background-timer-throttling", "--disable-ipc-flooding-protection",
		"--disable-smooth-scrolling", "--force-color-profile=srgb", "--hide-scrollbars", "--mute-audio",
		"--password-store=basic", "--use-mock-keychain", "--no-service-autorun", "--disable-print-preview",
		"--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
		// A page that comes back from the cache, or was rendered ahead, has
		// made no request that could be refused.
		"--disable-features=BackForwardCache,Prerender2,Translate,MediaRouter,OptimizationHints,InterestFeedContentSuggestions",
	}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium refuses to run as root with it
	}
	if cfg.OwnPorts != nil {
		// Below the pages: also WebSockets, workers and rebound names get no
		// connection to the daemon. "*" because every host name can be
		// pointed at loopback.
		var rules []string
		for _, port := range cfg.OwnPorts() {
			rules = append(rules, "MAP *:"+strconv.Itoa(port)+" ~NOTFOUND")
		}
		if len(rules) > 0 {
			args = append(args, "--host-resolver-rules="+strings.Join(rules, ","))
		}
	}
	return args
}

// environment is what Chromium gets of ours: no secret, and a folder for its
// temporary files that goes with the profile.
func environment(dir string) []string {
	keep := []string{"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "FONTCONFIG_FILE", "FONTCONFIG_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	var env []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(keep, name) || strings.HasPrefix(name, "LC_") {
			env = append(env, v)
		}
	}
	if tmp := filepath.Join(dir, "t"); len(tmp) <= socketRoom {
		env = append(env, "TMPDIR="+tmp)
	}
	return env
}

// pipes are the two pipes of the protocol and the one of Chromium's output.
type pipes struct {
	commands, events [2]*os.File // read end, write end
	said, output     *os.File
	once             sync.Once
}

func newPipes() (*pipes, error) {
	p := &pipes{}
	var errs [3]error
	p.commands[0], p.commands[1], errs[0] = os.Pipe()
	p.events[0], p.events[1], errs[1] = os.Pipe()
	p.said, p.output, errs[2] = os.Pipe()
	if err := errors.Join(errs[:]...); err != nil {
		p.closeTheirs()
		p.closeOurs()
		return nil, fmt.Errorf("making the browser's pipes: %w", err)
	}
	return p, nil
}

func (p *pipes) closeTheirs() {
	p.once.Do(func() { closeAll(p.commands[0], p.events[1], p.output) })
}

func (p *pipes) closeOurs() { closeAll(p.commands[1], p.events[0], p.said) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// tail reads r to its end, closes it, and returns the last of it.
func tail(r *os.File) string {
	defer r.Close()
	var kept []byte
	buf := make([]byte, keepOutput)
	for {
		n, err := r.Read(buf)
		kept = append(kept, buf[:n]...)
		if len(kept) > keepOutput {
			kept = append(kept[:0], kept[len(kept)-keepOutput:]...)
		}
		if err != nil {
			if err != io.EOF {
				kept = append(kept, err.Error()...)
			}
			return strings.TrimSpace(string(kept))
		}
	}
}
