package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"lomi/broker/client"
	"lomi/broker/control"
	"lomi/chat"
	"lomi/chat/store"
	"lomi/models"
	"lomi/models/connect"
	"lomi/models/demo"
	"lomi/models/ollama"
	"lomi/models/openai"
	"lomi/tools/browser"
	"lomi/web"
)

// openModels makes the registry of connections. Which engines are linked is
// decided here and nowhere else.
func (d *daemon) openModels(_ context.Context, e env) error {
	var err error
	d.models, err = connect.New(connect.Config{
		Path:   filepath.Join(d.flags.config, "connections.json"),
		Logger: d.logger,
		BuiltIn: []connect.Connection{
			{Name: "ollama", Kind: connect.KindOllama, BaseURL: ollama.AddressFromEnv(e.getenv), KeyMode: connect.KeyNone},
			{Name: "demo", Kind: connect.KindDemo, KeyMode: connect.KeyNone},
		},
		Openers: map[connect.Kind]connect.Opener{
			connect.KindOllama: func(t connect.Target) (models.Model, error) {
				return ollama.New(ollama.Config{Address: t.BaseURL, Logger: d.logger})
			},
			connect.KindOpenAI:     d.openAI,
			connect.KindCompatible: d.openAI,
			connect.KindDemo:       func(connect.Target) (models.Model, error) { return demo.New(demo.Config{}), nil },
		},
	})
	return err
}

// openAI opens a connection to OpenAI or to a server that speaks its words.
func (d *daemon) openAI(t connect.Target) (models.Model, error) {
	return openai.New(openai.Config{BaseURL: t.BaseURL, Key: t.Key.Reveal(), Organization: t.Organization, Logger: d.logger})
}

// chatModels gives the chat its models by name.
type chatModels struct{ registry *connect.Registry }

// Resolve implements chat.Models.
func (m chatModels) Resolve(ctx context.Context, name string) (models.Model, models.Info, error) {
	engine, _, info, err := m.registry.Open(ctx, name)
	return engine, info, err
}

// ownBroker says how the built-in chat reaches the broker: through its socket,
// as any client.
func (d *daemon) ownBroker() (client.Config, error) {
	return client.Config{Endpoint: d.endpoint, InstanceID: d.instance, BrokerSHA256: d.certificate.pin, Logger: d.logger}, nil
}

// chatDesk puts changes of the list of conversations on the desk log.
type chatDesk struct{ d *daemon }

// ConversationChanged implements chat.Desk.
func (c chatDesk) ConversationChanged(kind string, info chat.Conversation) { c.d.changed(kind, info) }

// screens shows browser panels to people.
type screens struct{ browser *browser.Browser }

// errNoBrowser answers on a machine without Chromium.
var errNoBrowser = control.Errorf(control.HostUnqualified, "no Chromium was found on this machine")

// Watch implements web.Screens.
func (s screens) Watch(ctx context.Context, panelID string, width, height int) iter.Seq2[web.Frame, error] {
	return func(yield func(web.Frame, error) bool) {
		if s.browser == nil {
			yield(web.Frame{}, errNoBrowser)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		views, err := s.browser.Screencast(ctx, panelID, width, height)
		if err != nil {
			yield(web.Frame{}, err)
			return
		}
		for v := range views {
			if !yield(web.Frame{JPEG: v.JPEG, URL: v.URL, Title: v.Title, Width: v.Width, Height: v.Height}, nil) {
				return
			}
		}
	}
}

// Act implements web.Screens.
func (s screens) Act(ctx context.Context, panelID string, input web.ScreenInput) error {
	if s.browser == nil {
		return errNoBrowser
	}
	return s.browser.Act(ctx, panelID, browser.Input(input))
}

// panels makes and closes panels for people.
type panels struct{ d *daemon }

// NewTerminal implements web.Panels.
func (p panels) NewTerminal(ctx context.Context, w control.Workspace, title string) (control.Panel, error) {
	return p.d.terminals.Open(ctx, w.ID, title)
}

// Close implements web.Panels.
func (p panels) Close(ctx context.Context, panel control.Panel) error {
	p.d.broker.TakeOver(panel.Resource())
	var err error
	switch {
	case panel.Kind == control.PanelTerminal:
		err = p.d.terminals.Close(ctx, panel.ID)
	case p.d.browser != nil:
		err = p.d.browser.ClosePanel(ctx, panel.ID)
	}
	if err != nil {
		p.d.logger.Debug("closing a panel whose runtime is gone", "err", err)
	}
	if _, there := p.d.bench.Panel(panel.ID); there {
		err = p.d.bench.RemovePanel(ctx, panel.ID)
	} else {
		err = nil
	}
	p.d.broker.Release(panel.Resource()) // nothing is left that could be held
	return err
}

// Artifact implements web.Panels.
func (p panels) Artifact(_ context.Context, id string) (control.Image, error) {
	meta, data, err := p.d.artifacts.Show(id)
	return control.Image{MediaType: meta.MediaType, Data: data}, err
}

// hostOf describes this computer to a model, in a few words that do not change
// while the daemon runs.
func hostOf(e env) chat.Host {
	host := chat.Host{OS: runtime.GOOS, Shell: filepath.Base(e.getenv("SHELL"))}
	if host.Shell == "." {
		host.Shell = "bash"
	}
	f, err := os.Open("/etc/os-release")
	if err != nil {
		return host
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if name, ok := strings.CutPrefix(scan.Text(), "PRETTY_NAME="); ok {
			host.OS = strings.Trim(name, `"`)
		}
	}
	return host
}

// search finds messages for people.
func (d *daemon) search(ctx context.Context, text string, limit int) ([]web.Hit, error) {
	found, err := d.store.Search(ctx, text, limit)
	if errors.Is(err, store.ErrInvalid) {
		err = fmt.Errorf("%w: %w", web.ErrInvalid, err)
	}
	hits := make([]web.Hit, len(found))
	for i, h := range found {
		hits[i] = web.Hit(h)
	}
	return hits, err
}
