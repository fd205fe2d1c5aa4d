package chat

import (
	"context"
	"encoding/json"
	"fmt"

	"lomi/agent"
	"lomi/models"
)

// recorder writes what a turn tells into its conversation's log.
type recorder struct {
	log  *Log
	turn string
}

// Record implements agent.Recorder.
func (r *recorder) Record(ctx context.Context, event agent.Event) error {
	f, err := r.fact(event)
	if err != nil {
		return err
	}
	return r.log.append(ctx, f)
}

func (r *recorder) fact(event agent.Event) (fact, error) {
	switch e := event.(type) {
	case agent.ReplyStarted:
		return fact{ReplyStarted, replyStartedData{Turn: r.turn, Message: e.Message, Step: e.Step}}, nil
	case agent.ReplyEnded:
		return fact{ReplyEnded, replyEndedData{Message: e.Message, Parts: e.Parts, Finish: e.Finish, Usage: e.Usage}}, nil
	case agent.CallStarted:
		return fact{CallStarted, callStartedData{Turn: r.turn, Message: e.Message, Call: e.Call.ID, Name: e.Call.Name,
			Arguments: orEmptyObject(e.Call.Arguments), Title: callTitle(e.Call)}}, nil
	case agent.CallEnded:
		return fact{CallEnded, callEnded(e)}, nil
	case agent.ApprovalChanged:
		a := approvalData{ID: e.Approval.ID, Kind: e.Approval.Kind, Summary: e.Approval.Summary, Call: e.Call,
			Detail: e.Approval.Detail, Outcome: e.Approval.Outcome}
		if a.Outcome == "" {
			return fact{ApprovalRequested, a}, nil
		}
		return fact{ApprovalSettled, a}, nil
	case agent.QuestionChanged:
		q := questionData{ID: e.Question.ID, Call: e.Call, Question: e.Question.Text, Options: e.Question.Options}
		if !e.Question.Answered {
			return fact{QuestionAsked, q}, nil
		}
		return fact{QuestionAnswered, questionData{ID: q.ID, Call: q.Call, Answer: &e.Question.Answer}}, nil
	case agent.Compacted:
		return fact{ContextCompacted, compactedData{Turn: r.turn, Compaction: e.Compaction, Note: e.Note}}, nil
	case agent.Noticed:
		return fact{NoticeAdded, noticeData{Turn: r.turn, Text: e.Text}}, nil
	}
	return fact{}, fmt.Errorf("recording %T: no such event", event)
}

func callEnded(e agent.CallEnded) callEndedData {
	data := callEndedData{Call: e.Call, Name: e.Name, IsError: e.Result.IsError, Text: e.Result.Text,
		Receipt: e.Result.Receipt, Outcome: e.Result.Outcome, DurationMS: e.Duration.Milliseconds()}
	for _, p := range e.Result.Pictures {
		data.Images = append(data.Images, imageData{MediaType: p.Image.MediaType, Artifact: p.Artifact})
	}
	return data
}

// orEmptyObject keeps the log decodable whatever an engine handed over.
func orEmptyObject(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || !json.Valid(raw) {
		return json.RawMessage("{}")
	}
	return raw
}

// Show implements agent.Recorder.
func (r *recorder) Show(d agent.Delta) {
	switch {
	case d.Text != "":
		r.log.showText(TextDelta{Message: d.Message, Part: d.Part, Kind: d.Kind, Offset: d.Offset, Text: d.Text})
	case d.Progress != nil:
		r.log.show(Item{Progress: &Progress{Call: d.Call, State: d.Progress.State,
			ElapsedMS: d.Progress.Elapsed.Milliseconds(), Tail: d.Progress.Tail}})
	case d.Status != "":
		r.log.show(Item{Status: &Status{Turn: r.turn, State: d.Status}})
	}
}

// callTitle says in a few words what a call is about, for its card.
func callTitle(call models.ToolCall) string {
	var args map[string]any
	if json.Unmarshal(call.Arguments, &args) != nil {
		return call.Name
	}
	for _, field := range []string{"command", "url", "question", "text", "path", "element", "key", "find", "operation", "name", "terminal"} {
		if v, ok := args[field]; ok {
			return call.Name + ": " + clip(fmt.Sprint(v), 120)
		}
	}
	return call.Name
}
