package ollama

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"lomi/models"
	"lomi/models/internal/guard"
)

func getenv(name string) string { return os.Getenv(name) }

const (
	// defaultMemory is assumed of a machine that does not tell.
	defaultMemory = 8 << 30
	// cacheShare is the part of the memory that the window's cache may take: the
	// weights, the system and the person's programs need the rest.
	cacheShare = 8
	// assumedPerToken is the cache of one token of an 8-billion model, for one
	// that does not name its sizes.
	assumedPerToken = 144 << 10

	smallestWindow = 4096
	largestWindow  = 65536
)

// window returns the window to ask for: the request's, else one chosen once for
// the model, never more than the model has. One value per model matters more
// than the best value, because another value makes Ollama load the model again.
func (c *Client) window(req models.Request, d Details) int {
	window := req.Window
	if window <= 0 {
		window = chooseWindow(c.memory, d.cachePerToken)
	}
	if d.Window > 0 {
		window = min(window, d.Window)
	}
	return window
}

// chooseWindow gives the largest power of two whose cache fits the share.
func chooseWindow(memory, perToken uint64) int {
	if perToken == 0 {
		perToken = assumedPerToken
	}
	window := smallestWindow
	for window < largestWindow && uint64(2*window)*perToken <= memory/cacheShare {
		window *= 2
	}
	return window
}

// cachePerToken computes the bytes of the key and value cache that one token
// takes in half precision, 0 when the model does not name its sizes.
func cachePerToken(info map[string]any) uint64 {
	arch, _ := info["general.architecture"].(string)
	size := func(key string) uint64 {
		if v, ok := info[arch+"."+key].(float64); ok && v > 0 && v < 1<<31 {
			return uint64(v)
		}
		return 0
	}
	heads := size("attention.head_count_kv")
	key, value := size("attention.key_length"), size("attention.value_length")
	if key == 0 && size("attention.head_count") > 0 {
		key = size("embedding_length") / size("attention.head_count")
	}
	if value == 0 {
		value = key
	}
	return size("block_count") * heads * (key + value) * 2
}

// keepAliveMargin is taken from the time that Ollama keeps a model, for clocks
// that differ and a reply that takes its time to begin.
const keepAliveMargin = 5 * time.Minute

// warmth is what the last whole reply tells: the model is in memory with this
// window until Ollama's time for it is over, or another model needs its place.
type warmth struct {
	key    string // of model and wanted window
	window int
	until  time.Time
}

func loadKey(model string, window int) string { return fmt.Sprintf("%s %d", model, window) }

// takeWarmth returns the window of a model that is still in memory as far as
// this client knows, 0 when it does not know. Whatever is asked meanwhile may
// change that, so only the end of a reply makes it known again.
func (c *Client) takeWarmth(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.warm
	c.warm = warmth{}
	if last.key != key || !time.Now().Before(last.until) {
		return 0
	}
	return last.window
}

func (c *Client) keepWarmth(key string, window int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warm = warmth{key: key, window: window, until: time.Now().Add(keepAlive - keepAliveMargin)}
}

// load makes sure that the model is in memory with the window and returns the
// window that is really in force. Loading is a request of its own, so that the
// minutes it may take have their own limit and are shown as what they are.
func (c *Client) load(idle *guard.Idle, model string, window int, say func(string) bool) (int, error) {
	key := loadKey(model, window)
	c.mu.Lock()
	given, known := c.loaded[key]
	c.mu.Unlock()
	now, err := c.windowOf(idle.Context(), model)
	if err != nil {
		return 0, err
	}
	if now > 0 && (now == window || (known && now == given)) {
		return now, nil
	}
	if !say("loading the model") {
		return 0, errStopped
	}
	idle.Expect(c.limits.Load, "loading the model")
	off := false
	answer, err := c.post(idle, "/api/chat", &api.ChatRequest{
		Model: model, Messages: []api.Message{}, Stream: &off,
		KeepAlive: &api.Duration{Duration: keepAlive}, Options: map[string]any{"num_ctx": window},
	})
	if err != nil {
		return 0, fmt.Errorf("loading %s: %w", model, err)
	}
	defer answer.close()
	var line chatLine
	if err := answer.next(&line); err != nil {
		return 0, fmt.Errorf("loading %s: %w", model, cutOff(err))
	}
	if line.Error != "" {
		return 0, fmt.Errorf("loading %s: %w", model, guard.Status(0, string(line.Error)))
	}
	idle.Pause()
	if now, err = c.windowOf(idle.Context(), model); err != nil {
		return 0, err
	}
	c.mu.Lock()
	if len(c.loaded) > 1000 { // names come from requests; keep what they can cost small
		clear(c.loaded)
	}
	c.loaded[key] = now
	c.mu.Unlock()
	return now, nil
}

// windowOf reads the window of a loaded model back, 0 when it is not loaded.
func (c *Client) windowOf(ctx context.Context, model string) (int, error) {
	running, err := c.Running(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range running {
		if tagged(r.Name) == tagged(model) {
			return r.Window, nil
		}
	}
	return 0, nil
}

// tagged adds the tag that Ollama assumes.
func tagged(name string) string {
	if strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/') {
		return name
	}
	return name + ":latest"
}
