package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"lomi/broker/control"
	"lomi/broker/ledger"
)

const (
	// resolveTarget is what Resolve may take (adapter.go), resolveLimit what it
	// gets on a machine that is busy with other things.
	resolveTarget = 5 * time.Millisecond
	resolveLimit  = 2 * time.Second
	// readLimit keeps every answer within the 20 s after which hosts give up.
	readLimit = 18 * time.Second
)

// admission is one request on its way through the steps.
type admission struct {
	session *session
	tool    control.Tool
	raw     json.RawMessage
	started time.Time

	request     any
	workspace   string // id that the request names, "" for none
	keyed       bool
	key         ledger.Key
	record      ledger.Key // key, or that of a later attempt
	revision    string
	fingerprint ledger.Hash
	adapter     Adapter
	call        Call
	target      Target
	lease       *lease    // that the session holds on the target
	question    *question // for a person, nil for none
}

// step is one step of admission. It refuses with an error, answers with a
// reply, or lets the request go on.
type step struct {
	name string
	run  func(context.Context, *admission) (*control.Reply, error)
}

// steps is the one order in which every request is judged (architecture
// section 5). Moving a line here changes what Lomi promises.
func (b *Broker) steps() [8]step {
	return [8]step{
		{"decode", b.stepDecode},
		{"connection", b.stepConnection},
		{"replay", b.stepReplay},
		{"scope", b.stepScope},
		{"target", b.stepTarget},
		{"bounds", b.stepBounds},
		{"policy", b.stepPolicy},
		{"carry out", b.stepCarryOut},
	}
}

// Handle implements wire.Handler: it admits one request, or says why not.
func (b *Broker) Handle(ctx context.Context, sessionID, tool string, args json.RawMessage) (reply control.Reply) {
	defer func() { // one request must not end the daemon of all others
		if r := recover(); r != nil {
			b.logPanic(tool, "admission", r)
			reply = control.Failure(errors.New("admission panicked"))
		}
	}()
	s := b.session(sessionID)
	if s == nil {
		b.audit(sessionID, tool, "", "connection", control.ControlRevoked, 0)
		return control.Failure(errRevoked())
	}
	t, ok := b.tools[tool]
	if !ok {
		b.audit(s.id, "", "", "decode", control.UnsupportedCapability, 0)
		return control.Failure(control.Errorf(control.UnsupportedCapability, "tool: is not in the catalog"))
	}
	a := &admission{session: s, tool: t, raw: args, started: time.Now()}
	for _, st := range b.steps() {
		reply, err := st.run(ctx, a)
		if err != nil {
			return b.refuse(ctx, a, st.name, err)
		}
		if reply != nil {
			return b.bound(*reply)
		}
	}
	return b.refuse(ctx, a, "carry out", errors.New("no step answered"))
}

// refuse puts a denied attempt on record and words it for the caller.
func (b *Broker) refuse(ctx context.Context, a *admission, at string, err error) control.Reply {
	e, public := control.AsError(err)
	if !public {
		b.log.ErrorContext(ctx, "answering a call", "tool", a.tool.Name, "step", at, "err", err)
		e = &control.Error{Code: control.AppUnavailable, Message: "internal error in Lomi; see the daemon's log"}
	}
	b.audit(a.session.id, a.tool.Name, a.workspace, at, e.Code, time.Since(a.started))
	return control.Failure(e)
}

// bound refuses a result that no frame should carry.
func (b *Broker) bound(r control.Reply) control.Reply {
	if len(r.Data) > control.MaxResult {
		return control.Failure(control.Errorf(control.ResourceExhausted, "the result is larger than %d bytes", control.MaxResult))
	}
	if r.Image != nil && len(r.Image.Data) > control.MaxResult {
		return control.Failure(control.Errorf(control.ArtifactTooLarge, "the picture is larger than %d bytes", control.MaxResult))
	}
	return r
}

func (b *Broker) stepDecode(_ context.Context, a *admission) (*control.Reply, error) {
	if a.tool.NewRequest == nil {
		return nil, nil // no build has it; the connection step says so
	}
	a.request = a.tool.NewRequest()
	if err := control.Decode(a.raw, a.request); err != nil {
		return nil, fmt.Errorf("decoding arguments: %w", err)
	}
	if v, ok := a.request.(control.Validator); ok {
		if err := v.Validate(); err != nil {
			return nil, fmt.Errorf("checking arguments: %w", err)
		}
	}
	if w, ok := a.request.(control.Addressed); ok {
		a.workspace = w.Workspace()
	}
	return nil, nil
}

// stepConnection checks that the session lives, and that this build can do at
// all what is asked: what no grant could allow is not a matter of scopes.
func (b *Broker) stepConnection(_ context.Context, a *admission) (*control.Reply, error) {
	if err := b.live(a.session); err != nil {
		return nil, err
	}
	if ok, why := b.offers(a.tool); !ok {
		if why == "" {
			why = "this build of Lomi does not offer the tool; lomi_status lists those that it does"
		}
		return nil, control.Errorf(control.UnsupportedCapability, "%s", why)
	}
	a.adapter = b.cfg.Adapters[a.tool.Domain]
	return nil, nil
}

// stepReplay answers a repeated request from its receipt, before anything that
// may have changed since is looked at.
func (b *Broker) stepReplay(ctx context.Context, a *admission) (*control.Reply, error) {
	retry, ok := a.request.(control.Retryable)
	if !ok || a.tool.ReadOnly || a.tool.Domain == linkDomain {
		return nil, nil
	}
	epoch, key, revision := retry.Retry()
	a.keyed, a.revision = true, revision
	var err error
	if epoch, err = a.session.liveEpoch(epoch, time.Now()); err != nil {
		return nil, err
	}
	// The full form names resource and generation in its arguments, so that
	// their hash covers the whole target before it is resolved.
	a.fingerprint, err = ledger.Fingerprint(a.raw, ledger.Target{WorkspaceID: a.workspace, Revision: revision})
	if errors.Is(err, ledger.ErrInvalid) {
		return nil, control.Errorf(control.ResourceExhausted, "arguments: must not be nested deeper than 32, nor hold NUL")
	}
	if err != nil {
		return nil, err
	}
	a.key = ledger.Key{Pairing: a.session.id, Epoch: epoch, Project: a.session.projectOf(a.workspace), Tool: a.tool.Name, Request: key}
	if a.key.Project == "" { // under YOLO a workspace is known from its first call on
		if w, ok := b.cfg.Desk.Workspace(a.workspace); ok {
			a.key.Project = w.ProjectID
		}
	}
	if op := b.flying(a.key); op != nil {
		if op.fingerprint != a.fingerprint {
			return nil, errConflict()
		}
		if err := b.allowed(a); err != nil {
			return nil, err
		}
		return b.await(ctx, a, op)
	}
	lookup, cancel := b.bounded(ctx, a.session)
	defer cancel()
	receipt, found, err := b.lookup(lookup, a.key)
	a.record = a.key
	if err == nil && found && unused(receipt) {
		// Not even the arguments need be the same: the number is still the next.
		a.record, found = nextAttempt(receipt.Key, a.key), false
	}
	if err != nil || !found {
		return nil, b.ofStore(a.session, err)
	}
	if receipt.Fingerprint != a.fingerprint {
		return nil, errConflict()
	}
	if err := b.allowed(a); err != nil {
		return nil, err
	}
	if op := b.underWay(receipt.ID); op != nil { // recorded since we looked
		return b.await(ctx, a, op)
	}
	reply, err := b.answer(a, receipt, nil)
	return &reply, err
}

// maxAttempts bounds how often one input sequence number may come to nothing.
const maxAttempts = 32

// unused reports a receipt whose number is still free. An input has no key of
// its own choice: the terminal counts what was typed, and a number whose input
// was denied, cancelled or refused was not. Without this nothing could ever be
// typed there again.
func unused(r ledger.Receipt) bool {
	return r.Key.Tool == inputTool && r.Effect == control.EffectNone &&
		(r.State == control.StateFailed || r.State == control.StateCancelled)
}

// nextAttempt is the key of the record after one that came to nothing.
func nextAttempt(last, first ledger.Key) ledger.Key {
	n := 1
	if rest, ok := strings.CutPrefix(last.Request, first.Request+":"); ok {
		if at, err := strconv.Atoi(rest); err == nil {
			n = at
		}
	}
	first.Request += ":" + strconv.Itoa(n+1)
	return first
}

// lookup finds the receipt of a key; of several attempts the last.
func (b *Broker) lookup(ctx context.Context, key ledger.Key) (ledger.Receipt, bool, error) {
	receipt, found, err := b.cfg.Ledger.Lookup(ctx, key)
	for n := 2; err == nil && found && unused(receipt) && n <= maxAttempts; n++ {
		next, more, err := b.cfg.Ledger.Lookup(ctx, nextAttempt(receipt.Key, key))
		if err != nil || !more {
			return receipt, true, err
		}
		receipt = next
	}
	return receipt, found, err
}

func errConflict() error {
	return control.Errorf(control.IdempotencyConflict, "requestKey: was used for another request; take a new one")
}

// bounded limits a wait for the ledger by the caller, the session's life and
// the time in which every call answers.
func (b *Broker) bounded(ctx context.Context, s *session) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// ofStore words a failure of the ledger: a session that ended meanwhile is
// told so, a wait that ran out is storage that cannot be used.
func (b *Broker) ofStore(s *session, err error) error {
	if err == nil {
		return nil
	}
	if gone := b.live(s); gone != nil {
		return gone
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return control.Errorf(control.StorageUnavailable, "the record of effects does not answer")
	}
	return err
}

// liveEpoch checks a retry epoch; "" stands for the session's own.
func (s *session) liveEpoch(epoch string, now time.Time) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch == "" {
		epoch = s.epoch
	}
	if end, ok := s.epochs[epoch]; !ok || !now.Before(end) {
		return "", control.Errorf(control.RetryWindowExpired, "retryEpoch: is over or not of this connection; lomi_connect gives the current one")
	}
	return epoch, nil
}

// allowed checks the scopes of the tool and of this very request.
func (b *Broker) allowed(a *admission) error {
	need := a.tool.Scopes
	if s, ok := a.request.(control.Scoper); ok {
		need = append(need[:len(need):len(need)], s.NeedsScopes()...)
	}
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	if missing, ok := a.session.grant.missing(need); ok {
		return control.Errorf(control.ScopeDenied, "the grant does not hold %s", missing)
	}
	return nil
}

func (b *Broker) stepScope(_ context.Context, a *admission) (*control.Reply, error) {
	return nil, b.allowed(a)
}

// stepTarget finds what the request is about, and whose it is.
func (b *Broker) stepTarget(ctx context.Context, a *admission) (*control.Reply, error) {
	if a.workspace != "" {
		if _, err := b.grantedWorkspace(a.session, a.workspace); err != nil {
			return nil, err
		}
	}
	if a.tool.Domain == linkDomain {
		return nil, nil
	}
	a.call = Call{Tool: a.tool, Request: a.request, Session: a.session.id, Label: a.session.label,
		PeerPID: a.session.pid, Authority: authority{b: b, s: a.session}}
	target, err := b.resolve(ctx, a)
	if err != nil {
		return nil, err
	}
	a.target = target
	switch {
	case target.WorkspaceID == "":
		a.target.WorkspaceID = a.workspace
	case target.WorkspaceID != a.workspace && a.workspace != "":
		return nil, control.Errorf(control.TargetNotFound, "the target is not in this workspace")
	default:
		if _, err := b.grantedWorkspace(a.session, target.WorkspaceID); err != nil {
			return nil, err
		}
	}
	return nil, b.checkLease(a)
}

// checkLease finds the lease that the session holds on the target. A tool that
// needs one must name exactly that.
func (b *Broker) checkLease(a *admission) error {
	a.lease = b.heldLease(a.session, a.target.Resource)
	if a.tool.Lease && (a.lease == nil || a.lease.id != a.target.LeaseID) {
		return control.Errorf(control.ControlRevoked, "leaseId: is over; a person or another connection controls the panel now")
	}
	if a.lease != nil {
		a.call.Lease = a.lease.id
	}
	return nil
}

// resolve asks the adapter, and does not wait for one that breaks its promise.
func (b *Broker) resolve(ctx context.Context, a *admission) (Target, error) {
	type answer struct {
		target Target
		err    error
	}
	ctx, cancel := context.WithTimeout(ctx, resolveLimit)
	defer cancel()
	begun := time.Now()
	done := make(chan answer, 1)
	if !b.owned.Go(func() {
		var got answer
		defer func() {
			if r := recover(); r != nil {
				b.logPanic(a.tool.Name, "resolve", r)
				got.err = errors.New("the adapter panicked")
			}
			done <- got
		}()
		got.target, got.err = a.adapter.Resolve(ctx, a.call)
	}) {
		return Target{}, errRevoked()
	}
	select {
	case got := <-done:
		if took := time.Since(begun); took > resolveTarget {
			b.log.DebugContext(ctx, "slow target", "tool", a.tool.Name, "dur", took)
		}
		return got.target, got.err
	case <-a.session.life.Done():
		return Target{}, errRevoked()
	case <-ctx.Done():
		return Target{}, control.Errorf(control.DeadlineExceeded, "the target could not be found in time; nothing was done")
	}
}

func (b *Broker) logPanic(tool, where string, value any) {
	b.log.Error("a call panicked", "tool", tool, "step", where, "err", fmt.Sprint(value), "stack", string(debug.Stack()))
}

// stepBounds holds the quotas that a request would use up.
func (b *Broker) stepBounds(_ context.Context, a *admission) (*control.Reply, error) {
	if o := a.target.Origin; o != "" && internalOrigin(o, b.cfg.Internal) {
		return nil, control.Errorf(control.ScopeDenied, "the address is one of Lomi's own")
	}
	if !a.keyed {
		if o := a.target.Origin; o != "" && !a.session.allowsOrigin(o) {
			return nil, control.Errorf(control.ScopeDenied, "the grant does not hold this origin")
		}
		return nil, nil
	}
	if len(a.session.slots) >= maxOperations {
		return nil, errFull()
	}
	return nil, nil
}

func errFull() error {
	return control.Errorf(control.ResourceExhausted, "%d operations of this connection are under way; wait for some to settle", maxOperations)
}

// stepPolicy decides whether a person is asked. Reads never ask.
func (b *Broker) stepPolicy(_ context.Context, a *admission) (*control.Reply, error) {
	if !a.keyed {
		return nil, nil
	}
	q, err := b.judge(a)
	a.question = q
	return nil, err
}

// stepCarryOut reads at once, and gives mutations to an operation of their own.
func (b *Broker) stepCarryOut(ctx context.Context, a *admission) (*control.Reply, error) {
	switch {
	case a.tool.Domain == linkDomain:
		reply, err := b.linkReply(ctx, a)
		if err != nil {
			return nil, err
		}
		b.auditOK(a)
		return &reply, nil
	case a.keyed:
		op, err := b.launch(a)
		if err != nil {
			return nil, err
		}
		return b.await(ctx, a, op)
	}
	return b.read(ctx, a)
}

// read carries out a tool that changes nothing. It answers at the latest when
// the session ends or hosts would give up, whatever the adapter does.
func (b *Broker) read(ctx context.Context, a *admission) (*control.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	stop := context.AfterFunc(a.session.life, cancel)
	defer stop()
	permit := NewPermit(func() error { return b.live(a.session) }, ctx.Done())
	done := make(chan outcome, 1)
	if !b.owned.Go(func() { done <- b.do(ctx, permit, a) }) {
		return nil, errRevoked()
	}
	select {
	case out := <-done:
		if out.err != nil {
			return nil, out.err
		}
		if err := b.live(a.session); err != nil {
			return nil, err
		}
		data, err := b.fillLease(a.session, out.data)
		if err != nil {
			return nil, err
		}
		b.auditOK(a)
		return &control.Reply{Status: "ok", ControlAPIVersion: control.APIVersion, Data: data, Image: out.result.Image}, nil
	case <-ctx.Done(): // also when the session's life ends
		if err := b.live(a.session); err != nil {
			return nil, err
		}
		return nil, control.Errorf(control.DeadlineExceeded, "the tool did not answer in time")
	}
}

// resultKind checks that data is an object of a kind that the tool may answer.
func resultKind(t control.Tool, data json.RawMessage) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("reading the kind of a result: %w", err)
	}
	for _, kind := range t.Results {
		if kind == head.Kind {
			return nil
		}
	}
	return fmt.Errorf("a result of kind %q is none of %s", head.Kind, strings.Join(t.Results, ", "))
}
