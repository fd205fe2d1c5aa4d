package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"lomi/models"
)

// scripted is a model whose replies are given one by one; after the last it
// says "done".
type scripted struct {
	mu       sync.Mutex
	replies  []replyFunc
	requests []models.Request
	info     models.Info
	err      error
}

type replyFunc func(ctx context.Context, req models.Request, yield func(models.Delta, error) bool)

func (s *scripted) Resolve(context.Context, string) (models.Model, models.Info, error) {
	info := s.info
	if info.Name == "" {
		info.Name, info.Tools = "m", true
	}
	return s, info, s.err
}

func (s *scripted) Stream(ctx context.Context, req models.Request) iter.Seq2[models.Delta, error] {
	s.mu.Lock()
	s.requests = append(s.requests, req)
	n := len(s.requests)
	reply := says("done")
	if n <= len(s.replies) {
		reply = s.replies[n-1]
	}
	s.mu.Unlock()
	return func(yield func(models.Delta, error) bool) { reply(ctx, req, yield) }
}

func (s *scripted) sent() []models.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]models.Request(nil), s.requests...)
}

func says(texts ...string) replyFunc {
	return func(_ context.Context, _ models.Request, yield func(models.Delta, error) bool) {
		for _, text := range texts {
			if !yield(models.Delta{Kind: models.DeltaText, Text: text}, nil) {
				return
			}
		}
		yield(models.Delta{Kind: models.DeltaFinish, Finish: models.FinishStop, Usage: &models.Usage{InputTokens: 10, OutputTokens: 2}}, nil)
	}
}

// calls makes a reply of tool calls: name, arguments, name, arguments …
func calls(pairs ...string) replyFunc {
	return func(_ context.Context, _ models.Request, yield func(models.Delta, error) bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			call := models.ToolCall{ID: fmt.Sprint("call_", i/2), Name: pairs[i], Arguments: json.RawMessage(pairs[i+1])}
			if !yield(models.Delta{Kind: models.DeltaCall, Call: &call}, nil) {
				return
			}
		}
		yield(models.Delta{Kind: models.DeltaFinish, Finish: models.FinishCalls}, nil)
	}
}

// hangs says something and then waits for the end of its context.
func hangs(text string, started chan<- struct{}) replyFunc {
	return func(ctx context.Context, _ models.Request, yield func(models.Delta, error) bool) {
		if !yield(models.Delta{Kind: models.DeltaText, Text: text}, nil) {
			return
		}
		if started != nil {
			started <- struct{}{}
		}
		<-ctx.Done()
		yield(models.Delta{}, ctx.Err())
	}
}
