package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lomi/cmd/lomi/tui"
)

// stopTimeout bounds the request to stop a turn when the person interrupts.
const stopTimeout = 5 * time.Second

// talk is one conversation from this side of the daemon.
type talk struct {
	admin  *admin
	flags  chatFlags
	env    env
	screen *tui.Screen // nil without a prompt

	id    string // conversation
	model string
	seq   int64 // last event seen
}

// conversationInfo is what the daemon says of a conversation.
type conversationInfo struct {
	ID          string    `json:"id"`
	Title       string    `json:"title"`
	Model       string    `json:"model"`
	ProjectPath string    `json:"projectPath"`
	WorkspaceID string    `json:"workspaceId"`
	LastSeq     int64     `json:"lastSeq"`
	UpdatedAt   time.Time `json:"updatedAt"`
}

// start opens the project and the conversation, or goes on with one.
func (t *talk) start(ctx context.Context) error {
	if t.flags.conversation != "" {
		var c conversationInfo
		if err := t.admin.call(ctx, "GET", "/api/conversations/"+url.PathEscape(t.flags.conversation), nil, &c); err != nil {
			return err
		}
		t.id, t.model, t.seq = c.ID, c.Model, c.LastSeq
		if t.flags.model != "" && t.flags.model != c.Model {
			t.model = t.flags.model
			return t.admin.call(ctx, "POST", "/api/conversations/"+c.ID+"/settings", map[string]any{"model": t.flags.model}, nil)
		}
		return nil
	}
	var w struct {
		ID string `json:"id"`
	}
	if err := t.admin.call(ctx, "POST", "/api/projects", map[string]string{"path": t.flags.project}, &w); err != nil {
		return err
	}
	name := t.flags.model
	if name == "" {
		var err error
		if name, err = t.firstModel(ctx); err != nil {
			return err
		}
	}
	var c conversationInfo
	body := map[string]any{"workspaceId": w.ID, "model": name, "domains": t.flags.domains}
	if err := t.admin.call(ctx, "POST", "/api/conversations", body, &c); err != nil {
		return err
	}
	t.id, t.model, t.seq = c.ID, c.Model, c.LastSeq
	return nil
}

// firstModel is the model of a conversation for which none was named: one that
// can use tools, before one that cannot, before the guide. The page chooses
// the same way.
func (t *talk) firstModel(ctx context.Context) (string, error) {
	var answer struct {
		Connections []modelConnection `json:"connections"`
	}
	if err := t.admin.call(ctx, "GET", "/api/models", nil, &answer); err != nil {
		return "", err
	}
	best := "demo/guide"
	for _, c := range answer.Connections {
		for _, m := range c.Models {
			switch name := c.Name + "/" + m.Name; {
			case c.Kind == "demo" || c.LeavesMachine: // what leaves the machine is chosen by name
			case m.Tools:
				return name, nil
			case best == "demo/guide":
				best = name
			}
		}
	}
	return best, nil
}

// turn says something and shows what comes of it until the turn has ended. It
// returns the stop reason.
func (t *talk) turn(ctx context.Context, text string, show printer) (string, error) {
	after := t.seq
	if err := t.admin.call(ctx, "POST", "/api/conversations/"+t.id+"/messages", map[string]string{"text": text}, nil); err != nil {
		return "", err
	}
	reading, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stopped := make(chan struct{})
	go func() { // ends with the turn, whose return cancels reading
		defer close(stopped)
		t.stopOnInterrupt(ctx, reading)
	}()
	reason := ""
	err := follow(reading, t.admin, t.id, after, t.screen != nil, func(f frame) (bool, error) {
		if f.Event != nil {
			t.seq = f.Event.Seq
			if err := t.decide(reading, *f.Event); err != nil {
				return false, err
			}
		}
		if err := show.show(f); err != nil {
			return false, err
		}
		if f.Event == nil || f.Event.Kind != "turn.ended" {
			return false, nil
		}
		var end struct {
			StopReason string `json:"stopReason"`
		}
		if err := json.Unmarshal(f.Event.Data, &end); err != nil {
			return false, fmt.Errorf("reading the end of the turn: %w", err)
		}
		reason = end.StopReason
		return true, nil
	})
	cancel()
	<-stopped
	return reason, err
}

// stopOnInterrupt asks the daemon to stop the turn when the person presses
// Ctrl+C, and leaves reading on: the turn's end is still to be shown.
func (t *talk) stopOnInterrupt(ctx, reading context.Context) {
	interrupted := ctx
	if t.screen != nil {
		var done context.CancelFunc
		interrupted, done = t.screen.Interrupted(ctx)
		defer done()
	}
	select {
	case <-reading.Done():
		return
	case <-interrupted.Done():
	}
	stop, cancel := context.WithTimeout(reading, stopTimeout)
	defer cancel()
	if err := t.admin.call(stop, "POST", "/api/conversations/"+t.id+"/stop", nil, nil); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(t.env.stderr, "lomi: stopping the turn: "+err.Error())
	}
}

// asked is an approval or a question as the log has it.
type asked struct {
	ID       string   `json:"id"`
	Kind     string   `json:"kind"`
	Summary  string   `json:"summary"`
	Question string   `json:"question"`
	Options  []string `json:"options"`
}

// decide answers what an event asks, as --approve says. Without a terminal
// "ask" leaves it to the page.
func (t *talk) decide(ctx context.Context, e event) error {
	if e.Kind != "approval.requested" && e.Kind != "question.asked" {
		return nil
	}
	var a asked
	if err := json.Unmarshal(e.Data, &a); err != nil {
		return fmt.Errorf("reading a question: %w", err)
	}
	if e.Kind == "question.asked" {
		if t.screen == nil {
			return nil
		}
		answer, err := t.screen.Answer(ctx, a.Question, a.Options)
		if err != nil {
			return err
		}
		return late(t.admin.call(ctx, "POST", "/api/conversations/"+t.id+"/answers", map[string]string{"id": a.ID, "answer": answer}, nil))
	}
	yes := t.flags.approve == "grant"
	if t.flags.approve == "ask" {
		if t.screen == nil {
			return nil
		}
		open, err := t.showWhole(ctx, a)
		if err != nil || !open {
			return err
		}
		if yes, err = t.screen.Confirm(ctx, a.Summary); err != nil {
			return err
		}
	}
	return late(t.answer(ctx, a, yes))
}

// longestShown is the longest command that is decided about in a terminal. What
// is longer scrolls out of sight, and is for the page.
const longestShown = 2000

// showWhole prints everything that a yes would allow, before the question
// stands there. open is false when there is nothing to ask here any more.
func (t *talk) showWhole(ctx context.Context, a asked) (open bool, err error) {
	if a.Kind == "pairing" {
		t.screen.Block(fmt.Sprintf("It may use %s in %s, and is asked about anything risky. Commands run as you, without a sandbox.",
			strings.Join(t.flags.domains, " and "), t.flags.project))
		return true, nil
	}
	var answer struct {
		Approvals []approvalRow `json:"approvals"`
	}
	if err := t.admin.call(ctx, "GET", "/api/approvals", nil, &answer); err != nil {
		return false, err
	}
	i := slices.IndexFunc(answer.Approvals, func(r approvalRow) bool { return r.ID == a.ID })
	if i < 0 {
		return false, nil // answered elsewhere, or expired
	}
	row := answer.Approvals[i]
	if len(row.Command) > longestShown {
		t.screen.Note("?", fmt.Sprintf("a command of %d bytes waits for you in the page (lomi open)", len(row.Command)))
		return false, nil
	}
	t.screen.Block(strings.TrimSpace(row.what() + "\n" + row.Reason))
	return true, nil
}

// answer carries a decision to the daemon.
func (t *talk) answer(ctx context.Context, a asked, yes bool) error {
	if a.Kind != "pairing" {
		word := "no"
		if yes {
			word = "yes"
		}
		return t.admin.call(ctx, "POST", "/api/approvals/"+url.PathEscape(a.ID), map[string]string{"answer": word}, nil)
	}
	if !yes {
		return t.admin.call(ctx, "POST", "/api/pairings/"+url.PathEscape(a.ID)+"/reject", nil, nil)
	}
	var c conversationInfo
	if err := t.admin.call(ctx, "GET", "/api/conversations/"+t.id, nil, &c); err != nil {
		return err
	}
	return t.admin.call(ctx, "POST", "/api/pairings/"+url.PathEscape(a.ID)+"/approve", trim(map[string]any{
		"domains": t.flags.domains, "workspaces": []string{c.WorkspaceID}, "origins": t.flags.origins,
	}), nil)
}

// late forgives a decision that came after another one, or after the question
// had ended: the log says which answer counted.
func late(err error) error {
	if f, ok := errors.AsType[*failure](err); ok && (f.status == http.StatusNotFound || f.status == http.StatusConflict) {
		return nil
	}
	return err
}
