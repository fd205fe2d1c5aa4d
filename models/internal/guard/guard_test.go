package guard

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lomi/models"
)

func TestTransport(t *testing.T) {
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/there", http.StatusFound)
			return
		}
		io.WriteString(w, "1234567890")
	}))
	defer server.Close()
	get := func(client *http.Client, path string) (*http.Response, string, error) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "secret")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp, string(body), err
	}
	exact := NewClient(Transport{MaxBody: 10, Strip: []string{"Authorization"}})
	if _, body, err := get(exact, "/"); err != nil || body != "1234567890" {
		t.Errorf("a body of just the bound: got %q, %v", body, err)
	}
	if header.Get("Authorization") != "" {
		t.Error("a stripped header left")
	}
	if _, body, err := get(NewClient(Transport{MaxBody: 9}), "/"); !errors.Is(err, ErrTooLarge) || body != "123456789" {
		t.Errorf("a body over the bound: got %q, %v, want %v", body, err, ErrTooLarge)
	}
	if resp, _, _ := get(exact, "/away"); resp.StatusCode != http.StatusFound {
		t.Errorf("got status %d, want the redirect itself", resp.StatusCode)
	}
}

func TestReadLine(t *testing.T) {
	r := bufio.NewReaderSize(strings.NewReader("a\r\n"+strings.Repeat("b", 100)+"\n\nlast"), 16)
	for _, want := range []string{"a", strings.Repeat("b", 100), ""} {
		if line, err := ReadLine(r, 200); string(line) != want || err != nil {
			t.Errorf("got %q, %v, want %q", line, err, want)
		}
	}
	if line, err := ReadLine(r, 200); string(line) != "last" || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v, want the last line and the end", line, err)
	}
	long := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 1000)), 16)
	if _, err := ReadLine(long, 100); !errors.Is(err, models.ErrProtocol) {
		t.Errorf("got %v, want %v", err, models.ErrProtocol)
	}
}

func TestSnippet(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "an empty answer",
		" \n":                             "an empty answer",
		"two\nlines\x1b[31m":              "two lines?[31m",
		"<!DOCTYPE html><script>x":        "an HTML page instead of an answer",
		"bad \xff":                        "bad ?",
		strings.Repeat("ü", 400):          strings.Repeat("ü", 299) + "…",
		"<HTML>" + strings.Repeat("x", 9): "an HTML page instead of an answer",
	} {
		if got := Snippet([]byte(in)); got != want {
			t.Errorf("%.20q: got %q, want %q", in, got, want)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		code int
		said string
		want error
	}{
		{400, "the input length exceeds the context length", models.ErrOverflow},
		{500, "This model's maximum context length is 4096 tokens", models.ErrOverflow},
		{400, `"m" does not support thinking`, models.ErrUnsupported},
		{401, "", models.ErrAuth}, {403, "no", models.ErrAuth}, {404, "", models.ErrNoModel},
		{500, "model 'x' not found", models.ErrNoModel}, {429, "", models.ErrRateLimit}, {503, "", models.ErrRateLimit},
		{504, "", models.ErrTimeout}, {500, "", models.ErrProtocol}, {302, "", models.ErrProtocol}, {0, "boom", models.ErrProtocol},
	} {
		if got := Status(tt.code, tt.said); !errors.Is(got, tt.want) {
			t.Errorf("%d %q: got %v, want %v", tt.code, tt.said, got, tt.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "6": 6 * time.Second, " 3600 ": time.Hour, "0": 0, "-1": 0, "NaN": 0, "soon": 0, "1.5": 1500 * time.Millisecond,
		"1e300": 24 * time.Hour, "+Inf": 24 * time.Hour, "Sun, 01 Mar 2026 10:00:20 GMT": 20 * time.Second, "Sun, 01 Mar 2026 09:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	resp := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"6"}}}
	err := Answer(resp, "slow down")
	if busy, ok := errors.AsType[*models.BusyError](err); !ok || busy.After != 6*time.Second || !errors.Is(err, models.ErrRateLimit) {
		t.Errorf("got %v, want %v in 6 s", err, models.ErrRateLimit)
	}
	resp.StatusCode = 401
	if _, ok := errors.AsType[*models.BusyError](Answer(resp, "")); ok {
		t.Error("a refused key is no busy engine")
	}
}

func TestTextKeepsCutCharacters(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `null`: "", "\"a\xe6\xbc\"": "a\xe6\xbc", "\"\xa2\\n\\u20ac\"": "\xa2\n€",
	} {
		var got Text
		if err := json.Unmarshal([]byte(in), &got); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
	var got Text
	if err := json.Unmarshal([]byte("\"\xff"), &got); err == nil {
		t.Error("a string without an end was accepted")
	}
}
