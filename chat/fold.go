package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lomi/agent"
	"lomi/models"
)

// textCrashed ends a turn whose daemon stopped under it.
const textCrashed = "Lomi stopped before this turn ended."

// fold is what the events of a log amount to: the conversation, its history as
// a model sees it, and what was under way when the log ends. The page folds the
// same events; testdata holds both to the same answer.
type fold struct {
	info    Conversation
	history []historyItem
	results models.Message // of the calls of the last reply

	turn      string
	usage     models.Usage
	reply     string // message being written
	parts     []models.Part
	calls     []openCall
	approvals []string
	questions []string
	elements  int // the highest number of a page's element so far
}

// historyItem is a message, or a compaction of those before it.
type historyItem struct {
	message    models.Message
	compaction *agent.Compaction
}

type openCall struct {
	message string
	call    models.ToolCall
	started bool
}

// readFold folds a whole log.
func readFold(ctx context.Context, store Store, id string) (*fold, error) {
	f := &fold{info: Conversation{ID: id}}
	for {
		events, err := store.Read(ctx, id, f.info.LastSeq, readPage)
		if err != nil {
			return nil, fmt.Errorf("reading conversation %s: %w", id, err)
		}
		for _, e := range events {
			if err := f.add(e); err != nil {
				return nil, fmt.Errorf("reading event %d of conversation %s: %w", e.Seq, id, err)
			}
		}
		if len(events) < readPage {
			return f, nil
		}
	}
}

// add takes the next event. An unknown kind is of a newer version and passes.
func (f *fold) add(e Event) error {
	f.info.LastSeq = e.Seq
	f.info.UpdatedAt = e.Time
	switch e.Kind {
	case ConversationCreated:
		f.info.CreatedAt = e.Time
		return decodeInto(e, f.addConversation)
	case ConversationChanged:
		return decodeInto(e, f.addConversation)
	case MessageAdded:
		return decodeInto(e, func(d messageData) {
			f.flushResults()
			f.history = append(f.history, historyItem{message: models.Message{Role: d.Role, Parts: d.Parts}})
		})
	case TurnStarted:
		return decodeInto(e, func(d turnStartedData) { f.turn, f.info.Turn = d.Turn, d.Turn })
	case TurnEnded:
		return decodeInto(e, f.addTurnEnded)
	case ReplyStarted:
		return decodeInto(e, func(d replyStartedData) {
			f.flushResults()
			f.reply, f.parts = d.Message, nil
		})
	case TextAppended:
		return decodeInto(e, f.addText)
	case ReplyEnded:
		return decodeInto(e, f.addReplyEnded)
	case CallStarted:
		return decodeInto(e, func(d callStartedData) { f.markStarted(d.Call) })
	case CallEnded:
		return decodeInto(e, f.addCallEnded)
	case ApprovalRequested:
		return decodeInto(e, func(d approvalData) { f.approvals = append(f.approvals, d.ID) })
	case ApprovalSettled:
		return decodeInto(e, func(d approvalData) { f.approvals = without(f.approvals, d.ID) })
	case QuestionAsked:
		return decodeInto(e, func(d questionData) { f.questions = append(f.questions, d.ID) })
	case QuestionAnswered:
		return decodeInto(e, func(d questionData) { f.questions = without(f.questions, d.ID) })
	case ContextCompacted:
		return decodeInto(e, func(d compactedData) {
			f.flushResults()
			f.history = append(f.history, historyItem{compaction: &d.Compaction})
		})
	}
	return nil
}

func decodeInto[T any](e Event, use func(T)) error {
	var data T
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return fmt.Errorf("decoding %s: %w", e.Kind, err)
	}
	use(data)
	return nil
}

func without(ids []string, id string) []string {
	return slices.DeleteFunc(ids, func(s string) bool { return s == id })
}

func (f *fold) addConversation(d conversationData) {
	set := func(into *string, v *string) {
		if v != nil {
			*into = *v
		}
	}
	set(&f.info.Title, d.Title)
	set(&f.info.Model, d.Model)
	set(&f.info.Policy, d.Policy)
	if d.Domains != nil {
		f.info.Domains = *d.Domains
	}
	if d.ProjectID != "" || d.WorkspaceID != "" || d.ProjectPath != "" {
		f.info.ProjectID, f.info.ProjectPath, f.info.WorkspaceID = d.ProjectID, d.ProjectPath, d.WorkspaceID
	}
}

func (f *fold) addTurnEnded(d turnEndedData) {
	f.flushResults()
	f.turn, f.info.Turn, f.reply = "", "", ""
	f.parts, f.calls, f.approvals, f.questions = nil, nil, nil, nil
	f.usage = d.Usage
}

func (f *fold) addText(d TextDelta) {
	if d.Message != f.reply || d.Part < 0 || d.Part > 1<<10 {
		return
	}
	for len(f.parts) <= d.Part {
		f.parts = append(f.parts, models.Part{Kind: models.PartText})
	}
	p := &f.parts[d.Part]
	p.Kind = d.Kind
	if d.Offset == len(p.Text) {
		p.Text += d.Text
	}
}

func (f *fold) addReplyEnded(d replyEndedData) {
	f.reply, f.parts = "", nil
	f.calls = nil
	for _, p := range d.Parts {
		if p.Kind == models.PartCall && p.Call != nil {
			f.calls = append(f.calls, openCall{message: d.Message, call: *p.Call})
		}
	}
	f.history = append(f.history, historyItem{message: models.Message{Role: models.RoleAssistant, Parts: d.Parts}})
}

func (f *fold) markStarted(id string) {
	for i := range f.calls {
		if f.calls[i].call.ID == id {
			f.calls[i].started = true
		}
	}
}

func (f *fold) addCallEnded(d callEndedData) {
	f.calls = slices.DeleteFunc(f.calls, func(c openCall) bool { return c.call.ID == d.Call })
	text := d.Text
	for _, image := range d.Images {
		text += fmt.Sprintf("\n(A picture was shown here; it is kept as artifact %s.)", image.Artifact)
	}
	f.results.Parts = append(f.results.Parts, models.Part{Kind: models.PartResult,
		Result: &models.ToolResult{CallID: d.Call, Name: d.Name, Text: text, IsError: d.IsError}})
	if strings.HasPrefix(d.Name, "browser_") {
		f.elements = max(f.elements, highestElement(d.Text))
	}
}

var elementNumber = regexp.MustCompile(`(?m)^\s*(?:[+~-] )?\[(\d{1,9})\] `)

// highestElement finds the highest number of an element in a result, so that a
// restarted daemon goes on counting where the conversation stopped.
func highestElement(text string) int {
	highest := 0
	for _, m := range elementNumber.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			highest = max(highest, n)
		}
	}
	return highest
}

func (f *fold) flushResults() {
	if len(f.results.Parts) > 0 {
		f.results.Role = models.RoleTool
		f.history = append(f.history, historyItem{message: f.results})
		f.results = models.Message{}
	}
}

// window builds the prompt from the history.
func (f *fold) window(cfg agent.WindowConfig) *agent.Window {
	f.flushResults()
	w := agent.NewWindow(cfg, nil)
	var segment []models.Message
	flush := func() {
		for _, m := range agent.Repair(segment) {
			w.Add(m)
		}
		segment = nil
	}
	for _, item := range f.history {
		if item.compaction == nil {
			segment = append(segment, item.message)
			continue
		}
		flush()
		w.Apply(*item.compaction)
	}
	flush()
	return w
}

// repair returns the facts that close what a crash left open: the text that was
// kept, one result for every call, the questions nobody will answer, and the
// turn itself (bugs 19 and 21, F-68). A log that was closed in order needs none,
// so repairing twice adds nothing.
func (f *fold) repair() []fact {
	if f.turn == "" {
		return nil
	}
	var facts []fact
	if f.reply != "" {
		facts = append(facts, fact{ReplyEnded, replyEndedData{Message: f.reply, Parts: f.parts}})
	}
	for _, id := range f.approvals {
		facts = append(facts, fact{ApprovalSettled, approvalData{ID: id, Outcome: withdrawn}})
	}
	for _, id := range f.questions {
		none := ""
		facts = append(facts, fact{QuestionAnswered, questionData{ID: id, Answer: &none}})
	}
	for _, c := range f.calls {
		if !c.started {
			facts = append(facts, fact{CallStarted, callStartedData{Turn: f.turn, Message: c.message, Call: c.call.ID,
				Name: c.call.Name, Arguments: orEmptyObject(c.call.Arguments), Title: callTitle(c.call)}})
		}
		facts = append(facts, fact{CallEnded, lostCall(c)})
	}
	return append(facts, fact{TurnEnded, turnEndedData{Turn: f.turn, StopReason: agent.StopInterrupted, Error: textCrashed}})
}

func lostCall(c openCall) callEndedData {
	d := callEndedData{Call: c.call.ID, Name: c.call.Name, IsError: true, Outcome: agent.OutcomeInterrupted,
		Text: "Interrupted: Lomi stopped while this call was running. It may have had its effect; look before you repeat it."}
	if !c.started {
		d.Outcome, d.Text = agent.OutcomeNotRun, "Not run: Lomi stopped before this call began."
	}
	return d
}
