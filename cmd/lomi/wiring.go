package main

import (
	"bufio"
	"context"
	"encoding/json"
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

// chatDialer connects the built-in chat to the broker's socket, as any client.
type chatDialer struct{ d *daemon }

// Dial implements chat.Dialer.
func (c chatDialer) Dial(ctx context.Context, label string) (chat.Conn, error) {
	conn, err := client.Dial(ctx, client.Config{
		Endpoint: c.d.endpoint, InstanceID: c.d.instance, BrokerSHA256: c.d.certificate.pin, Label: label, Logger: c.d.logger,
	})
	if err != nil {
		return nil, err
	}
	return conn, nil
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
	if _, there := p.d.bench.Panel(panel.ID); !there {
		return nil
	}
	return p.d.bench.RemovePanel(ctx, panel.ID)
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

// chatStore gives the chat its logs in its own words.
type chatStore struct{ *store.Store }

// Append implements chat.Store.
func (s chatStore) Append(ctx context.Context, conversation string, events []chat.Event) error {
	rows := make([]store.Event, len(events))
	for i, e := range events {
		rows[i] = store.Event{Seq: e.Seq, Kind: string(e.Kind), Time: e.Time, Data: e.Data}
	}
	_, err := s.Store.Append(ctx, conversation, rows)
	return err
}

// Read implements chat.Store.
func (s chatStore) Read(ctx context.Context, conversation string, after int64, limit int) ([]chat.Event, error) {
	rows, err := s.Store.Read(ctx, conversation, after, limit)
	events := make([]chat.Event, len(rows))
	for i, r := range rows {
		events[i] = chat.Event{Seq: r.Seq, Kind: chat.EventKind(r.Kind), Time: r.Time, Data: r.Data}
	}
	return events, err
}

// Save implements chat.Store. The conversation as the chat has it lies in the
// store's settings; what the store can list and search by stands beside.
func (s chatStore) Save(ctx context.Context, c chat.Conversation) error {
	settings, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding a conversation: %w", err)
	}
	return s.Update(ctx, store.Conversation{ID: c.ID, Title: c.Title, Project: c.ProjectPath, Model: c.Model, Settings: settings})
}

// List implements chat.Store.
func (s chatStore) List(ctx context.Context) ([]chat.Saved, error) {
	var all []chat.Saved
	for before := ""; ; {
		page, err := s.Store.List(ctx, listPage, before)
		if err != nil {
			return nil, err
		}
		for _, row := range page {
			saved := chat.Saved{Logged: row.LastSeq}
			if err := json.Unmarshal(row.Settings, &saved.Conversation); err != nil {
				return nil, fmt.Errorf("reading conversation %s: %w", row.ID, err)
			}
			saved.ID = row.ID // a crash before the first Save leaves {}
			all = append(all, saved)
			before = row.ID
		}
		if len(page) < listPage {
			return all, nil
		}
	}
}

// listPage is how many conversations the store gives at once.
const listPage = 500

// search finds messages for people.
func (d *daemon) search(ctx context.Context, text string, limit int) ([]web.Hit, error) {
	found, err := d.store.Search(ctx, text, limit)
	hits := make([]web.Hit, len(found))
	for i, h := range found {
		hits[i] = web.Hit(h)
	}
	return hits, err
}
