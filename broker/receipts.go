package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lomi/broker/control"
	"lomi/broker/ledger"
)

// ReceiptInfo is what people may know of a receipt. Result is left out of
// events and lists.
type ReceiptInfo struct {
	ID        string          `json:"id"`
	Session   string          `json:"session"`
	Label     string          `json:"label,omitempty"` // while the session lives
	Tool      string          `json:"tool"`
	Title     string          `json:"title"`
	Summary   string          `json:"summary"`
	Project   string          `json:"projectId,omitempty"`
	Workspace string          `json:"workspaceId,omitempty"`
	Resource  string          `json:"resource,omitempty"`
	State     control.State   `json:"state"`
	Effect    control.Effect  `json:"effect"`
	Code      control.Code    `json:"code,omitempty"`
	Message   string          `json:"message,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Created   time.Time       `json:"created"`
	Updated   time.Time       `json:"updated"`
	Completed time.Time       `json:"completed,omitzero"`
}

// ReceiptFilter narrows a list of receipts. Empty fields do not.
type ReceiptFilter struct {
	Session   string
	State     control.State
	Unsettled bool
	Before    string // only what is older than this receipt
	Limit     int    // at most 500, which is also what zero means
}

func (b *Broker) receiptInfo(r ledger.Receipt) ReceiptInfo {
	info := ReceiptInfo{ID: r.ID, Session: r.Session, Tool: r.Key.Tool, Title: b.tools[r.Key.Tool].Title, Summary: r.Summary,
		Project: r.Key.Project, Workspace: r.Workspace, Resource: r.Target.ResourceID, State: r.State, Effect: r.Effect,
		Code: r.Code, Message: r.Message, Created: r.Created, Updated: r.Updated, Completed: r.Completed}
	if s := b.session(r.Session); s != nil {
		info.Label = s.label
	}
	return info
}

func (b *Broker) publishReceipt(r ledger.Receipt) { b.publish("receipt.changed", b.receiptInfo(r)) }

// Receipts lists receipts for people, the newest first, without results.
func (b *Broker) Receipts(ctx context.Context, f ReceiptFilter) ([]ReceiptInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	all, err := b.cfg.Ledger.List(ctx, ledger.Filter{Session: f.Session, State: f.State, Unsettled: f.Unsettled, Before: f.Before, Limit: f.Limit})
	if err != nil {
		return nil, fmt.Errorf("listing receipts: %w", err)
	}
	out := make([]ReceiptInfo, 0, len(all))
	for _, r := range all {
		out = append(out, b.receiptInfo(r))
	}
	return out, nil
}

// Receipt gives one receipt for people, with its result.
func (b *Broker) Receipt(ctx context.Context, id string) (ReceiptInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	r, err := b.cfg.Ledger.Get(ctx, id)
	if err != nil {
		return ReceiptInfo{}, fmt.Errorf("reading a receipt: %w", err)
	}
	info := b.receiptInfo(r)
	info.Result = r.Result
	return info, nil
}

// Cancel asks for the end of an operation, as a person may for every session.
func (b *Broker) Cancel(id string) error {
	op := b.underWay(id)
	if op == nil {
		return errNotFound()
	}
	b.requestCancel(op)
	return nil
}

// audit puts a denied attempt on record; the ledger's queue never makes the
// caller wait. at names the step that refused, which says more than the code.
func (b *Broker) audit(session, tool, workspace, at string, code control.Code, took time.Duration) {
	detail := "at " + at
	if workspace != "" {
		detail += " in " + workspace
	}
	b.cfg.Ledger.Audit(ledger.AuditRow{Kind: "denied", Pairing: session, Session: session, Tool: tool, Code: code,
		Detail: fmt.Sprintf("%s after %s", detail, took.Round(time.Microsecond))})
}

// auditOK puts a read on record.
func (b *Broker) auditOK(a *admission) {
	detail := ""
	if a.target.Resource != "" {
		detail = a.target.Resource
	} else if a.workspace != "" {
		detail = a.workspace
	}
	b.cfg.Ledger.Audit(ledger.AuditRow{Kind: "read", Pairing: a.session.id, Session: a.session.id, Tool: a.tool.Name, Detail: detail})
}
