package chat

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"lomi/agent"
	"lomi/broker/control"
	"lomi/models"
)

// askTimeout is how long a question waits for a person.
const askTimeout = 10 * time.Minute

// askTool is the one tool that the broker knows nothing of.
const askTool = "ask_user"

func newID() string { return control.NewID() }

// toolbox is what one turn may do: what the session offers, and asking the
// person.
type toolbox struct {
	service *Service
	turn    *running
	conv    *conversation
	domains []string
	view    view
}

func (s *Service) toolbox(turn *running, c *conversation, info Conversation, about models.Info) agent.Tools {
	return &toolbox{service: s, turn: turn, conv: c, domains: info.Domains,
		view: view{chars: agent.ResultLimit(about.Window), vision: about.Vision}}
}

// Specs implements agent.Tools.
func (b *toolbox) Specs(context.Context) ([]models.ToolSpec, error) {
	var specs []models.ToolSpec
	if b.conv.session != nil {
		specs = b.conv.session.Specs(b.domains)
	}
	return append(specs, askSpec()), nil
}

// Call implements agent.Tools.
func (b *toolbox) Call(ctx context.Context, call models.ToolCall) iter.Seq2[agent.Update, error] {
	if call.Name == askTool {
		return b.ask(ctx, call)
	}
	if b.conv.session == nil {
		return one(failed("There is no connection to Lomi's broker, so no tool can run."))
	}
	return b.conv.session.Call(ctx, call, b.view)
}

func one(r agent.Result) iter.Seq2[agent.Update, error] {
	return func(yield func(agent.Update, error) bool) { yield(agent.Update{Result: &r}, nil) }
}

func failed(format string, args ...any) agent.Result {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	return agent.Result{Text: text, IsError: true, Outcome: agent.OutcomeError}
}

type askArguments struct {
	Question string   `json:"question"`
	Options  []string `json:"options,omitempty"`
}

// ask puts a question to the person and waits. It is an event of the log and
// no effect, so no broker is asked.
func (b *toolbox) ask(ctx context.Context, call models.ToolCall) iter.Seq2[agent.Update, error] {
	return func(yield func(agent.Update, error) bool) {
		var args askArguments
		if bad := decodeArguments(call, &args); bad != "" {
			yield(agent.Update{Result: ptr(failed("%s", bad))}, nil)
			return
		}
		if strings.TrimSpace(args.Question) == "" {
			yield(agent.Update{Result: ptr(failed("question: must not be empty. Say what you want to know."))}, nil)
			return
		}
		if p := b.service.cfg.Presence; p != nil && !p.Present() {
			yield(agent.Update{Result: ptr(failed("Nobody is here to answer. Decide with what you know, or end your turn with the question."))}, nil)
			return
		}
		q := agent.Question{ID: control.NewID(), Text: args.Question, Options: args.Options}
		answers := b.service.expect(b.turn, q.ID)
		defer b.service.expect(b.turn, "")
		if !yield(agent.Update{Question: &q}, nil) {
			return
		}
		result := agent.Result{}
		timer := time.NewTimer(askTimeout)
		defer timer.Stop()
		select {
		case q.Answer = <-answers:
			result = agent.Result{Text: "The person answered: " + q.Answer, Outcome: agent.OutcomeOK}
		case <-timer.C:
			result = agent.Result{Text: "The person did not answer within 10 minutes.", IsError: true, Outcome: agent.OutcomeExpired}
		case <-ctx.Done():
		}
		q.Answered = true
		if yield(agent.Update{Question: &q}, nil) {
			yield(agent.Update{Result: &result}, nil)
		}
	}
}

// expect opens a question of a turn, "" for none, and returns where its answer
// comes.
func (s *Service) expect(turn *running, question string) <-chan string {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn.question = question
	turn.answer = make(chan string, 1)
	return turn.answer
}

func ptr[T any](v T) *T { return &v }
