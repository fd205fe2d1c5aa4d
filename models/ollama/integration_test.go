package ollama_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
	"lomi/models/modelstest"
	"lomi/models/ollama"
	"lomi/models/ollama/ollamatest"
)

// The tests below share one real Ollama, because starting and loading is what
// takes the time; each looks at a model of its own.
func TestRealOllama(t *testing.T) {
	server := ollamatest.Start(t)
	client, err := ollama.New(ollama.Config{Address: server.Address})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	for _, test := range []struct {
		name string
		run  func(context.Context, *testing.T, *ollamatest.Server, *ollama.Client)
	}{
		{"turn with a call", testTurnWithCall},
		{"overflow", testOverflow},
		{"length", testLength},
		{"leaked call", testLeakedCall},
		{"cancellation", testCancellation},
		{"library", testLibrary},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(ctx, t, server, client) })
	}
}

func say(role models.Role, text string) models.Message {
	return models.Message{Role: role, Parts: []models.Part{{Kind: models.PartText, Text: text}}}
}

func testTurnWithCall(ctx context.Context, t *testing.T, server *ollamatest.Server, client *ollama.Client) {
	ollamatest.Create(t, server, "turn", ollamatest.Script{
		2: {"I will", " look.", ollamatest.Call("terminal_run", `{"command": "ls"}`)},
		4: {"There is", " one file."},
	})
	req := modelstest.Request("")
	req.Model, req.Window = "turn", 8192
	req.Messages = []models.Message{say(models.RoleSystem, "Be brief."), say(models.RoleUser, "What is here?")}
	first := modelstest.Collect(ctx, t, client, req)
	if first.Err != nil || first.Text != "I will look." || first.Thinking != "" || first.Finish != models.FinishCalls {
		t.Fatalf("got %+v, want text, no thinking and a call", first)
	}
	if diff := cmp.Diff([]string{`terminal_run{"command":"ls"}`}, first.Calls); diff != "" || first.IDs[0] == "" {
		t.Errorf("calls with ids %q (-want +got):\n%s", first.IDs, diff)
	}
	if diff := cmp.Diff([]string{"loading the model", "reading the prompt"}, first.Progress); diff != "" {
		t.Errorf("progress of the first request (-want +got):\n%s", diff)
	}
	if first.Usage.ContextWindow != 8192 || first.Usage.InputTokens == 0 || first.Usage.OutputTokens == 0 {
		t.Errorf("got usage %+v, want the window that was asked for and counts", first.Usage)
	}
	running, err := client.Running(ctx)
	if err != nil || len(running) != 1 || running[0].Window != 8192 || time.Until(running[0].Expires) < 20*time.Minute {
		t.Errorf("got %+v, %v; want one model with a window of 8192, kept for 30 minutes", running, err)
	}
	before, err := client.RenderPrompt(ctx, req)
	if err != nil {
		t.Fatal(err)
	}

	req.Messages = append(req.Messages,
		models.Message{Role: models.RoleAssistant, Parts: []models.Part{
			{Kind: models.PartText, Text: first.Text},
			{Kind: models.PartCall, Call: &models.ToolCall{ID: first.IDs[0], Name: "terminal_run", Arguments: json.RawMessage(`{"command":"ls"}`)}},
		}},
		models.Message{Role: models.RoleTool, Parts: []models.Part{{Kind: models.PartResult, Result: &models.ToolResult{CallID: first.IDs[0], Name: "terminal_run", Text: "a.txt"}}}},
	)
	second := modelstest.Collect(ctx, t, client, req)
	if second.Err != nil || second.Text != "There is one file." || second.Finish != models.FinishStop {
		t.Errorf("got %+v, want the answer", second)
	}
	if diff := cmp.Diff([]string{"reading the prompt"}, second.Progress); diff != "" {
		t.Errorf("the model was loaded again (-want +got):\n%s", diff)
	}
	after, err := client.RenderPrompt(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(after, before) || !strings.Contains(after, "a.txt") {
		t.Errorf("the prompt does not begin with the one before:\n%s\n--- then ---\n%s", before, after)
	}
}

func testOverflow(ctx context.Context, t *testing.T, server *ollamatest.Server, client *ollama.Client) {
	ollamatest.Create(t, server, "small", ollamatest.Script{1: {"Yes."}})
	req := modelstest.Request(strings.Repeat("word ", 2000)) // a byte is a token here
	req.Model, req.Window = "small", 4096
	if got := modelstest.Collect(ctx, t, client, req); !errors.Is(got.Err, models.ErrOverflow) {
		t.Errorf("got %+v, want %v", got, models.ErrOverflow)
	}
	req.Messages = []models.Message{say(models.RoleUser, "short")}
	if got := modelstest.Collect(ctx, t, client, req); got.Err != nil || got.Text != "Yes." {
		t.Errorf("after the overflow: got %+v, want an answer", got)
	}
}

func testLength(ctx context.Context, t *testing.T, server *ollamatest.Server, client *ollama.Client) {
	ollamatest.Create(t, server, "long", ollamatest.Script{1: {"One,", " two,", " three,", " four."}})
	req := modelstest.Request("Count.")
	req.Model, req.MaxOutputTokens = "long", 2
	if got := modelstest.Collect(ctx, t, client, req); got.Err != nil || got.Text != "One, two," || got.Finish != models.FinishLength {
		t.Errorf("got %+v, want two words and length", got)
	}
}

func testLeakedCall(ctx context.Context, t *testing.T, server *ollamatest.Server, client *ollama.Client) {
	ollamatest.Create(t, server, "leaky", ollamatest.Script{1: {"Look.\n<function=files_read>\n", "<parameter=path>\na.txt\n</parameter>\n</function>\n", "</tool_call>"}})
	req := modelstest.Request("Read.")
	req.Model = "leaky"
	got := modelstest.Collect(ctx, t, client, req)
	if diff := cmp.Diff([]string{`files_read{"path":"a.txt"}`}, got.Calls); diff != "" || got.Err != nil {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
}

func testCancellation(ctx context.Context, t *testing.T, server *ollamatest.Server, client *ollama.Client) {
	long := make([]string, 400)
	for i := range long {
		long[i] = strings.Repeat("x", i%7+1) + string(rune('!'+i%90)) + strings.Repeat(" ", i/90+1)
	}
	ollamatest.Create(t, server, "endless", ollamatest.Script{1: long})
	req := modelstest.Request("Go on.")
	req.Model = "endless"
	cause := errors.New("the user pressed stop")
	stopped, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var last error
	pieces := 0
	for d, err := range client.Stream(stopped, req) {
		if d.Kind == models.DeltaText {
			pieces++
			cancel(cause)
		}
		last = err
	}
	if !errors.Is(last, cause) || pieces >= len(long) {
		t.Errorf("got %v after %d pieces, want the cause after a few", last, pieces)
	}
	// One request runs at a time here, so an answer shows that the other ended.
	again := modelstest.Request("Go on.")
	again.Model, again.MaxOutputTokens = "endless", 1
	if got := modelstest.Collect(ctx, t, client, again); got.Err != nil {
		t.Errorf("after the cancellation: %v", got.Err)
	}
}

func testLibrary(ctx context.Context, t *testing.T, server *ollamatest.Server, client *ollama.Client) {
	ollamatest.Create(t, server, "listed", ollamatest.Script{1: {"Yes."}})
	if version, err := client.Version(ctx); err != nil || version == "" {
		t.Errorf("got version %q, %v", version, err)
	}
	list, err := client.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, info := range list {
		if info.Name == "listed:latest" {
			found = true
			if !info.Tools || info.Window != 40960 || info.Size == 0 || info.Note != "" {
				t.Errorf("got %+v, want tools, a window of 40960, a size and no warning", info)
			}
		}
	}
	if !found {
		t.Errorf("the model is not in the list %+v", list)
	}
	if _, err := client.Show(ctx, "absent"); !errors.Is(err, models.ErrNoModel) {
		t.Errorf("got %v for a model that is not there, want %v", err, models.ErrNoModel)
	}
	req := modelstest.Request("Hi")
	req.Model = "absent"
	if got := modelstest.Collect(ctx, t, client, req); !errors.Is(got.Err, models.ErrNoModel) {
		t.Errorf("got %v, want %v", got.Err, models.ErrNoModel)
	}
}
