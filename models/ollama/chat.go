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
	wanted := c.window(req, details)
	f := first{client: c, idle: idle, model: req.Model, limit: c.firstToken(chat), say: say}
	// A model that has just answered is not asked about again: the answer would
	// cost a round trip before each first token.
	window := c.takeWarmth(loadKey(req.Model, wanted))
	f.assumed = window > 0
	if !f.assumed {
		if window, err = c.load(idle, req.Model, wanted, say); err != nil {
			return err
		}
	}
	answer, line, err := f.line(chat)
	if answer != nil {
		defer answer.close()
	}
	if err != nil && answer == nil {
		return err
	}
	r := reader{client: c, idle: idle, lines: answer, assembler: assemble.New(req.Tools), give: give,
		model: req.Model, wanted: wanted, window: window, assumed: f.assumed}
	return r.run(line, err)
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

// firstLook is how long a first token may take before a person is told why.
const firstLook = time.Second

// first waits for the first line of a reply.
type first struct {
	client  *Client
	idle    *guard.Idle
	model   string
	assumed bool // that the model is loaded; nobody looked
	limit   time.Duration
	say     func(string) bool
}

// firstLine is what came of asking. Lines is nil when there is no answer.
type firstLine struct {
	lines *lines
	line  chatLine
	err   error
}

// line asks and returns the first line. An error with lines is one of reading.
func (f *first) line(chat *api.ChatRequest) (*lines, chatLine, error) {
	if !f.say("reading the prompt") {
		return nil, chatLine{}, errStopped
	}
	f.idle.Expect(f.limit, "waiting for the first token")
	came := make(chan firstLine, 1)
	go func() { // ends with the request; its result is always received below
		var l firstLine
		if l.lines, l.err = f.client.post(f.idle, "/api/chat", chat); l.err == nil {
			l.err = l.lines.next(&l.line)
		}
		came <- l
	}()
	if f.assumed {
		if err := f.watch(came); err != nil {
			f.idle.Stop()
			if l := <-came; l.lines != nil {
				l.lines.close()
			}
			return nil, chatLine{}, err
		}
	}
	l := <-came
	f.idle.Pause() // the reader may take its time
	return l.lines, l.line, l.err
}

// watch looks, once a first token takes its time, whether the model is being
// loaded after all: somebody may have unloaded it. It returns when the line is
// there to be received, or when loading has been seen to the end.
func (f *first) watch(came chan firstLine) error {
	tick := time.NewTicker(firstLook)
	defer tick.Stop()
	loading := false
	for {
		select {
		case l := <-came:
			came <- l // there is room for one
			return nil
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(f.idle.Context(), firstLook) // a token may come meanwhile
		window, err := f.client.windowOf(ctx, f.model)
		cancel()
		switch {
		case err != nil: // whatever it is, the reply will say it
			return nil
		case window > 0 && loading:
			f.idle.Expect(f.limit, "waiting for the first token")
			if !f.say("reading the prompt") {
				return errStopped
			}
			return nil
		case window > 0:
			return nil
		case !loading:
			loading = true
			f.idle.Expect(f.client.limits.Load, "loading the model")
			if !f.say("loading the model") {
				return errStopped
			}
		}
	}
}

// reader reads the lines of one reply.
type reader struct {
	client    *Client
	idle      *guard.Idle
	lines     *lines
	assembler *assemble.Assembler
	give      func(models.Delta) bool
	model     string
	wanted    int // window
	window    int
	assumed   bool // window is from an earlier reply
}

// run reads from the first line on.
func (r *reader) run(line chatLine, err error) error {
	for {
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
		line = chatLine{}
		err = r.lines.next(&line)
	}
}

// settleWindow reads the window back when it was only assumed, after the last
// token, where nobody waits for it, and notes that the model is warm.
func (r *reader) settleWindow() {
	if r.assumed {
		now, err := r.client.windowOf(r.idle.Context(), r.model)
		if err != nil || now == 0 {
			return // the next reply looks before it asks
		}
		if now != r.window {
			r.window = now // Ollama gave another one: what it was asked for has to be asked again
			return
		}
	}
	r.client.keepWarmth(loadKey(r.model, r.wanted), r.window)
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
	r.settleWindow()
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
