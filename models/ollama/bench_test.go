package ollama_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ollama/ollama/api"

	"lomi/models"
	"lomi/models/modelstest"
	"lomi/models/ollama"
	"lomi/models/ollama/ollamatest"
)

// BenchmarkFirstToken asks the same Ollama the same question directly and
// through the client, in turns, and reports the medians: what the client adds
// to the first token, in milliseconds and as a ratio.
func BenchmarkFirstToken(b *testing.B) {
	server := ollamatest.Start(b)
	ollamatest.Create(b, server, "fast", ollamatest.Script{1: {"Yes,", " it is."}})
	client, err := ollama.New(ollama.Config{Address: server.Address})
	if err != nil {
		b.Fatal(err)
	}
	req := modelstest.Request("Is it?")
	req.Model = "fast"
	through := func() time.Duration {
		begin := time.Now()
		var took time.Duration
		// Read to the end: a reply that is broken off keeps the one slot busy.
		for d, err := range client.Stream(b.Context(), req) {
			if err != nil {
				b.Fatal(err)
			}
			if d.Kind == models.DeltaText && took == 0 {
				took = time.Since(begin)
			}
		}
		return took
	}
	body := directBody(b, req)
	direct := func() time.Duration {
		took, err := firstLine(b.Context(), server.Address, body)
		if err != nil {
			b.Fatal(err)
		}
		return took
	}
	through() // loads the model and opens the connections
	direct()
	var a, c []time.Duration
	for b.Loop() {
		a = append(a, direct())
		c = append(c, through())
	}
	median := func(d []time.Duration) float64 {
		slices.Sort(d)
		return float64(d[len(d)/2]) / 1e6
	}
	b.ReportMetric(median(a), "direct-ms")
	b.ReportMetric(median(c), "client-ms")
	b.ReportMetric(median(c)-median(a), "added-ms")
	b.ReportMetric(median(c)/median(a), "ratio")
}

func directBody(b *testing.B, req models.Request) []byte {
	b.Helper()
	off := false
	chat := api.ChatRequest{
		Model: req.Model, Messages: []api.Message{{Role: "user", Content: req.Messages[0].Parts[0].Text}},
		Truncate: &off, Shift: &off, Options: map[string]any{"num_ctx": req.Window},
	}
	for _, spec := range req.Tools {
		tool := api.Tool{Type: "function", Function: api.ToolFunction{Name: spec.Name, Description: spec.Description}}
		if err := json.Unmarshal(spec.Parameters, &tool.Function.Parameters); err != nil {
			b.Fatal(err)
		}
		chat.Tools = append(chat.Tools, tool)
	}
	body, err := json.Marshal(chat)
	if err != nil {
		b.Fatal(err)
	}
	return body
}

// firstLine is the shortest way to the first token: a request and a line.
func firstLine(ctx context.Context, address string, body []byte) (time.Duration, error) {
	begin := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/api/chat", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, errors.New(resp.Status)
	}
	r := bufio.NewReader(resp.Body)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	var v api.ChatResponse
	if err := json.Unmarshal(line, &v); err != nil || v.Message.Content == "" {
		return 0, errors.Join(err, errors.New("the first line has no text"))
	}
	took := time.Since(begin)
	_, err = io.Copy(io.Discard, r)
	return took, err
}
