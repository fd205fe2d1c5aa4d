package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"time"

	"lomi/broker/catalog/link"
	"lomi/broker/control"
	"lomi/broker/ledger"
)

const (
	// linkDomain is carried out by the broker itself: its tools are about the
	// connection.
	linkDomain = "link"
	// cancelWait is how long lomi_operation_cancel waits to tell the end.
	cancelWait = 2 * time.Second
	// epochMargin is how long before its end lomi_connect replaces an epoch.
	epochMargin = time.Hour
)

// linkReply answers the tools of the domain link.
func (b *Broker) linkReply(ctx context.Context, a *admission) (control.Reply, error) {
	if _, ok := a.request.(*link.StatusRequest); ok {
		body, err := b.status(a.session)
		return control.Reply{Status: "ok", ControlAPIVersion: control.APIVersion, Data: body}, err
	}
	data, err := b.linkTool(ctx, a)
	if err != nil {
		return control.Reply{}, err
	}
	return control.OK(data, nil)
}

func (b *Broker) linkTool(ctx context.Context, a *admission) (any, error) {
	switch r := a.request.(type) {
	case *link.DiagnosticsRequest:
		return link.Diagnostics{Kind: "diagnostics", Connection: "connected", UIReady: true,
			NextStep: "Call lomi_workspace_list, then lomi_connect with one of its workspaces for the retry epoch."}, nil
	case *link.ConnectRequest:
		return b.connect(ctx, a.session, r)
	case *link.OperationGetRequest:
		return b.operationGet(ctx, a.session, r)
	case *link.OperationCancelRequest:
		return b.operationCancel(ctx, a.session, r)
	case *link.EventsReadRequest:
		return b.eventsRead(ctx, a.session, r)
	}
	return nil, fmt.Errorf("the broker does not know the tool %s", a.tool.Name)
}

// statusBody is an encoded status and what it was made from.
type statusBody struct {
	capabilities []link.Capability
	limitations  []string
	body         json.RawMessage
}

// status encodes the status of a session. Hosts ask for it often and it seldom
// changes, so the body is kept and made again only when what it says would
// differ: encoding 74 tools is most of the cost of a warm read.
func (b *Broker) status(s *session) (json.RawMessage, error) {
	capabilities, limitations := b.capabilities(s)
	if kept := s.status.Load(); kept != nil && slices.Equal(kept.capabilities, capabilities) && slices.Equal(kept.limitations, limitations) {
		return kept.body, nil
	}
	body, err := json.Marshal(link.Status{Kind: "status", Connection: "connected", PairingRequestID: s.id, InstanceID: b.cfg.Instance,
		UIReady: true, Platform: runtime.GOOS + "/" + runtime.GOARCH, Capabilities: capabilities, Limitations: limitations})
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	s.status.Store(&statusBody{capabilities: capabilities, limitations: limitations, body: body})
	return body, nil
}

func (b *Broker) connect(ctx context.Context, s *session, r *link.ConnectRequest) (any, error) {
	w, err := b.grantedWorkspace(s, r.WorkspaceID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	epoch, end, scopes := s.epoch, s.epochs[s.epoch], sorted(s.grant.scopes)
	s.mu.Unlock()
	if time.Until(end) < epochMargin {
		wait, cancel := b.bounded(ctx, s)
		defer cancel()
		if epoch, err = b.renewEpoch(wait, s); err != nil {
			return nil, b.ofStore(s, err)
		}
	}
	return link.Connected{Kind: "connected", InstanceID: b.cfg.Instance, WorkspaceID: w.ID, ProjectID: w.ProjectID,
		RetryEpoch: epoch, Scopes: scopes, Revision: w.Revision}, nil
}

// newRetryEpoch makes an epoch durable.
func (b *Broker) newRetryEpoch(ctx context.Context, pairing string) (string, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	epoch, err := b.cfg.Ledger.NewEpoch(ctx, pairing)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("opening a retry epoch: %w", err)
	}
	return epoch.ID, epoch.Expires, nil
}

// renewEpoch gives a session that outlives its epoch another one. The old one
// stays good to its end, so that what was sent under it can be repeated.
func (b *Broker) renewEpoch(ctx context.Context, s *session) (string, error) {
	id, end, err := b.newRetryEpoch(ctx, s.id)
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for old, until := range s.epochs {
		if len(s.epochs) >= maxEpochs || !time.Now().Before(until) {
			delete(s.epochs, old)
		}
	}
	s.epoch, s.epochs[id] = id, end
	return id, nil
}

func (b *Broker) operationGet(ctx context.Context, s *session, r *link.OperationGetRequest) (any, error) {
	id := r.OperationID
	if id == "" {
		var err error
		if id, err = b.operationByKey(ctx, s, r); err != nil {
			return nil, err
		}
	}
	if r.WaitMS > 0 {
		b.waitFor(ctx, s, id, time.Duration(r.WaitMS)*time.Millisecond)
	}
	receipt, err := b.receiptOf(ctx, s, id)
	if err != nil {
		return nil, err
	}
	return b.tell(s, receipt)
}

// tell gives a receipt to its owner, if the grant still holds what its result
// shows.
func (b *Broker) tell(s *session, r ledger.Receipt) (any, error) {
	if r.Workspace != "" {
		if _, err := b.grantedWorkspace(s, r.Workspace); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	missing, denied := s.grant.missing(b.tools[r.Key.Tool].Scopes)
	s.mu.Unlock()
	if denied {
		return nil, control.Errorf(control.ScopeDenied, "the grant does not hold %s", missing)
	}
	op, err := b.operationOf(s, r)
	if err != nil {
		return nil, err
	}
	if r.State.Settled() {
		b.cfg.Ledger.Delivered(r)
	}
	return op, nil
}

func (b *Broker) operationByKey(ctx context.Context, s *session, r *link.OperationGetRequest) (string, error) {
	epoch, err := s.liveEpoch(r.RetryEpoch, time.Now())
	if err != nil {
		return "", err
	}
	project := r.ProjectID
	if project == "" {
		if project, err = s.onlyProject(); err != nil {
			return "", err
		}
	}
	key := ledger.Key{Pairing: s.id, Epoch: epoch, Project: project, Tool: r.Tool, Request: r.RequestKey}
	if op := b.flying(key); op != nil {
		return op.id, nil
	}
	wait, cancel := b.bounded(ctx, s)
	defer cancel()
	receipt, found, err := b.lookup(wait, key)
	switch {
	case err != nil:
		return "", b.ofStore(s, err)
	case !found:
		return "", control.Errorf(control.TargetNotFound, "requestKey: no operation has it")
	}
	return receipt.ID, nil
}

func (s *session) onlyProject() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var only string
	for _, p := range s.grant.workspaces {
		if only != "" && p.projectID != only {
			return "", control.Errorf(control.ResourceExhausted, "projectId: is required, because more than one project is approved")
		}
		only = p.projectID
	}
	return only, nil
}

// waitFor waits until an operation of the session settles.
func (b *Broker) waitFor(ctx context.Context, s *session, id string, limit time.Duration) {
	op := b.underWay(id)
	if op == nil || op.admission.session != s {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-op.settled:
	case <-timer.C:
	case <-ctx.Done():
	case <-s.life.Done():
	}
}

func (b *Broker) operationCancel(ctx context.Context, s *session, r *link.OperationCancelRequest) (any, error) {
	op := b.underWay(r.OperationID)
	if op != nil && op.admission.session == s {
		b.requestCancel(op)
		b.waitFor(ctx, s, r.OperationID, cancelWait)
	}
	receipt, err := b.receiptOf(ctx, s, r.OperationID)
	if err != nil {
		return nil, err
	}
	return b.tell(s, receipt)
}

func (b *Broker) eventsRead(ctx context.Context, s *session, r *link.EventsReadRequest) (any, error) {
	after := uint64(0)
	if r.Cursor != "" {
		n, err := strconv.ParseUint(r.Cursor, 10, 64)
		if err != nil {
			return nil, control.Errorf(control.CursorExpired, "cursor: is none that this tool gave")
		}
		after = n
	}
	wait, cancel := b.bounded(ctx, s)
	defer cancel()
	page, err := b.cfg.Ledger.History(wait, ledger.HistoryQuery{Pairing: s.id, Workspace: r.WorkspaceID, After: after, Limit: r.Limit})
	if err != nil {
		return nil, b.ofStore(s, err)
	}
	out := link.Events{Kind: "events", NextCursor: strconv.FormatUint(page.Next, 10), HasMore: page.More}
	for _, item := range page.Items {
		out.Items = append(out.Items, link.Event{Sequence: strconv.FormatUint(item.Seq, 10), Kind: "operation_state",
			OperationID: item.Receipt, WorkspaceID: item.Workspace, Tool: item.Tool, State: item.State,
			EffectState: item.Effect, TimestampSeconds: item.Time.Unix()})
	}
	return out, nil
}
