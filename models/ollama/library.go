package ollama

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"time"

	"github.com/ollama/ollama/api"
	"golang.org/x/sync/errgroup"

	"lomi/models"
	"lomi/models/internal/guard"
)

const (
	maxModels   = 1000 // of a list
	maxName     = 200  // of a model's name
	maxTemplate = 64 << 10
	listWorkers = 4
)

// Details are the facts about one model that a person may want to see.
type Details struct {
	models.Info
	Family       string   `json:"family,omitempty"`
	Parameters   string   `json:"parameters,omitempty"` // "4.0B"
	Quantization string   `json:"quantization,omitempty"`
	Parser       string   `json:"parser,omitempty"`
	Template     string   `json:"template,omitempty"`
	Capabilities []string `json:"capabilities,omitempty"`
	// RemoteHost is set for a model that Ollama forwards to another machine: a
	// local address that is not local.
	RemoteHost string `json:"remoteHost,omitempty"`

	cachePerToken uint64
	digest        string
}

// Loaded is a model in memory.
type Loaded struct {
	Name    string    `json:"name"`
	Window  int       `json:"window"` // the window in force, in tokens
	Size    int64     `json:"size"`
	InVRAM  int64     `json:"inVRAM"`
	Expires time.Time `json:"expires"`
}

// Version returns the server's version.
func (c *Client) Version(ctx context.Context) (string, error) {
	var version string
	err := c.short(ctx, "reading the version", func(ctx context.Context) (err error) {
		version, err = c.api.Version(ctx)
		return err
	})
	return guard.Snippet([]byte(version)), err
}

// Running lists the models in memory.
func (c *Client) Running(ctx context.Context) ([]Loaded, error) {
	var out []Loaded
	err := c.short(ctx, "reading the loaded models", func(ctx context.Context) error {
		resp, err := c.api.ListRunning(ctx)
		if err != nil {
			return err
		}
		for _, m := range resp.Models[:min(len(resp.Models), maxModels)] {
			out = append(out, Loaded{Name: m.Name, Window: m.ContextLength, Size: m.Size, InVRAM: m.SizeVRAM, Expires: m.ExpiresAt})
		}
		return nil
	})
	return out, err
}

// Show returns the facts about one model.
func (c *Client) Show(ctx context.Context, model string) (Details, error) {
	if err := checkName(model); err != nil {
		return Details{}, err
	}
	var resp *api.ShowResponse
	err := c.short(ctx, "reading the facts of "+model, func(ctx context.Context) (err error) {
		resp, err = c.api.Show(ctx, &api.ShowRequest{Model: model})
		return err
	})
	if err != nil {
		return Details{}, err
	}
	return describe(model, resp), nil
}

// Info returns the short facts about one model, from memory after the first time.
func (c *Client) Info(ctx context.Context, model string) (models.Info, error) {
	d, err := c.details(ctx, model)
	return d.Info, err
}

// checkName refuses what is no model's name before it stands in a request.
func checkName(model string) error {
	if model == "" || len(model) > maxName || strings.ContainsFunc(model, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return fmt.Errorf("a model's name has 1 to %d characters and no blanks: %w", maxName, models.ErrNoModel)
	}
	return nil
}

// structTemplate finds templates that print a Go struct where the model was
// trained on JSON (github.com/ollama/ollama issue 14601).
var structTemplate = regexp.MustCompile(`\{\{-?\s*\.Function\s*-?\}\}`)

func describe(model string, resp *api.ShowResponse) Details {
	d := Details{
		Info:         models.Info{Name: model},
		Family:       resp.Details.Family,
		Parameters:   resp.Details.ParameterSize,
		Quantization: resp.Details.QuantizationLevel,
		Parser:       resp.Parser,
		Template:     resp.Template[:min(len(resp.Template), maxTemplate)],
		RemoteHost:   resp.RemoteHost,
	}
	for _, capability := range resp.Capabilities[:min(len(resp.Capabilities), 32)] {
		d.Capabilities = append(d.Capabilities, string(capability))
		switch capability {
		case "tools":
			d.Tools = true
		case "thinking":
			d.Thinking = true
		case "vision":
			d.Vision = true
		}
	}
	arch, _ := resp.ModelInfo["general.architecture"].(string)
	if n, ok := resp.ModelInfo[arch+".context_length"].(float64); ok && n > 0 && n < 1<<31 {
		d.Window = int(n)
	}
	d.cachePerToken = cachePerToken(resp.ModelInfo)
	var notes []string
	if d.RemoteHost != "" {
		d.Remote = true
		notes = append(notes, "This model does not run here: Ollama sends the conversation to "+guard.Snippet([]byte(d.RemoteHost))+".")
	}
	if resp.Renderer == "" && structTemplate.MatchString(resp.Template) {
		notes = append(notes, "The model's template shows tools as Go structs instead of JSON, which makes tool calls less reliable; a newer version of the model may help.")
	}
	d.Note = strings.Join(notes, " ")
	return d
}

// details returns the facts from the cache, or reads them once.
func (c *Client) details(ctx context.Context, model string) (Details, error) {
	c.mu.Lock()
	d, ok := c.facts[model]
	c.mu.Unlock()
	if ok {
		return d, nil
	}
	d, err := c.Show(ctx, model)
	if err == nil {
		c.remember(d)
	}
	return d, err
}

func (c *Client) remember(d Details) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.facts) >= maxModels {
		clear(c.facts)
	}
	c.facts[d.Name] = d
}

// List implements models.Lister. Facts of a model are read once for each of its
// versions; a model whose facts cannot be read is listed with that as its note.
func (c *Client) List(ctx context.Context) ([]models.Info, error) {
	var tags *api.ListResponse
	err := c.short(ctx, "reading the list of models", func(ctx context.Context) (err error) {
		tags, err = c.api.List(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	running, err := c.Running(ctx)
	if err != nil {
		return nil, err
	}
	var list []api.ListModelResponse
	for _, m := range tags.Models[:min(len(tags.Models), maxModels)] {
		if checkName(m.Name) == nil { // a name that cannot be asked for is not offered
			list = append(list, m)
		}
	}
	out := make([]models.Info, len(list))
	var group errgroup.Group // its workers end with ctx, or with the limit of a short call
	group.SetLimit(listWorkers)
	for i, m := range list {
		group.Go(func() error {
			out[i] = c.listed(ctx, m)
			return nil
		})
	}
	_ = group.Wait() // no worker fails; each writes a note instead
	if ctx.Err() != nil {
		return nil, fmt.Errorf("reading the list of models: %w", context.Cause(ctx))
	}
	for i := range out {
		for _, r := range running {
			out[i].Loaded = out[i].Loaded || tagged(r.Name) == tagged(out[i].Name)
		}
	}
	return out, nil
}

func (c *Client) listed(ctx context.Context, m api.ListModelResponse) models.Info {
	name := m.Name
	c.mu.Lock()
	d, ok := c.facts[name]
	c.mu.Unlock()
	if !ok || d.digest != m.Digest {
		var err error
		if d, err = c.Show(ctx, name); err != nil {
			return models.Info{Name: name, Size: m.Size, Note: "The facts of this model cannot be read: " + guard.Snippet([]byte(err.Error()))}
		}
		d.digest = m.Digest
		c.remember(d)
	}
	d.Info.Size = m.Size
	return d.Info
}

// PullProgress is one line of a download.
type PullProgress struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// Pull downloads a model and yields what Ollama says about it. It ends without
// an error only when Ollama said that it succeeded.
func (c *Client) Pull(ctx context.Context, model string) iter.Seq2[PullProgress, error] {
	return func(yield func(PullProgress, error) bool) {
		if err := c.pull(ctx, model, func(p PullProgress) bool { return yield(p, nil) }); err != nil && !errors.Is(err, errStopped) {
			yield(PullProgress{}, fmt.Errorf("pulling %.200s: %w", model, err))
		}
	}
}

func (c *Client) pull(ctx context.Context, model string, give func(PullProgress) bool) error {
	if err := checkName(model); err != nil {
		return err
	}
	idle := guard.NewIdle(ctx)
	defer idle.Stop()
	idle.Expect(c.limits.Pull, "waiting for the download")
	answer, err := c.post(idle, "/api/pull", &api.PullRequest{Model: model})
	if err != nil {
		return err
	}
	defer answer.close()
	succeeded := false
	for {
		var line struct {
			api.ProgressResponse
			Error guard.Text `json:"error"`
		}
		err := answer.next(&line)
		idle.Pause()
		switch {
		case errors.Is(err, io.EOF) && succeeded && !guard.Known(err):
			c.forget(model)
			return nil
		case err != nil:
			return cutOff(err)
		case line.Error != "":
			return guard.Status(0, string(line.Error))
		}
		succeeded = succeeded || line.Status == "success"
		p := PullProgress{Status: guard.Snippet([]byte(line.Status)), Digest: line.Digest, Total: line.Total, Completed: line.Completed}
		if !give(p) {
			return errStopped
		}
		idle.Expect(c.limits.Pull, "waiting for the download")
	}
}

// forget drops what was known of a model that was replaced.
func (c *Client) forget(model string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.facts {
		if tagged(name) == tagged(model) {
			delete(c.facts, name)
		}
	}
	c.warm = warmth{}
}
