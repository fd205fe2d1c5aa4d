package broker

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"lomi/broker/catalog/terminal"
	"lomi/broker/control"
)

// sum is the one hash of this package.
func sum(data []byte) [sha256.Size]byte { return sha256.Sum256(data) }

// question is what a person is asked about one exact plan.
type question struct {
	kind   string // "origin" or "risk"
	reason string // why it is asked, for the person
	origin string // that a yes adds to the session's grant
	run    string // for which a yes is enough until it ends
	rule   string // that "do not ask again" would leave behind, "" for none
}

// judge decides whether a mutation needs a person. The order matters: an
// origin outside the grant asks under every policy, because the policy speaks
// of what the grant holds.
func (b *Broker) judge(a *admission) (*question, error) {
	if b.yolo.Load() {
		return nil, nil
	}
	t := a.target
	if t.Origin != "" && !a.session.allowsOrigin(t.Origin) {
		return &question{kind: "origin", origin: t.Origin, reason: "opens an address outside the grant"}, nil
	}
	a.session.mu.Lock()
	defer a.session.mu.Unlock()
	g := a.session.grant
	if g.policy == PolicyGrant || onlyInterrupts(a.request) {
		return nil, nil
	}
	// "none" speaks to the policy that weighs risks, not to the one that asks
	// about everything.
	if g.policy == PolicyAskForRisk && t.Risk == "none" {
		return nil, nil
	}
	if t.Refused != "" {
		return nil, control.Errorf(control.ScopeDenied, "%s", t.Refused)
	}
	q := &question{kind: "risk", reason: riskOf(a)}
	if t.Run != "" {
		q.run = t.Resource + " " + t.Run
		if g.runs[q.run] {
			return nil, nil
		}
	}
	if g.policy == PolicyAskAlways {
		return q, nil
	}
	if t.Command != "" {
		if readsOnly(t.Command) || ruleCovers(g.rules, t.Command) {
			return nil, nil
		}
		q.rule, _ = commandRule(t.Command)
		return q, nil
	}
	if t.Risk == "" && !a.tool.Destructive && !a.tool.OpenWorld {
		return nil, nil
	}
	return q, nil
}

// onlyInterrupts reports a Ctrl+C, which never asks: what a person wants
// stopped must not wait for another person.
func onlyInterrupts(request any) bool {
	switch r := request.(type) {
	case *terminal.InterruptRequest:
		return true
	case *terminal.InputRequest:
		return r.Input.Type == "key" && r.Input.Key == "ctrl_c"
	}
	return false
}

func riskOf(a *admission) string {
	switch {
	case a.target.Risk != "" && a.target.Risk != "none":
		return a.target.Risk
	case a.target.Command != "":
		return "runs a command"
	case a.tool.Destructive && a.tool.OpenWorld:
		return "can change or remove things, here and elsewhere"
	case a.tool.Destructive:
		return "can change or remove things"
	case a.tool.OpenWorld:
		return "reaches beyond this computer"
	}
	return "the session asks about everything"
}

// samePlan reports whether what a person approved is still what would happen.
// The summary may differ: a panel's title changes by itself.
func samePlan(approved, now Target) bool {
	approved.Summary = now.Summary
	return approved == now
}

// planHash names one exact plan: who, which tool, which arguments, on what.
func planHash(a *admission) string {
	plan, err := json.Marshal([]any{a.session.id, a.tool.Name, fmt.Sprintf("%x", a.fingerprint), a.target})
	if err != nil {
		return "" // strings only: cannot fail, and an empty hash equals no plan
	}
	return fmt.Sprintf("%x", sum(plan))
}

// visible writes a text so that a person sees all of it where it is: control,
// invisible and direction characters as escapes (S-61).
func visible(text string) string {
	if strings.IndexFunc(text, confusing) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if confusing(r) {
			fmt.Fprintf(&out, `\u{%04x}`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// plainArguments is what a person is shown of the arguments: all but the
// bookkeeping, so that no lease leaves the broker's memory.
func plainArguments(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil
	}
	for _, name := range []string{"leaseId", "retryEpoch", "requestKey", "expectedRevision"} {
		delete(fields, name)
	}
	out, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return out
}
