package ollama

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/ollama/ollama/api"

	"lomi/models"
	"lomi/models/internal/assemble"
	"lomi/models/internal/guard"
)

// errStopped ends a reply whose reader has gone.
var errStopped = errors.New("the reader stopped")

// chatLine is a line of /api/chat, read leniently where the library's type is
// strict: arguments may be a string, text may be cut within a character.
type chatLine struct {
	Error   guard.Text `json:"error"`
	Message struct {
		Content   guard.Text `json:"content"`
		Thinking  guard.Text `json:"thinking"`
		ToolCalls []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string    `json:"name"`
				Arguments rawObject `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"message"`
	Done            bool           `json:"done"`
	DoneReason      string         `json:"done_reason"`
	PromptEvalCount int            `json:"prompt_eval_count"`
	EvalCount       int            `json:"eval_count"`
	DebugInfo       *api.DebugInfo `json:"_debug_info"`
}

// rawObject keeps JSON as it was written, whatever it is.
type rawObject []byte

// UnmarshalJSON implements json.Unmarshaler.
func (r *rawObject) UnmarshalJSON(data []byte) error {
	*r = append((*r)[:0], data...)
	return nil
}

// Stream implements models.Model. Reasoning of earlier replies is not sent
// again: with it, a prompt would not begin with the one before.
func (c *Client) Stream(ctx context.Context, req models.Request) iter.Seq2[models.Delta, error] {
	return func(yield func(models.Delta, error) bool) {
		err := c.reply(ctx, req, func(d models.Delta) bool { return yield(d, nil) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(models.Delta{}, fmt.Errorf("asking %s: %w", req.Model, err))
		}
	}
}

// reply carries one request to its finish. Give returns false when the reader
// has gone.
func (c *Client) reply(ctx context.Context, req models.Request, give func(models.Delta) bool) error {
	idle := guard.NewIdle(ctx)
	defer idle.Stop()
	details, err := c.details(idle.Context(), req.Model)
	if err != nil {
		return err
	}
	chat, err := c.request(req, details)
	if err != nil {
		return err
	}
	say := func(progress string) bool {
		return give(models.Delta{Kind: models.DeltaProgress, Progress: progress})
	}
	window, err := c.load(idle, req.Model, c.window(req, details), say)
	if err != nil {
		return err
	}
	if !say("reading the prompt") {
		return errStopped
	}
	idle.Expect(c.firstToken(chat), "waiting for the first token")
	answer, err := c.post(idle, "/api/chat", chat)
	if err != nil {
		return err
	}
	defer answer.close()
	r := reader{client: c, idle: idle, lines: answer, assembler: assemble.New(req.Tools), give: give, window: window}
	return r.run()
}

// firstToken is the wait for the first token of a prompt of this size. Three
// bytes a token is fewer than any real text has, so the limit errs on the long
// side.
func (c *Client) firstToken(chat *api.ChatRequest) time.Duration {
	size := 0
	for _, m := range chat.Messages {
		size += len(m.Content)
		for _, call := range m.ToolCalls {
			size += len(call.Function.Arguments.String())
		}
		size += 4096 * len(m.Images)
	}
	size += len(chat.Tools.String())
	return c.limits.FirstToken + time.Duration(size/3)*c.limits.PerToken
}

// reader reads the lines of one reply.
type reader struct {
	client    *Client
	idle      *guard.Idle
	lines     *lines
	assembler *assemble.Assembler
	give      func(models.Delta) bool
	window    int
}

func (r *reader) run() error {
	for {
		var line chatLine
		err := r.lines.next(&line)
		r.idle.Pause() // the reader may take its time
		if err == nil && line.Error != "" {
			err = guard.Status(0, string(line.Error))
		}
		if err != nil {
			// What was held back is text that the model wrote: it is not lost.
			if !r.pass(r.assembler.Abort()) {
				return errStopped
			}
			return cutOff(err)
		}
		if !r.take(line) {
			return errStopped
		}
		if line.Done {
			return r.finish(line) // a second final line is never looked at
		}
		r.idle.Expect(r.client.limits.BetweenTokens, "waiting for the next token")
	}
}

// cutOff names an end that came too early.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) && !guard.Known(err) {
		return fmt.Errorf("the stream ended without its last line: %w", models.ErrCutOff)
	}
	return err
}

func (r *reader) take(line chatLine) bool {
	m := line.Message
	if m.Thinking != "" && !r.pass(r.assembler.Thinking(string(m.Thinking))) {
		return false
	}
	if m.Content != "" && !r.pass(r.assembler.Text(string(m.Content))) {
		return false
	}
	for _, call := range m.ToolCalls {
		r.assembler.Whole(call.ID, call.Function.Name, []byte(call.Function.Arguments))
	}
	return true
}

func (r *reader) finish(line chatLine) error {
	reason := models.FinishStop
	if line.DoneReason == "length" {
		reason = models.FinishLength
	}
	deltas, err := r.assembler.Finish(reason)
	usage := models.Delta{Kind: models.DeltaUsage, Usage: &models.Usage{
		InputTokens: line.PromptEvalCount, OutputTokens: line.EvalCount, ContextWindow: r.window,
	}}
	if n := len(deltas); n > 0 && deltas[n-1].Kind == models.DeltaFinish {
		deltas = append(deltas[:n-1:n-1], usage, deltas[n-1])
	} else {
		deltas = append(deltas, usage)
	}
	if !r.pass(deltas) {
		return errStopped
	}
	return err
}

func (r *reader) pass(deltas []models.Delta) bool {
	for _, d := range deltas {
		if !r.give(d) {
			return false
		}
	}
	return true
}

// RenderPrompt returns the prompt that Ollama makes of a request, without
// running the model. It loads the model as Ollama does for any request.
func (c *Client) RenderPrompt(ctx context.Context, req models.Request) (string, error) {
	idle := guard.NewIdle(ctx)
	defer idle.Stop()
	details, err := c.details(idle.Context(), req.Model)
	if err != nil {
		return "", err
	}
	chat, err := c.request(req, details)
	if err != nil {
		return "", err
	}
	chat.DebugRenderOnly = true
	idle.Expect(c.limits.Load, "rendering the prompt")
	answer, err := c.post(idle, "/api/chat", chat)
	if err != nil {
		return "", fmt.Errorf("rendering the prompt of %s: %w", req.Model, err)
	}
	defer answer.close()
	var line chatLine
	if err := answer.next(&line); err != nil {
		return "", fmt.Errorf("rendering the prompt of %s: %w", req.Model, cutOff(err))
	}
	if line.DebugInfo == nil {
		return "", fmt.Errorf("this Ollama does not show prompts: %w", models.ErrUnsupported)
	}
	return line.DebugInfo.RenderedTemplate, nil
}
