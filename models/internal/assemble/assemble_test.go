package assemble

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/models"
)

var offered = []models.ToolSpec{
	{Name: "terminal_run", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"},"wait_s":{"type":"integer"},"ratio":{"type":"number"},"all":{"type":"boolean"},"paths":{"type":"array"}}}`)},
	{Name: "files_read", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)},
}

// reply is what a stream came to, in a form that compares.
type reply struct {
	Text, Thinking string
	Calls          []string // name, arguments, and ! before what must not run
	Finish         models.FinishReason
	Err            string
}

func collect(r *reply, deltas []models.Delta) {
	for _, d := range deltas {
		switch d.Kind {
		case models.DeltaText:
			r.Text += d.Text
		case models.DeltaThinking:
			r.Thinking += d.Text
		case models.DeltaCall:
			mark := ""
			if d.Call.Malformed != "" {
				mark = "!"
			}
			r.Calls = append(r.Calls, mark+d.Call.Name+string(d.Call.Arguments))
		case models.DeltaFinish:
			r.Finish = d.Finish
		}
	}
}

// read feeds text in pieces of n bytes.
func read(text string, n int, reason models.FinishReason) reply {
	var r reply
	a := New(offered)
	for len(text) > 0 {
		m := min(n, len(text))
		collect(&r, a.Text(text[:m]))
		text = text[m:]
	}
	deltas, err := a.Finish(reason)
	collect(&r, deltas)
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

func TestLeakedText(t *testing.T) {
	const run = `{"name": "terminal_run", "arguments": {"command": "ls"}}`
	const ls = `terminal_run{"command": "ls"}`
	for _, tt := range []struct {
		name, in string
		want     reply
	}{
		{"plain text", "Hello, world.", reply{Text: "Hello, world."}},
		{"call in tags", "I look.\n<tool_call>\n" + run + "\n</tool_call>", reply{Text: "I look.\n", Calls: []string{ls}}},
		{"two calls in tags", "<tool_call>" + run + "</tool_call>\n<tool_call>" + run + "</tool_call>", reply{Calls: []string{ls, ls}}},
		{"opening tag missing", run + "\n</tool_call>", reply{Calls: []string{ls}}},
		{"opening tag missing, tool unknown", `{"name":"nope","arguments":{}}` + "\n</tool_call>", reply{Calls: []string{"nope{}"}}},
		{"closing tag missing, arguments whole", "<tool_call>\n" + run, reply{Calls: []string{ls}}},
		{"closing tag missing, arguments cut", `<tool_call>{"name": "terminal_run", "arguments": {"comma`, reply{Calls: []string{`!terminal_run"{\"name\": \"terminal_run\", \"arguments\": {\"comma"`}}},
		{"opening tag alone", "<tool_call>", reply{Calls: []string{`!unreadable_call""`}}},
		{"bare JSON", "Now:\n" + run, reply{Text: "Now:\n", Calls: []string{ls}}},
		{"bare JSON twice", run + "\n" + run, reply{Calls: []string{ls, ls}}},
		{"bare JSON of an unknown tool", `{"name":"nope","arguments":{}}`, reply{Text: `{"name":"nope","arguments":{}}`}},
		{"bare JSON as an example", run + "\nThis is how it looks.", reply{Text: run + "\nThis is how it looks."}},
		{"bare JSON that is an answer", `{"name": "Ann", "age": 5}`, reply{Text: `{"name": "Ann", "age": 5}`}},
		{"bare JSON with other keys", `{"city": {"name": "Oslo"}}`, reply{Text: `{"city": {"name": "Oslo"}}`}},
		{"bare JSON cut", `{"name": "terminal_run", "arguments": {"comm`, reply{Calls: []string{`!terminal_run"{\"name\": \"terminal_run\", \"arguments\": {\"comm"`}}},
		{"JSON in mid-line", "so " + run, reply{Text: "so " + run}},
		{"function wrapper", `{"type":"function","function":{"name":"files_read","arguments":{"path":"a"}}}`, reply{Calls: []string{`files_read{"path":"a"}`}}},
		{"parameters for arguments", `{"name":"files_read","parameters":{"path":"a"}}`, reply{Calls: []string{`files_read{"path":"a"}`}}},
		{"function form", "<function=terminal_run>\n<parameter=command>\nls -l\n</parameter>\n<parameter=wait_s>\n30\n</parameter>\n</function>", reply{Calls: []string{`terminal_run{"command":"ls -l","wait_s":30}`}}},
		{"function form in tags", "<tool_call>\n<function=files_read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>", reply{Calls: []string{`files_read{"path":"a.txt"}`}}},
		{"function form, opening tag missing", "Look.\n<function=files_read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>", reply{Text: "Look.\n", Calls: []string{`files_read{"path":"a.txt"}`}}},
		{"function form without arguments", "<function=files_read>\n</function>", reply{Calls: []string{`files_read{}`}}},
		{"function form cut in a value", "<function=files_read>\n<parameter=path>\na.t", reply{Calls: []string{`!files_read"\u003cfunction=files_read\u003e\n\u003cparameter=path\u003e\na.t"`}}},
		{"function form, end missing", "<function=files_read>\n<parameter=path>\na.txt\n</parameter>\n", reply{Calls: []string{`files_read{"path":"a.txt"}`}}},
		{"function form with its tags in a value", "<function=files_read>\n<parameter=path>\n</parameter> x </function>\n</parameter>\n</function>", reply{Calls: []string{`files_read{"path":"\u003c/parameter\u003e x \u003c/function\u003e"}`}}},
		{"call in a fence", "```json\n" + run + "\n```", reply{Calls: []string{ls}}},
		{"tagged call in a fence", "```\n<tool_call>\n" + run + "\n</tool_call>\n```\n", reply{Calls: []string{ls}}},
		{"fence with other content", "```go\nfunc f() {\n{\n}\n}\n```\ndone", reply{Text: "```go\nfunc f() {\n{\n}\n}\n```\ndone"}},
		{"fence with JSON that is no call", "```json\n{\"a\": 1}\n```\n", reply{Text: "```json\n{\"a\": 1}\n```\n"}},
		{"fenced example, then prose", "```json\n" + run + "\n```\nThat is a call.", reply{Text: "```json\n" + run + "\n```\nThat is a call."}},
		{"prose about the tag", "The <tool_call> tag opens a call.", reply{Text: "The <tool_call> tag opens a call."}},
		{"bug_7: brace inside a string", `<tool_call>{"name":"terminal_run","arguments":{"command":"if (a) { b } ]}"}}</tool_call>`, reply{Calls: []string{`terminal_run{"command":"if (a) { b } ]}"}`}}},
		{"closing tag inside a string", `<tool_call>{"name":"files_read","arguments":{"path":"</tool_call>"}}</tool_call>`, reply{Calls: []string{`files_read{"path":"</tool_call>"}`}}},
		{"Windows path, escaped", `<tool_call>{"name":"files_read","arguments":{"path":"C:\\Users\\a \"b\".txt"}}</tool_call>`, reply{Calls: []string{`files_read{"path":"C:\\Users\\a \"b\".txt"}`}}},
		{"Windows path, bare", `<tool_call>{"name":"files_read","arguments":{"path":"C:\Users"}}</tool_call>ok`, reply{Text: "ok", Calls: []string{`!files_read"{\"name\":\"files_read\",\"arguments\":{\"path\":\"C:\\Users\"}}"`}}},
		{"arguments as a string", `<tool_call>{"name":"files_read","arguments":"{\"path\":\"a\"}"}</tool_call>`, reply{Calls: []string{`files_read{"path":"a"}`}}},
		{"arguments as a list", `<tool_call>{"name":"files_read","arguments":["a"]}</tool_call>`, reply{Calls: []string{`!files_read"[\"a\"]"`}}},
		{"numbers and booleans as strings", `<tool_call>{"name":"terminal_run","arguments":{"command":7,"wait_s":"20","ratio":"0.5","all":"True","paths":"[1]"}}</tool_call>`, reply{Calls: []string{`terminal_run{"command":"7","wait_s":20,"ratio":0.5,"all":true,"paths":[1]}`}}},
		{"numbers that are none", `<tool_call>{"name":"terminal_run","arguments":{"wait_s":"soon","all":"maybe"}}</tool_call>`, reply{Calls: []string{`terminal_run{"wait_s":"soon","all":"maybe"}`}}},
		{"arguments twice", `<tool_call>{"name":"files_read","arguments":{"path":"a"},"arguments":{"path":"b"}}</tool_call>`, reply{Calls: []string{`!files_read"{\"name\":\"files_read\",\"arguments\":{\"path\":\"a\"},\"arguments\":{\"path\":\"b\"}}"`}}},
		{"arguments twice, in another case", `<tool_call>{"name":"files_read","arguments":{},"Arguments":{"path":"b"}}</tool_call>`, reply{Calls: []string{`!files_read"{\"name\":\"files_read\",\"arguments\":{},\"Arguments\":{\"path\":\"b\"}}"`}}},
		{"a parameter twice stays for the tool to refuse", "<function=files_read>\n<parameter=path>\na\n</parameter>\n<parameter=path>\nb\n</parameter>\n</function>", reply{Calls: []string{`files_read{"path":"a","path":"b"}`}}},
		{"F-27 half a character stays for the tool to refuse", `<tool_call>{"name":"files_read","arguments":"{\"path\":\"\ud800\"}"}</tool_call>`, reply{Calls: []string{`files_read{"path":"\ud800"}`}}},
		{"a whole character in a string", `<tool_call>{"name":"files_read","arguments":"{\"path\":\"\ud83d\ude42\\\\\"}"}</tool_call>`, reply{Calls: []string{`files_read{"path":"🙂\\"}`}}},
		{"prefixed name", `<tool_call>{"name":"functions.terminal_run","arguments":{}}</tool_call>`, reply{Calls: []string{`terminal_run{}`}}},
		{"MCP style prefix", `<tool_call>{"name":"mcp__lomi__files_read","arguments":{}}</tool_call>`, reply{Calls: []string{`files_read{}`}}},
		{"a longer name is not a prefix", `<tool_call>{"name":"safe_files_read","arguments":{}}</tool_call>`, reply{Calls: []string{`safe_files_read{}`}}},
		{"big integers stay", `<tool_call>{"name":"nope","arguments":{"n":9007199254740993}}</tool_call>`, reply{Calls: []string{`nope{"n":9007199254740993}`}}},
		{"thinking in the text", "<think>\nhm\n</think>\n\nYes.", reply{Thinking: "\nhm\n", Text: "Yes."}},
		{"thinking, then a call", "<think>hm</think>\n<tool_call>" + run + "</tool_call>", reply{Thinking: "hm", Calls: []string{ls}}},
		{"thinking never closed", "<think>hm, and so on", reply{Thinking: "hm, and so on", Finish: models.FinishThinkingOnly}},
		{"a call considered in thinking", "<think>maybe <tool_call>" + run + "</tool_call>", reply{Thinking: "maybe <tool_call>" + run + "</tool_call>", Finish: models.FinishThinkingOnly}},
		{"blank", " \n\n", reply{Err: models.ErrEmpty.Error()}},
		{"characters of four bytes", "漢🙂漢", reply{Text: "漢🙂漢"}},
		{"less-than signs", "a < b <c <t <tool", reply{Text: "a < b <c <t <tool"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := tt.want
			if want.Finish == "" && want.Err == "" {
				want.Finish = models.FinishStop
				if want.Calls != nil {
					want.Finish = models.FinishCalls
				}
			}
			for _, n := range []int{1, 2, 3, 7, 64, 1 << 20} {
				if diff := cmp.Diff(want, read(tt.in, n, models.FinishStop)); diff != "" {
					t.Errorf("in pieces of %d bytes (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

// TestFinishLengthRunsNoCall shows the calls of a reply that was cut off, whole
// or not, and lets none of them run.
func TestFinishLengthRunsNoCall(t *testing.T) {
	for in, text := range map[string]string{
		`ok<tool_call>{"name":"files_read","arguments":{}}</tool_call>`: "ok",
		`ok<tool_call>{"name":"files_read","argum`:                      "ok",
		"ok\n<function=files_read>\n<parameter=path>\nx":                "ok",
		`{"name":"files_read","arguments":{"path":"x`:                   "",
		"<think>hm</think><tool_call>{\"name\":\"files_read\"":          "",
	} {
		got := read(in, 5, models.FinishLength)
		if got.Finish != models.FinishLength || len(got.Calls) != 1 || !strings.HasPrefix(got.Calls[0], "!files_read") || strings.TrimSpace(got.Text) != text {
			t.Errorf("%q: got %+v, want its text, length and a call that must not run", in, got)
		}
	}
}

func TestCutCharacterAtTheEnd(t *testing.T) {
	if got := read("a\xe6\xbc", 1, models.FinishStop); got.Text != "a\ufffd" {
		t.Errorf("got %q, want a and one replacement character", got.Text)
	}
}

func TestPieces(t *testing.T) {
	at := func(i int) *int { return &i }
	type piece struct {
		index          *int
		id, name, args string
	}
	twelve := []piece{{at(0), "a", "files_read", ""}}
	for _, c := range `{"path":"x"}` {
		twelve = append(twelve, piece{at(0), "", "", string(c)})
	}
	for _, tt := range []struct {
		name string
		in   []piece
		want []string
	}{
		{"bug_1: no index, two ids", []piece{{nil, "a", "files_read", `{"pa`}, {nil, "b", "terminal_run", `{"comm`}, {nil, "a", "", `th":"x"}`}, {nil, "b", "", `and":"y"}`}}, []string{`files_read{"path":"x"}`, `terminal_run{"command":"y"}`}},
		{"bug_3: id in the first piece only", twelve, []string{`files_read{"path":"x"}`}},
		{"bug_17: three whole calls at index 0", []piece{{at(0), "a", "files_read", `{}`}, {at(0), "b", "files_read", `{"path":"2"}`}, {at(0), "c", "terminal_run", `{}`}}, []string{`files_read{}`, `files_read{"path":"2"}`, `terminal_run{}`}},
		{"F-65: one id at three indexes", []piece{{at(0), "a", "files_read", `{"path":"1"}`}, {at(1), "a", "files_read", `{"path":"2"}`}, {at(2), "a", "terminal_run", `{}`}}, []string{`files_read{"path":"1"}`, `files_read{"path":"2"}`, `terminal_run{}`}},
		{"F-65: one id at index 0 for three whole calls", []piece{{at(0), "a", "files_read", `{"path":"1"}`}, {at(0), "a", "files_read", `{"path":"2"}`}, {at(0), "a", "terminal_run", `{}`}}, []string{`files_read{"path":"1"}`, `files_read{"path":"2"}`, `terminal_run{}`}},
		{"F-65: one id, no index, two whole calls", []piece{{nil, "a", "files_read", `{"path":"1"}`}, {nil, "a", "files_read", `{"path":"1"}`}}, []string{`files_read{"path":"1"}`, `files_read{"path":"1"}`}},
		{"F-65: one id at two indexes, interleaved", []piece{{at(0), "a", "files_read", `{`}, {at(1), "a", "files_read", `{"path"`}, {at(0), "a", "", `}`}, {at(1), "a", "", `:"z"}`}}, []string{`files_read{}`, `files_read{"path":"z"}`}},
		{"an index for each piece of one call", []piece{{at(0), "a", "files_read", `{"path"`}, {at(1), "a", "", `:"q"`}, {at(2), "a", "", `}`}}, []string{`files_read{"path":"q"}`}},
		{"id and name again with nothing", []piece{{at(0), "a", "files_read", `{"path":"q"}`}, {at(0), "a", "files_read", ``}}, []string{`files_read{"path":"q"}`}},
		{"no ids, index 0 for both", []piece{{at(0), "", "files_read", `{"path":"1"}`}, {at(0), "", "files_read", `{"path":"2"}`}}, []string{`files_read{"path":"1"}`, `files_read{"path":"2"}`}},
		{"two indexes interleaved", []piece{{at(0), "a", "files_read", `{`}, {at(1), "b", "files_read", `{"path"`}, {at(0), "", "", `}`}, {at(1), "", "", `:"z"}`}}, []string{`files_read{}`, `files_read{"path":"z"}`}},
		{"name in each piece", []piece{{nil, "a", "files_read", `{"path"`}, {nil, "a", "files_read", `:"q"}`}}, []string{`files_read{"path":"q"}`}},
		{"name late", []piece{{at(0), "a", "", ""}, {at(0), "", "files_read", `{}`}}, []string{`files_read{}`}},
		{"F-65: cut in the arguments", []piece{{at(0), "a", "files_read", `{"path":"x`}}, []string{`!files_read"{\"path\":\"x"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := New(offered)
			for _, p := range tt.in {
				a.Piece(p.index, p.id, p.name, p.args)
			}
			var got reply
			deltas, err := a.Finish(models.FinishStop)
			if err != nil {
				t.Fatal(err)
			}
			collect(&got, deltas)
			if diff := cmp.Diff(tt.want, got.Calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	t.Run("call in tags larger than any", func(t *testing.T) {
		got := read(`<tool_call>{"name":"files_read","arguments":{"path":"`+strings.Repeat("x", 200<<10)+`"}}</tool_call>after`, 4096, models.FinishStop)
		if len(got.Calls) != 1 || !strings.HasPrefix(got.Calls[0], "!files_read") || got.Text != "after" {
			t.Errorf("got %d calls and text %q, want one that must not run, then the text", len(got.Calls), got.Text)
		}
	})
	t.Run("streamed arguments larger than any", func(t *testing.T) {
		a := New(offered)
		for range 300 {
			a.Piece(nil, "a", "files_read", strings.Repeat(" ", 1024))
		}
		var got reply
		deltas, _ := a.Finish(models.FinishStop)
		collect(&got, deltas)
		if len(got.Calls) != 1 || got.Calls[0][0] != '!' {
			t.Errorf("got %v, want one call that must not run", len(got.Calls))
		}
	})
	t.Run("calls without end", func(t *testing.T) {
		a := New(offered)
		for i := range 10_000 {
			a.Whole(fmt.Sprint(i), "files_read", nil)
		}
		if _, err := a.Finish(models.FinishStop); !errors.Is(err, models.ErrProtocol) {
			t.Errorf("got %v, want %v", err, models.ErrProtocol)
		}
	})
	t.Run("F-26: deep arguments", func(t *testing.T) {
		a := New(offered)
		a.Whole("a", "files_read", json.RawMessage(strings.Repeat(`{"a":`, 9_999)+"1"+strings.Repeat("}", 9_999)))
		var got reply
		deltas, _ := a.Finish(models.FinishStop)
		collect(&got, deltas)
		if len(got.Calls) != 1 || got.Calls[0][0] != '!' {
			t.Errorf("got %.40v, want a call that must not run", got.Calls)
		}
	})
}

func TestAbortGivesWhatWasHeldBack(t *testing.T) {
	a := New(offered)
	var got reply
	collect(&got, a.Text("I will <tool_call>{\"name\""))
	collect(&got, a.Abort())
	if want := "I will <tool_call>{\"name\""; got.Text != want || got.Calls != nil {
		t.Errorf("got %q and %v, want %q and no call", got.Text, got.Calls, want)
	}
}

// FuzzText checks that the way a stream is cut changes nothing, that no text is
// invented, and that a call which may run has an object as its arguments.
func FuzzText(f *testing.F) {
	for _, s := range []string{
		"plain", `<tool_call>{"name":"files_read","arguments":{}}</tool_call>`, "<think>a</think>b",
		"```json\n{\"name\":\"files_read\",\"arguments\":{}}\n```", "<function=files_read>\n<parameter=path>\nx\n</parameter>\n</function>",
	} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		if n < 1 || n > 1<<16 || len(text) > 1<<14 {
			return
		}
		text = strings.ToValidUTF8(text, "") // a run of bad bytes becomes one mark or several
		whole, cut := read(text, len(text)+1, models.FinishStop), read(text, n, models.FinishStop)
		if diff := cmp.Diff(whole, cut); diff != "" {
			t.Errorf("pieces of %d bytes (-whole +cut):\n%s", n, diff)
		}
		for _, c := range whole.Calls {
			if c[0] != '!' && !json.Valid([]byte(c[strings.IndexByte(c, '{'):])) {
				t.Errorf("call %q may run and has no object", c)
			}
		}
	})
}
