package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"lomi/agent"
	"lomi/broker/control"
)

// How long things may take that outlive their caller.
const (
	closeTimeout = 4 * time.Second  // turns ending at shutdown: the daemon has 5 s in all
	storeTimeout = 5 * time.Second  // an append or a page of a log
	afterStop    = 15 * time.Second // a message sent right after Stop waits for the old turn
	loadTimeout  = 60 * time.Second // reading a whole conversation at start
)

// Config is what a Service works with.
type Config struct {
	// Store keeps the logs.
	Store Store
	// Models finds the models that conversations name.
	Models Models
	// Broker connects a conversation's session; nil means that no model has
	// tools.
	Broker Dialer
	// Desk is told about changes of the list, nil for nobody.
	Desk Desk
	// Presence knows whether anybody could answer a question; nil means yes.
	Presence Presence
	// Host describes the computer to the models.
	Host Host
	// DefaultModel is the model of a conversation that names none.
	DefaultModel string
	// Limits bounds each turn; zero means the defaults.
	Limits agent.Limits
	// Logger gets what a person need not see, nil for nothing.
	Logger *slog.Logger
	// Now tells the time of events, nil for time.Now.
	Now func() time.Time
}

// Service owns the conversations and their turns. It is safe for concurrent
// use. A turn belongs to it and not to the request that began it.
type Service struct {
	cfg Config
	// life governs all turns: it ends with ErrShutdown when the service closes.
	life    context.Context
	endLife context.CancelCauseFunc
	turns   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	infos  map[string]Conversation // of all conversations
	live   map[string]*conversation
	active int
}

// New reads the list of conversations and closes what a crash left open.
func New(ctx context.Context, cfg Config) (*Service, error) {
	switch {
	case cfg.Store == nil:
		return nil, errors.New("starting the chat: no store")
	case cfg.Models == nil:
		return nil, errors.New("starting the chat: no models")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	s := &Service{cfg: cfg, life: life, endLife: end, infos: map[string]Conversation{}, live: map[string]*conversation{}}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	saved, err := cfg.Store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing conversations: %w", err)
	}
	for _, c := range saved {
		if err := s.recover(ctx, c); err != nil {
			// One broken log must not keep the others away.
			cfg.Logger.ErrorContext(ctx, "conversation not readable", "conv", c.ID, "err", err)
		}
	}
	return s, nil
}

// recover takes one conversation over at start. Its log is read only when what
// was saved beside it cannot be the whole truth: a turn was open, or events
// came later.
func (s *Service) recover(ctx context.Context, c Saved) error {
	if c.Turn == "" && c.LastSeq == c.Logged && !c.CreatedAt.IsZero() {
		s.infos[c.ID] = c.Conversation
		return nil
	}
	f, err := readFold(ctx, s.cfg.Store, c.ID)
	if err != nil {
		return err
	}
	if facts := f.repair(); len(facts) > 0 {
		log := newLog(c.ID, s.cfg.Store, f.info.LastSeq, s.cfg.Now, s.cfg.Logger)
		if err := log.append(ctx, facts...); err != nil {
			return err
		}
		f.info.LastSeq, f.info.Turn = log.lastSeq(), ""
	}
	s.infos[c.ID] = f.info
	return s.cfg.Store.Save(ctx, f.info)
}

// Close ends all turns with ErrShutdown, waits for them as long as ctx allows,
// and closes the sessions.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.endLife(ErrShutdown)
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() { // ends with the turns, which the cancelled life ends
		s.turns.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("waiting for turns: %w", context.Cause(ctx))
	}
	s.mu.Lock()
	live := s.live
	s.live = map[string]*conversation{}
	s.mu.Unlock()
	for _, c := range live {
		c.close()
	}
	return err
}

// Create begins a conversation.
func (s *Service) Create(ctx context.Context, req CreateRequest) (Conversation, error) {
	if req.Model == "" {
		req.Model = s.cfg.DefaultModel
	}
	if len(req.Domains) == 0 {
		req.Domains = []string{"terminal", "browser"}
	}
	if err := errors.Join(checkDomains(req.Domains), checkModel(req.Model), checkPolicy(req.Policy)); err != nil {
		return Conversation{}, err
	}
	title := clip(req.Title, maxTitle)
	id := control.NewID()
	log := newLog(id, s.cfg.Store, 0, s.cfg.Now, s.cfg.Logger)
	now := s.cfg.Now().UTC()
	info := Conversation{ID: id, Title: title, ProjectID: req.ProjectID, ProjectPath: req.ProjectPath, WorkspaceID: req.WorkspaceID,
		Model: req.Model, Domains: req.Domains, Policy: req.Policy, CreatedAt: now, UpdatedAt: now, LastSeq: 1}
	err := log.append(ctx, fact{ConversationCreated, conversationData{Title: &title, ProjectID: req.ProjectID, ProjectPath: req.ProjectPath,
		WorkspaceID: req.WorkspaceID, Model: &req.Model, Domains: &req.Domains, Policy: &req.Policy}})
	if err != nil {
		return Conversation{}, err
	}
	s.mu.Lock()
	s.infos[id] = info
	s.mu.Unlock()
	s.save(info)
	s.tell("conversation.added", info)
	return info, nil
}

func checkDomains(domains []string) error {
	if len(domains) > maxDomains {
		return fmt.Errorf("%w: at most %d domains", ErrInvalid, maxDomains)
	}
	for _, d := range domains {
		if !control.ValidID(d) {
			return fmt.Errorf("%w: a domain is one word, such as terminal", ErrInvalid)
		}
	}
	return nil
}

// checkModel bounds a model's name: it goes into lists and logs.
func checkModel(name string) error {
	const longest = 200
	if len(name) > longest || name != clip(name, longest) {
		return fmt.Errorf("%w: a model is named like ollama/qwen3:4b", ErrInvalid)
	}
	return nil
}

// checkPolicy takes the broker's policies, and "" for no wish.
func checkPolicy(policy string) error {
	switch policy {
	case "", "grant", "ask_for_risk", "ask_always":
		return nil
	}
	return fmt.Errorf("%w: a policy is one of grant, ask_for_risk, ask_always", ErrInvalid)
}

// List returns all conversations, the newest change first.
func (s *Service) List() []Conversation {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Conversation, 0, len(s.infos))
	for _, info := range s.infos {
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b Conversation) int {
		return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// Get returns one conversation.
func (s *Service) Get(id string) (Conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	info, ok := s.infos[id]
	if !ok {
		return Conversation{}, ErrNotFound
	}
	return info, nil
}

// Events returns stored events after a sequence number, at most limit.
func (s *Service) Events(ctx context.Context, id string, after int64, limit int) ([]Event, error) {
	if _, err := s.Get(id); err != nil {
		return nil, err
	}
	if limit <= 0 || limit > readPage {
		limit = readPage
	}
	events, err := s.cfg.Store.Read(ctx, id, after, limit)
	if err != nil {
		return nil, fmt.Errorf("reading conversation %s: %w", id, err)
	}
	return events, nil
}

// Log returns the log of a conversation, to be followed.
func (s *Service) Log(ctx context.Context, id string) (*Log, error) {
	c, err := s.open(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.log, nil
}

// Send takes a person's message and starts the turn that answers it.
func (s *Service) Send(ctx context.Context, id string, req SendRequest) (Sent, error) {
	if err := errors.Join(checkMessage(req.Text), checkModel(req.Model)); err != nil {
		return Sent{}, err
	}
	c, err := s.open(ctx, id)
	if err != nil {
		return Sent{}, err
	}
	turn, err := s.reserve(ctx, c)
	if err != nil {
		return Sent{}, err
	}
	var sent Sent
	if err = s.mend(ctx, c); err == nil {
		sent, err = s.begin(ctx, c, turn, req)
	}
	if err != nil {
		s.release(c, turn)
		return Sent{}, err
	}
	return sent, nil
}

// mend closes a turn whose end could not be stored.
func (s *Service) mend(ctx context.Context, c *conversation) error {
	s.mu.Lock()
	unclosed := c.unclosed
	s.mu.Unlock()
	if !unclosed {
		return nil
	}
	f, err := readFold(ctx, s.cfg.Store, c.id)
	if err != nil {
		return err
	}
	if facts := f.repair(); len(facts) > 0 {
		if err := c.log.append(ctx, facts...); err != nil {
			return err
		}
	}
	s.mu.Lock()
	c.unclosed = false
	s.mu.Unlock()
	return nil
}

func checkMessage(text string) error {
	switch {
	case text == "":
		return fmt.Errorf("%w: the message is empty", ErrInvalid)
	case len(text) > MaxMessage:
		return fmt.Errorf("%w: the message is longer than %d KiB", ErrInvalid, MaxMessage>>10)
	case !utf8.ValidString(text):
		return fmt.Errorf("%w: the message is not UTF-8", ErrInvalid)
	}
	return nil
}

// reserve makes the turn of a conversation. A turn that has been told to stop
// is waited for, so that a message right after Stop is not lost (bug 25).
func (s *Service) reserve(ctx context.Context, c *conversation) (*running, error) {
	ctx, cancel := context.WithTimeout(ctx, afterStop)
	defer cancel()
	for {
		s.mu.Lock()
		old := c.turn
		switch {
		case s.closed || c.gone:
			s.mu.Unlock()
			return nil, ErrClosed
		case old == nil && s.active >= maxActiveTurns:
			s.mu.Unlock()
			return nil, ErrTooMany
		case old == nil:
			turnCtx, end := context.WithCancelCause(s.life)
			c.turn = &running{id: control.NewID(), ctx: turnCtx, cancel: end, done: make(chan struct{})}
			s.active++
			// Counted here, under the lock that Close takes before it waits.
			s.turns.Add(1)
			s.mu.Unlock()
			return c.turn, nil
		case !old.stopping:
			s.mu.Unlock()
			return nil, ErrBusy
		}
		s.mu.Unlock()
		select {
		case <-old.done:
		case <-ctx.Done():
			return nil, ErrBusy
		}
	}
}

// release ends a turn, once. A turn whose end is not in the log stays open for
// all to see; the next message or the next start closes it.
func (s *Service) release(c *conversation, turn *running) {
	turn.cancel(nil)
	s.mu.Lock()
	if c.turn == turn {
		c.turn = nil
	}
	s.active--
	// In the same moment in which the next turn may begin, so that this does
	// not wipe out its id.
	if info, ok := s.infos[c.id]; ok && info.Turn == turn.id && !c.unclosed {
		info.Turn = ""
		s.infos[c.id] = info
	}
	s.mu.Unlock()
	close(turn.done)
	s.update(c, func(*Conversation) {})
	s.evict()
	s.disconnect()
	s.turns.Done()
}

// begin records the message and lets the turn go.
func (s *Service) begin(ctx context.Context, c *conversation, turn *running, req SendRequest) (Sent, error) {
	info, err := s.Get(c.id)
	if err != nil {
		return Sent{}, err
	}
	sent := Sent{Turn: turn.id, Message: control.NewID()}
	var change conversationData
	if req.Model != "" && req.Model != info.Model {
		change.Model, info.Model = &req.Model, req.Model
	}
	if info.Title == "" {
		info.Title = titleFrom(req.Text)
		change.Title = &info.Title
	}
	var facts []fact
	if change.Model != nil || change.Title != nil {
		facts = append(facts, fact{ConversationChanged, change})
	}
	message := userMessage(req.Text)
	facts = append(facts,
		fact{MessageAdded, messageData{Message: sent.Message, Role: message.Role, Parts: message.Parts}},
		fact{TurnStarted, turnStartedData{Turn: turn.id, Model: info.Model, Message: sent.Message}})
	// Not the request's context: once stored it counts, and a caller that went
	// away must not leave a turn that nobody runs.
	store, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := c.log.append(store, facts...); err != nil {
		return Sent{}, err
	}
	s.update(c, func(i *Conversation) { i.Title, i.Model, i.Turn = info.Title, info.Model, turn.id })
	go func() { // owned by s.turns, ended by the turn's context
		defer s.release(c, turn)
		s.run(turn, c, message)
	}()
	return sent, nil
}

// Stop ends a running turn as the person's wish, and nothing that comes after
// it. turn may be empty for whichever runs. It reports whether one was told to
// stop; a turn that has ended already is no error.
func (s *Service) Stop(id, turn string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.infos[id]; !ok {
		return false, ErrNotFound
	}
	c := s.live[id]
	if c == nil || c.turn == nil || turn != "" && turn != c.turn.id {
		return false, nil
	}
	c.turn.stopping = true
	c.turn.cancel(ErrUserCancelled)
	return true, nil
}

// Settings changes a conversation. A running turn keeps what it began with.
func (s *Service) Settings(ctx context.Context, id string, req SettingsRequest) (Conversation, error) {
	c, err := s.open(ctx, id)
	if err != nil {
		return Conversation{}, err
	}
	if req.Domains != nil {
		if err := checkDomains(*req.Domains); err != nil {
			return Conversation{}, err
		}
	}
	if req.Model != nil {
		if err := checkModel(*req.Model); err != nil {
			return Conversation{}, err
		}
	}
	if req.Policy != nil {
		if err := checkPolicy(*req.Policy); err != nil {
			return Conversation{}, err
		}
	}
	if req.Title != nil {
		title := clip(*req.Title, maxTitle)
		req.Title = &title
	}
	data := conversationData{Title: req.Title, Model: req.Model, Domains: req.Domains, Policy: req.Policy}
	if err := c.log.append(ctx, fact{ConversationChanged, data}); err != nil {
		return Conversation{}, err
	}
	return s.update(c, func(info *Conversation) {
		f := fold{info: *info}
		f.addConversation(data)
		*info = f.info
	}), nil
}

// Answer gives a person's answer to an open question.
func (s *Service) Answer(id, question, answer string) error {
	if len(answer) > MaxMessage || !utf8.ValidString(answer) {
		return fmt.Errorf("%w: the answer is too long or not UTF-8", ErrInvalid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.infos[id]; !ok {
		return ErrNotFound
	}
	c := s.live[id]
	if c == nil || c.turn == nil || c.turn.question != question || question == "" {
		return ErrNoQuestion
	}
	c.turn.question = ""
	c.turn.answer <- answer // has room for the one answer
	return nil
}

// Delete ends what runs in a conversation and removes it with its log. When
// that fails, the conversation is there as before.
func (s *Service) Delete(ctx context.Context, id string) error {
	c, err := s.open(ctx, id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if c.gone {
		s.mu.Unlock()
		return ErrBusy // somebody else is deleting it
	}
	c.gone = true
	turn := c.turn
	s.mu.Unlock()
	if err := s.erase(ctx, c, turn); err != nil {
		s.mu.Lock()
		c.gone = false
		s.mu.Unlock()
		return err
	}
	s.mu.Lock()
	info := s.infos[id]
	delete(s.infos, id)
	delete(s.live, id)
	s.mu.Unlock()
	c.close()
	s.tell("conversation.removed", info)
	return nil
}

// erase removes the log once its turn has ended.
func (s *Service) erase(ctx context.Context, c *conversation, turn *running) error {
	ctx, cancel := context.WithTimeout(ctx, afterStop)
	defer cancel()
	if turn != nil {
		turn.cancel(ErrUserCancelled)
		select {
		case <-turn.done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the turn: %w", context.Cause(ctx))
		}
	}
	if err := s.cfg.Store.Delete(ctx, c.id); err != nil {
		return fmt.Errorf("deleting conversation %s: %w", c.id, err)
	}
	return nil
}

// update changes what the list shows of a conversation and tells the desk.
func (s *Service) update(c *conversation, change func(*Conversation)) Conversation {
	s.mu.Lock()
	info, ok := s.infos[c.id]
	if !ok {
		s.mu.Unlock()
		return info
	}
	change(&info)
	info.LastSeq, info.UpdatedAt = c.log.lastSeq(), s.cfg.Now().UTC()
	s.infos[c.id] = info
	s.mu.Unlock()
	s.save(info)
	s.tell("conversation.changed", info)
	return info
}

// save keeps what the list shows. It may be lost: the log is the truth, and the
// next start sees that they differ.
func (s *Service) save(info Conversation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), storeTimeout)
	defer cancel()
	if err := s.cfg.Store.Save(ctx, info); err != nil {
		s.cfg.Logger.WarnContext(ctx, "conversation not saved", "conv", info.ID, "err", err)
	}
}

func (s *Service) tell(kind string, info Conversation) {
	if s.cfg.Desk != nil {
		s.cfg.Desk.ConversationChanged(kind, info)
	}
}
