package broker

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"lomi/broker/control"
)

// approvalTimeout is how long a question waits for a person.
const approvalTimeout = 120 * time.Second

// What a caller is told. The chat tells these apart by their code: a refusal
// is SCOPE_DENIED, silence is DEADLINE_EXCEEDED.
const (
	textDenied  = "denied by the person; do not try another way to the same end"
	textExpired = "expired unanswered: nobody answered within 120 s, so nothing was done"
)

// Approval is one question to a person about one exact plan. Its id is that of
// the receipt that waits.
type Approval struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"` // "origin" or "risk"
	Session   string          `json:"session"`
	Label     string          `json:"label"`
	Tool      string          `json:"tool"`
	Title     string          `json:"title"`
	Workspace string          `json:"workspaceId,omitempty"`
	Resource  string          `json:"resource,omitempty"`
	Summary   string          `json:"summary"` // one plain line
	Reason    string          `json:"reason"`
	Command   string          `json:"command,omitempty"`
	Origin    string          `json:"origin,omitempty"`
	Rule      string          `json:"rule,omitempty"` // what DecideAndRemember would stop asking about
	Arguments json.RawMessage `json:"arguments,omitempty"`
	PlanHash  string          `json:"planHash"`
	Requested time.Time       `json:"requested"`
	Expires   time.Time       `json:"expires"`
	Outcome   string          `json:"outcome,omitempty"` // in approval.settled: approved, denied, expired, withdrawn
}

// approval is a question that waits. Its info never changes; the broker's
// mutex guards answered.
type approval struct {
	info     Approval
	op       *operation
	answer   chan bool // buffered: the one answer
	answered bool
}

// present lists the question of an operation for people.
func (b *Broker) present(op *operation) *approval {
	a, q := op.admission, op.admission.question
	now := time.Now()
	p := &approval{op: op, answer: make(chan bool, 1), info: Approval{
		ID: op.id, Kind: q.kind, Session: a.session.id, Label: a.session.label, Tool: a.tool.Name, Title: a.tool.Title,
		Workspace: a.target.WorkspaceID, Resource: a.target.Resource, Summary: summary(a), Reason: visible(q.reason),
		Command: visible(a.target.Command), Origin: q.origin, Rule: q.rule, Arguments: plainArguments(a.raw),
		PlanHash: planHash(a), Requested: now, Expires: now.Add(approvalTimeout),
	}}
	b.mu.Lock()
	b.approvals[op.id] = p
	b.mu.Unlock()
	b.publish("approval.requested", p.info)
	return p
}

// ask waits for a person while the receipt stands in awaiting_user. It reports
// whether the plan may be carried out; if not, the receipt is settled.
func (b *Broker) ask(op *operation, p *approval) bool {
	timer := time.NewTimer(approvalTimeout)
	defer timer.Stop()
	yes, end, how := b.awaitAnswer(op, p, timer.C)
	b.mu.Lock()
	p.answered = true
	delete(b.approvals, op.id)
	b.mu.Unlock()
	settled := p.info
	settled.Outcome = how
	b.publish("approval.settled", settled)
	if !yes {
		b.settle(op, outcome{state: stateOfRefusal(end.Code), effect: control.EffectNone, code: end.Code, message: end.Message})
		return false
	}
	b.remember(op.admission.session, op.admission.question)
	return b.dispatch(op)
}

// awaitAnswer gives the person's answer, or why there will be none.
func (b *Broker) awaitAnswer(op *operation, p *approval, timeout <-chan time.Time) (bool, control.Error, string) {
	select {
	case yes := <-p.answer:
		if yes {
			return true, control.Error{}, "approved"
		}
		return false, control.Error{Code: control.ScopeDenied, Message: textDenied}, "denied"
	case <-timeout:
		// An answer that came in the same instant counts.
		select {
		case yes := <-p.answer:
			if yes {
				return true, control.Error{}, "approved"
			}
			return false, control.Error{Code: control.ScopeDenied, Message: textDenied}, "denied"
		default:
		}
		return false, control.Error{Code: control.DeadlineExceeded, Message: textExpired}, "expired"
	case <-op.cancel:
		return false, control.Error{Message: "cancelled before anyone answered"}, "withdrawn"
	case <-op.admission.session.life.Done():
		return false, *errRevoked(), "withdrawn"
	}
}

// stateOfRefusal: an answer, or its absence, fails a receipt; a wish to cancel
// and the end of the session cancel it.
func stateOfRefusal(code control.Code) control.State {
	if code == control.ScopeDenied || code == control.DeadlineExceeded {
		return control.StateFailed
	}
	return control.StateCancelled
}

// dispatch makes an approved plan running, if it is still the same plan.
func (b *Broker) dispatch(op *operation) bool {
	a := op.admission
	target, err := b.resolve(a.session.life, a)
	switch {
	case err != nil:
	case target.WorkspaceID == "":
		target.WorkspaceID = a.workspace
	}
	if err == nil && !samePlan(a.target, target) {
		err = control.Errorf(control.StaleGeneration, "what was approved has changed meanwhile; nothing was done")
	}
	if err == nil {
		err = b.checkLease(a)
	}
	if err != nil {
		b.settle(op, failedBefore(err))
		return false
	}
	receipt, err := b.cfg.Ledger.Dispatch(b.store, op.id)
	if err != nil {
		b.log.Error("recording an approval", "receipt", op.id, "err", err)
		b.settle(op, failedBefore(err))
		return false
	}
	op.set(receipt)
	b.publishReceipt(receipt)
	return true
}

// remember keeps what a yes allows for the rest of the session.
func (b *Broker) remember(s *session, q *question) {
	s.mu.Lock()
	changed := false
	switch {
	case q.origin != "" && len(s.grant.origins) < maxRules:
		s.grant.origins[q.origin] = true
		changed = true
	case q.run != "":
		if len(s.grant.runs) >= maxRules {
			clear(s.grant.runs) // asks again; a run is over long before
		}
		s.grant.runs[q.run] = true
	}
	s.mu.Unlock()
	if changed {
		b.publish("session.changed", b.sessionInfo(s))
	}
}

// Approvals lists the questions that wait, the oldest first.
func (b *Broker) Approvals() []Approval {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []Approval{}
	for _, p := range slices.SortedFunc(maps.Values(b.approvals), func(x, y *approval) int { return x.info.Requested.Compare(y.info.Requested) }) {
		if !p.answered {
			out = append(out, p.info)
		}
	}
	return out
}

// Decide takes a person's answer to one question. The first answer wins; a
// later one is told so.
func (b *Broker) Decide(_ context.Context, id string, yes bool) error {
	return b.decide(id, yes)
}

// DecideAndRemember says yes, and that commands like this one need not be
// asked about again in this session. It is refused, without an answer being
// given, where Approval.Rule is empty.
func (b *Broker) DecideAndRemember(_ context.Context, id string) error {
	b.mu.Lock()
	p, ok := b.approvals[id]
	b.mu.Unlock()
	if !ok {
		return errNotFound()
	}
	if p.info.Rule == "" {
		return control.Errorf(control.ResourceExhausted, "answer: no rule can be made from this command")
	}
	if err := b.decide(id, true); err != nil {
		return err // another answer was first: this one leaves nothing behind
	}
	s := p.op.admission.session
	s.mu.Lock()
	if !slices.Contains(s.grant.rules, p.info.Rule) && len(s.grant.rules) < maxRules {
		s.grant.rules = append(s.grant.rules, p.info.Rule)
	}
	s.mu.Unlock()
	b.publish("session.changed", b.sessionInfo(s))
	return nil
}

func (b *Broker) decide(id string, yes bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, ok := b.approvals[id]
	switch {
	case !ok:
		return errNotFound()
	case p.answered:
		return errSettled()
	}
	p.answered = true
	p.answer <- yes
	return nil
}

func summary(a *admission) string {
	if a.target.Summary != "" {
		return visible(a.target.Summary)
	}
	return a.tool.Title
}
