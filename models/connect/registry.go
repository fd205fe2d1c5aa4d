// Package connect keeps the connections to model engines: which there are, where
// they lead, their keys, and what models they offer. It opens an engine through
// a function that its caller gives for each kind, so it links none of them.
package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lomi/models"
)

// listLimit is for asking one connection for its models.
const listLimit = 30 * time.Second

// ErrNotFound says that no connection has the name.
var ErrNotFound = errors.New("there is no such connection")

// Target is what an Opener needs to reach an engine.
type Target struct {
	Name         string
	Kind         Kind
	BaseURL      string // empty: the engine's own default
	Key          Secret
	Organization string
}

// Opener makes the engine of a connection. It does not connect.
type Opener func(Target) (models.Model, error)

// Config configures a Registry.
type Config struct {
	// Path is the file of the connections, in a folder of the user's own.
	Path string
	// Openers has one function for each kind that can be opened.
	Openers map[Kind]Opener
	// BuiltIn are connections that are there without being configured. A
	// configured one of the same name and kind replaces its settings.
	BuiltIn []Connection
	// Logger may be nil.
	Logger *slog.Logger
}

// Registry holds the connections. It is safe for concurrent use. Changes are
// made one after another; reading never waits for a key store or an engine.
type Registry struct {
	path    string
	openers map[Kind]Opener
	builtIn []Connection
	log     *slog.Logger

	change sync.Mutex // held over a whole change, the key store and file included

	mu      sync.Mutex
	saved   []Connection
	keys    map[string]Secret       // by connection: entered, or read from the key store
	engines map[string]models.Model // by connection, until it changes
}

// New reads the file and returns the registry.
func New(cfg Config) (*Registry, error) {
	if cfg.Path == "" {
		return nil, errors.New("connect: no path for the connections")
	}
	for _, c := range cfg.BuiltIn {
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("built-in connection %q: %w", c.Name, err)
		}
	}
	saved, err := read(cfg.Path)
	if err != nil {
		return nil, err
	}
	r := &Registry{
		path: cfg.Path, openers: maps.Clone(cfg.Openers), builtIn: slices.Clone(cfg.BuiltIn), log: cfg.Logger,
		saved: saved, keys: map[string]Secret{}, engines: map[string]models.Model{},
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// Connections returns all connections, sorted by name.
func (r *Registry) Connections() []Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all()
}

// all merges what is built in and what is saved. The caller holds mu.
func (r *Registry) all() []Connection {
	out := slices.Clone(r.saved)
	for _, b := range r.builtIn {
		if !slices.ContainsFunc(out, func(c Connection) bool { return c.Name == b.Name }) {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b Connection) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (r *Registry) find(name string) (Connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all() {
		if c.Name == name {
			return c, nil
		}
	}
	return Connection{}, fmt.Errorf("%.64q: %w", name, ErrNotFound)
}

// Put adds or changes a connection. A new destination drops the key: it was
// given for the old one.
func (r *Registry) Put(ctx context.Context, c Connection) error {
	if c.KeyMode == "" {
		c.KeyMode = KeyNone
	}
	if err := c.check(); err != nil {
		return err
	}
	for _, b := range r.builtIn {
		if b.Name == c.Name && b.Kind != c.Kind {
			return fmt.Errorf("name: %s is the built-in connection of kind %s", b.Name, b.Kind)
		}
	}
	r.change.Lock()
	defer r.change.Unlock()
	old, err := r.find(c.Name)
	switch {
	case errors.Is(err, ErrNotFound):
		c.Revision, c.KeyMode = 1, KeyNone // a key comes with SetKey
	case err != nil:
		return err
	default:
		c.Revision, c.KeyMode = old.Revision, old.KeyMode
		if old.BaseURL != c.BaseURL || old.Kind != c.Kind || old.Organization != c.Organization {
			if err := r.dropKey(ctx, old); err != nil {
				return err
			}
			c.Revision, c.KeyMode = old.Revision+1, KeyNone
		}
	}
	return r.save(c.Name, &c)
}

// Remove deletes a connection and its key. A built-in one goes back to what it
// was.
func (r *Registry) Remove(ctx context.Context, name string) error {
	r.change.Lock()
	defer r.change.Unlock()
	c, err := r.find(name)
	if err != nil {
		return err
	}
	if err := r.dropKey(ctx, c); err != nil {
		return err
	}
	return r.save(name, nil)
}

// SetKey gives a connection its key, kept as mode says. KeySystem without a key
// store is ErrNoKeystore: it is not kept elsewhere in silence.
func (r *Registry) SetKey(ctx context.Context, name string, mode KeyMode, key Secret) error {
	r.change.Lock()
	defer r.change.Unlock()
	c, err := r.find(name)
	if err != nil {
		return err
	}
	if mode == KeyNone || key.IsZero() {
		return errors.New("keyMode: a key is kept for the session or in the system's key store")
	}
	next := c
	next.KeyMode, next.Revision = mode, c.Revision+1
	if err := next.check(); err != nil {
		return err
	}
	if err := r.dropKey(ctx, c); err != nil {
		return err
	}
	if mode == KeySystem {
		store, err := findKeystore(ctx)
		if err != nil {
			return err
		}
		if err := store.set(ctx, name, c.BaseURL, key); err != nil {
			return err
		}
	}
	if err := r.save(name, &next); err != nil {
		return err
	}
	r.mu.Lock()
	r.keys[name] = key
	r.mu.Unlock()
	return nil
}

// ForgetKey removes a connection's key everywhere.
func (r *Registry) ForgetKey(ctx context.Context, name string) error {
	r.change.Lock()
	defer r.change.Unlock()
	c, err := r.find(name)
	if err != nil {
		return err
	}
	if err := r.dropKey(ctx, c); err != nil {
		return err
	}
	c.KeyMode, c.Revision = KeyNone, c.Revision+1
	return r.save(name, &c)
}

// KeystoreError tells whether keys can be kept in the system's key store: nil,
// or why not.
func (r *Registry) KeystoreError(ctx context.Context) error {
	_, err := findKeystore(ctx)
	return err
}

// dropKey forgets the key of c. A key store that refuses keeps the change from
// happening, because the key would stay behind unnoticed. One that is gone does
// not: a key is looked up by its destination, so no other can get it.
func (r *Registry) dropKey(ctx context.Context, c Connection) error {
	if c.KeyMode == KeySystem {
		store, err := findKeystore(ctx)
		if err == nil {
			err = store.forget(ctx, c.Name, c.BaseURL)
		}
		if errors.Is(err, ErrNoKeystore) {
			r.log.WarnContext(ctx, "key left in an unreachable key store", "connection", c.Name, "err", err)
		} else if err != nil {
			return fmt.Errorf("removing the key of %s: %w", c.Name, err)
		}
	}
	r.mu.Lock()
	delete(r.keys, c.Name)
	r.mu.Unlock()
	return nil
}

// save writes the file with c in place of the connection called name, or without
// it when c is nil, and then changes what is in memory.
func (r *Registry) save(name string, c *Connection) error {
	r.mu.Lock()
	next := slices.DeleteFunc(slices.Clone(r.saved), func(o Connection) bool { return o.Name == name })
	r.mu.Unlock()
	if c != nil {
		if len(next) >= maxConnections {
			return fmt.Errorf("there are %d connections already, as many as may be", maxConnections)
		}
		next = append(next, *c)
	}
	if err := write(r.path, next); err != nil {
		return err
	}
	r.mu.Lock()
	r.saved = next
	delete(r.engines, name)
	r.mu.Unlock()
	r.log.Info("model connection changed", "connection", name)
	return nil
}

// engine returns the engine of a connection, made at first use.
func (r *Registry) engine(ctx context.Context, c Connection) (models.Model, error) {
	r.mu.Lock()
	engine, key := r.engines[c.Name], r.keys[c.Name]
	r.mu.Unlock()
	if engine != nil {
		return engine, nil
	}
	open := r.openers[c.Kind]
	if open == nil {
		return nil, fmt.Errorf("connections of kind %s cannot be opened here: %w", c.Kind, models.ErrUnsupported)
	}
	switch {
	case c.KeyMode == KeySession && key.IsZero():
		return nil, fmt.Errorf("the key of %s was kept for one session and has to be entered again: %w", c.Name, models.ErrAuth)
	case c.KeyMode == KeySystem && key.IsZero():
		store, err := findKeystore(ctx)
		if err == nil {
			key, err = store.get(ctx, c.Name, c.BaseURL)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the key of %s: %w: %w", c.Name, models.ErrAuth, err)
		}
	}
	engine, err := open(Target{Name: c.Name, Kind: c.Kind, BaseURL: c.BaseURL, Key: key, Organization: c.Organization})
	if err != nil {
		return nil, fmt.Errorf("opening the connection %s: %w", c.Name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, now := range r.all() {
		if now.Name == c.Name && now.Revision == c.Revision { // not changed meanwhile
			r.engines[c.Name], r.keys[c.Name] = engine, key
		}
	}
	return engine, nil
}

// addresser is an engine that knows where it connects to.
type addresser interface{ Address() string }

// describer is an engine that can tell of one model without listing all.
type describer interface {
	Info(ctx context.Context, model string) (models.Info, error)
}

// leavesMachine reports whether what is said to a connection leaves the machine.
func leavesMachine(c Connection, engine models.Model) bool {
	if c.Kind == KindDemo {
		return false
	}
	if a, ok := engine.(addresser); ok {
		return leaves(a.Address())
	}
	if c.BaseURL == "" {
		return c.Kind != KindOllama
	}
	return leaves(c.BaseURL)
}

// Open finds "CONNECTION/MODEL": the engine, the model's name within it, and
// what is known of the model. Info.Remote is set when the words leave the
// machine.
func (r *Registry) Open(ctx context.Context, name string) (models.Model, string, models.Info, error) {
	connection, model, ok := strings.Cut(name, "/")
	if !ok || model == "" || len(model) > maxModelName {
		return nil, "", models.Info{}, fmt.Errorf("a model is named CONNECTION/MODEL, such as ollama/qwen3:4b: %w", models.ErrNoModel)
	}
	c, err := r.find(connection)
	if err != nil {
		return nil, "", models.Info{}, fmt.Errorf("%w: %w", models.ErrNoModel, err)
	}
	engine, err := r.engine(ctx, c)
	if err != nil {
		return nil, "", models.Info{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	info, err := describe(ctx, c, engine, model)
	if err != nil {
		return nil, "", models.Info{}, err
	}
	info.Remote = info.Remote || leavesMachine(c, engine)
	return engine, model, info, nil
}

// describe finds out about one model. A server that lists no models, or not this
// one, may still have it: hosted lists are incomplete.
func describe(ctx context.Context, c Connection, engine models.Model, model string) (models.Info, error) {
	if d, ok := engine.(describer); ok {
		return d.Info(ctx, model)
	}
	unlisted := models.Info{Name: model, Tools: true}
	if slices.Contains(c.Models, model) {
		return unlisted, nil
	}
	lister, ok := engine.(models.Lister)
	if !ok {
		return unlisted, nil
	}
	list, err := lister.List(ctx)
	if err != nil && (errors.Is(err, models.ErrUnreachable) || errors.Is(err, models.ErrAuth) || c.Kind == KindDemo) {
		return models.Info{}, err
	}
	for _, info := range list {
		if info.Name == model {
			return info, nil
		}
	}
	if c.Kind == KindDemo {
		return models.Info{}, fmt.Errorf("%s/%s: %w", c.Name, model, models.ErrNoModel)
	}
	unlisted.Note = "The server does not list this model."
	return unlisted, nil
}

// Listing is one connection with what it offers now.
type Listing struct {
	Connection
	LeavesMachine bool          `json:"leavesMachine"`
	HasKey        bool          `json:"hasKey"`
	Models        []models.Info `json:"models"`
	// Error says why there are no models, empty when all is well.
	Error string `json:"error,omitempty"`
	// Err is Error's cause, for errors.Is.
	Err error `json:"-"`
}

// List asks every connection for its models, a few at a time. One that fails
// carries its error; it keeps no other from answering.
func (r *Registry) List(ctx context.Context) []Listing {
	connections := r.Connections()
	out := make([]Listing, len(connections))
	var group errgroup.Group // its workers end with listLimit at the latest
	group.SetLimit(4)
	for i, c := range connections {
		group.Go(func() error {
			out[i] = r.list(ctx, c)
			return nil
		})
	}
	_ = group.Wait() // no worker fails
	return out
}

func (r *Registry) list(ctx context.Context, c Connection) Listing {
	ctx, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	out := Listing{Connection: c, Models: []models.Info{}}
	engine, err := r.engine(ctx, c)
	out.LeavesMachine = leavesMachine(c, engine)
	r.mu.Lock()
	out.HasKey = !r.keys[c.Name].IsZero()
	r.mu.Unlock()
	if lister, ok := engine.(models.Lister); ok && err == nil {
		var infos []models.Info
		infos, err = lister.List(ctx)
		for _, info := range infos[:min(len(infos), maxModels)] {
			if info.Name != "" && len(info.Name) <= maxModelName {
				out.Models = append(out.Models, info)
			}
		}
	}
	for _, name := range c.Models {
		if !slices.ContainsFunc(out.Models, func(i models.Info) bool { return i.Name == name }) {
			out.Models = append(out.Models, models.Info{Name: name, Tools: true})
		}
	}
	for i := range out.Models {
		out.Models[i].Remote = out.Models[i].Remote || out.LeavesMachine
	}
	if err != nil {
		out.Err, out.Error = err, err.Error()
	}
	return out
}
