package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/control"
)

// sample has every shape that a request may have.
type sample struct {
	control.Keyed
	Method string            `json:"method"`
	Kind   string            `json:"kind,omitempty"`
	Limit  int               `json:"limit,omitempty" default:"100"`
	Small  uint16            `json:"small,omitempty"`
	Ratio  float64           `json:"ratio,omitempty"`
	Flag   *bool             `json:"flag,omitempty" default:"true"`
	Note   *string           `json:"note"`
	Maybe  *string           `json:"maybe,omitempty" null:"yes"`
	Names  []string          `json:"names,omitempty"`
	Parts  []part            `json:"parts,omitempty"`
	Labels map[string]int    `json:"labels,omitempty"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Any    any               `json:"any,omitempty"`
	Bytes  []byte            `json:"bytes,omitempty"`
	Action *action           `json:"action,omitempty"`
	List   control.List[int] `json:"list,omitempty"`
}

type part struct {
	Text string `json:"text"`
}

type action struct {
	Type string `json:"type" oneof:"text,key"`
	Text string `json:"text,omitempty" in:"text"`
	Key  string `json:"key,omitempty" in:"key"`
	More bool   `json:"more,omitempty" in:"text?,key?"`
	Only int    `json:"only,omitempty" in:"key?"`
}

const head = `{"workspaceId":"w","retryEpoch":"e","requestKey":"k","note":null,"method":"m"`

func TestDecodeFillsEveryShape(t *testing.T) {
	yes, note := true, "n"
	in := `{"workspaceId":"w","retryEpoch":"e","requestKey":"k","method":"\u0061\ud83d\ude00é\n","kind":"",
 "limit":7,"small":65535,"ratio":-1.5e-3,"flag":true,"note":"n","maybe":null,"names":["a",""],"parts":[{"text":"x"}],
 "labels":{"a":1},"raw":{"b":[1,2.5,"c"]},"any":12345678901234567890,"bytes":"AAEC","action":{"type":"text","text":""},"list":[1,2]}`
	want := sample{
		Keyed:  control.Keyed{WorkspaceID: "w", RetryEpoch: "e", RequestKey: "k"},
		Method: "a😀é\n", Limit: 7, Small: 65535, Ratio: -0.0015, Flag: &yes, Note: &note, Names: []string{"a", ""},
		Parts: []part{{Text: "x"}}, Labels: map[string]int{"a": 1}, Raw: json.RawMessage(`{"b":[1,2.5,"c"]}`),
		Any: json.Number("12345678901234567890"), Bytes: []byte{0, 1, 2}, Action: &action{Type: "text"}, List: control.List[int]{1, 2},
	}
	var got sample
	if err := control.Decode([]byte(in), &got); err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decoded (-want +got):\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat("[", 63) + strings.Repeat("]", 63) // with the object and the value 64
	rows := []struct{ name, in, want string }{
		{"S-70 upper case key", `{"METHOD":"tools/call"}`, "METHOD: is no known field"},
		{"S-70 second key in another case", head + `,"Method":"x"}`, "Method: is no known field"},
		{"S-70 Kelvin sign", head + `,"` + "\u212a" + `ind":"x"}`, `"\u212aind": is no known field`},
		{"S-70 long s", head + `,"name` + "\u017f" + `":[]}`, `"name\u017f": is no known field`},
		{"S-70 twice", head + `,"method":"x"}`, "method: is there twice"},
		{"S-70 twice, escaped", head + `,"\u006dethod":"x"}`, "method: is there twice"},
		{"S-70 twice in raw", head + `,"raw":{"a":[{"b":1,"\u0062":2}]}}`, "raw.a[0].b: is there twice"},
		{"S-70 twice in raw, many keys", head + `,"raw":` + manyKeys(40, "k5") + `}`, "raw.k5: is there twice"},
		{"S-70 twice in a map", head + `,"labels":{"a":1,"a":2}}`, "labels.a: is there twice"},
		{"S-70 twice in a nested struct", head + `,"parts":[{"text":"a","text":"b"}]}`, "parts[0].text: is there twice"},
		{"S-71 NUL in a key", `{"method\u0000":"x"}`, "arguments: must hold no NUL"},
		{"S-71 NUL in a value", head + `,"kind":"a\u0000"}`, "kind: must hold no NUL"},
		{"S-71 NUL in raw", head + `,"raw":["\u0000"]}`, "raw[0]: must hold no NUL"},
		{"S-71 raw NUL byte", head + ",\"kind\":\"a\x00\"}", "arguments: must hold no NUL"},
		{"S-72 null text", head + `,"kind":null}`, "kind: must be a string"},
		{"S-72 null in a list", head + `,"parts":[null]}`, "parts[0]: must be an object"},
		{"S-72 null list", head + `,"names":null}`, "names: must be an array"},
		{"S-72 null object", head + `,"action":null}`, "action: must be an object"},
		{"S-72 missing", `{"workspaceId":"w","retryEpoch":"e","requestKey":"k","note":null}`, "method: is required"},
		{"S-72 missing of an embedded struct", `{"workspaceId":"w","retryEpoch":"e","method":"m","note":null}`, "requestKey: is required"},
		{"S-72 missing nullable", `{"workspaceId":"w","retryEpoch":"e","requestKey":"k","method":"m"}`, "note: is required"},
		{"S-72 wrong type", head + `,"limit":"7"}`, "limit: must be a whole number"},
		{"S-72 wrong type of a flag", head + `,"flag":1}`, "flag: must be true or false"},
		{"S-72 wrong type of a map", head + `,"labels":[]}`, "labels: must be an object"},
		{"S-72 wrong type of a ratio", head + `,"ratio":"1"}`, "ratio: must be a number"},
		{"S-72 negative index", head + `,"small":-1}`, "small: is out of the range of numbers, or negative"},
		{"S-72 huge index", head + `,"small":65536}`, "small: is out of the range of numbers, or negative"},
		{"S-72 zero for a default", head + `,"limit":0}`, "limit: must not be empty or 0; leave it out for the default"},
		{"S-73 1e400", head + `,"ratio":1e400}`, "ratio: is out of the range of numbers"},
		{"S-73 1e400 in raw", head + `,"raw":[1e400]}`, "raw[0]: is out of the range of numbers"},
		{"S-73 float for an integer", head + `,"limit":1.0}`, "limit: must be a whole number, without fraction or exponent"},
		{"S-73 exponent for an integer", head + `,"limit":1e2}`, "limit: must be a whole number, without fraction or exponent"},
		{"S-73 integer past 64 bits", head + `,"limit":9223372036854775808}`, "limit: is out of the range of numbers"},
		{"S-73 batch", `[` + head + `}]`, "arguments: must be an object"},
		{"S-73 nothing", ``, "arguments: must be an object"},
		{"S-73 null", `null`, "arguments: must be an object"},
		{"S-73 two objects", head + `}{}`, "arguments: must be one object and nothing after it"},
		{"S-73 cut", head, fmt.Sprintf("arguments: is not valid JSON at byte %d", len(head))},
		{"S-73 trailing comma", head + `,}`, fmt.Sprintf("arguments: is not valid JSON at byte %d", len(head)+1)},
		{"S-73 leading zero", head + `,"limit":07}`, fmt.Sprintf("limit: is not valid JSON at byte %d", len(head)+11)},
		{"S-73 plus", head + `,"limit":+7}`, "limit: must be a whole number"},
		{"S-73 NaN", head + `,"ratio":NaN}`, "ratio: must be a number"},
		{"S-73 single quotes", `{'method':1}`, "arguments: is not valid JSON at byte 1"},
		{"S-75 escape in a key", `{"a\u001b[31m":1}`, `"a\x1b[31m": is no known field`},
		{"S-75 long key", `{"` + strings.Repeat("a", 100) + `":1}`, strings.Repeat("a", 64) + `...: is no known field`},
		{"F-26 65 levels", head + `,"raw":[` + deep + `]}`, "raw" + strings.Repeat("[0]", 63) + ": is nested deeper than 64 levels"},
		{"F-26 65,536 bytes and one", head + `,"kind":"` + strings.Repeat("a", 65536) + `"}`, "arguments: must have at most 65536 bytes"},
		{"F-26 number of 60,000 digits", head + `,"limit":` + strings.Repeat("9", 60000) + `}`, "limit: is out of the range of numbers"},
		{"F-27 invalid UTF-8", head + ",\"kind\":\"\xff\"}", "arguments: must be UTF-8"},
		{"F-27 overlong", head + ",\"kind\":\"\xc0\xaf\"}", "arguments: must be UTF-8"},
		{"F-27 surrogate in UTF-8", head + ",\"kind\":\"\xed\xa0\x80\"}", "arguments: must be UTF-8"},
		{"F-27 lone high surrogate", head + `,"kind":"\ud800"}`, "kind: must hold no lone surrogate"},
		{"F-27 lone low surrogate", head + `,"kind":"\udc00x"}`, "kind: must hold no lone surrogate"},
		{"F-27 surrogates the wrong way", head + `,"kind":"\udc00\ud800"}`, "kind: must hold no lone surrogate"},
		{"F-27 lone surrogate in raw", head + `,"raw":{"\ud800":1}}`, "raw: must hold no lone surrogate"},
		{"F-27 byte order mark", "\ufeff" + head + `}`, "arguments: must not start with a byte order mark"},
		{"F-27 line break in a string", head + ",\"kind\":\"a\nb\"}", fmt.Sprintf("kind: is not valid JSON at byte %d", len(head)+10)},
		{"union without tag", head + `,"action":{"text":"a"}}`, "action.type: is required"},
		{"union of no variant", head + `,"action":{"type":"paste"}}`, "action.type: must be one of text, key"},
		{"union with a field missing", head + `,"action":{"type":"key"}}`, "action.key: is required with type key"},
		{"union with a foreign field", head + `,"action":{"type":"text","text":"","only":1}}`, "action.only: does not go with type text"},
		{"base64", head + `,"bytes":"A A="}`, "bytes: must be base64"},
		{"base64 with a line break", head + `,"bytes":"AA\nEC"}`, "bytes: must be base64"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			var got sample
			err := control.Decode([]byte(row.in), &got)
			e, ok := control.AsError(err)
			if !ok || e.Code != control.ResourceExhausted || e.Message != row.want {
				t.Errorf("got %v, want %s", err, row.want)
			}
		})
	}
}

func manyKeys(n int, again string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	fmt.Fprintf(&b, `"%s":0}`, again)
	return b.String()
}

func TestDecodeKeepsTextExactly(t *testing.T) {
	for _, text := range []string{"\u2028\u2029", "\u202eabc", "e\u0301", "\ufeffinside", "\ufffd", "<&>", "\x7f"} {
		var got sample
		in := head + `,"kind":"` + text + `"}`
		if err := control.Decode([]byte(in), &got); err != nil || got.Kind != text {
			t.Errorf("F-27 %q: got %q, %v", text, got.Kind, err)
		}
	}
}

func TestDecodeAtItsBounds(t *testing.T) {
	var got sample
	fits := head + `,"raw":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`
	if err := control.Decode([]byte(fits), &got); err != nil {
		t.Errorf("64 levels: %v", err)
	}
	pad := control.MaxArguments - len(head) - len(`,"kind":""}`)
	if err := control.Decode([]byte(head+`,"kind":"`+strings.Repeat("a", pad)+`"}`), &got); err != nil {
		t.Errorf("64 KiB: %v", err)
	}
	if err := control.DecodeWithin([]byte(head+`}`), len(head), &got); err == nil {
		t.Error("DecodeWithin took more bytes than its limit")
	}
}

func TestDecodeNeedsAStruct(t *testing.T) {
	var m map[string]any
	for _, into := range []any{nil, sample{}, (*sample)(nil), &m, new(int)} {
		err := control.Decode([]byte(`{}`), into)
		if _, ok := errors.AsType[*control.Error](err); err == nil || ok {
			t.Errorf("%T: got %v, want a fault of the program", into, err)
		}
	}
}

// FuzzDecode holds Decode against encoding/json, which is laxer: what Decode
// takes, encoding/json reads the same, and it survives a round trip.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{head + `}`, head + `,"raw":{"a":[1,"b",null,true]}}`, `{"METHOD":1}`, `{"a":"\ud800"}`,
		head + `,"action":{"type":"key","key":"enter"}}`, head + `,"parts":[{"text":"x"}],"labels":{"a":1}}`, "{\"a\":\"\x00\"}",
		head + `,"ratio":1e400}`, head + `,"limit":9223372036854775807}`, head + `,"any":{"a":1,"a":2}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, reference sample
		if err := control.Decode(data, &got); err != nil {
			if _, ok := control.AsError(err); !ok {
				t.Fatalf("not an Error: %v", err)
			}
			return
		}
		if err := json.Unmarshal(data, &reference); err != nil {
			t.Fatalf("encoding/json refuses what Decode took: %v", err)
		}
		got.Any, reference.Any = nil, nil // numbers: exact here, rounded there
		if diff := cmp.Diff(reference, got); diff != "" {
			t.Fatalf("read differently (-encoding/json +Decode):\n%s", diff)
		}
		got.Action = nil // omitempty drops an empty text that its variant requires
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatalf("encoding again: %v", err)
		}
		var back sample
		if err := control.DecodeWithin(again, 8*control.MaxArguments, &back); err != nil {
			t.Fatalf("its own JSON is refused: %v\n%s", err, again)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	in := []byte(head + `,"limit":7,"action":{"type":"text","text":"npm test"}}`)
	b.ReportAllocs()
	for b.Loop() {
		var got sample
		if err := control.Decode(in, &got); err != nil {
			b.Fatal(err)
		}
	}
}
