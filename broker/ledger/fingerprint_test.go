package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestFingerprint(t *testing.T) {
	target := Target{WorkspaceID: "w", ResourceID: "r", Generation: "1", Revision: "2"}
	same := []string{
		`{"b":[1,2,{"y":null,"x":true}],"a":"\u00e9/😀\"\\\n"}`,
		"\n{ \"a\" : \"é\\/\\ud83d\\uDE00\\u0022\\u005c\\u000A\",\t\"b\":[ 1 , 2,{\"x\":true,\"y\":null} ] } ",
	}
	first, err := Fingerprint(json.RawMessage(same[0]), target)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Fingerprint(json.RawMessage(same[1]), target); err != nil || again != first {
		t.Errorf("two spellings of one input: %v and %v, %v", first, again, err)
	}
	for name, row := range map[string]struct {
		input  string
		target Target
	}{
		"order of an array": {`{"b":[2,1,{"y":null,"x":true}],"a":"é/😀\"\\\n"}`, target},
		"number's spelling": {`{"b":[1.0,2,{"y":null,"x":true}],"a":"é/😀\"\\\n"}`, target},
		"revision":          {same[0], Target{WorkspaceID: "w", ResourceID: "r", Generation: "1", Revision: "3"}},
		"moved field":       {same[0], Target{WorkspaceID: "r", ResourceID: "w", Generation: "1", Revision: "2"}},
	} {
		if other, err := Fingerprint(json.RawMessage(row.input), row.target); err != nil || other == first {
			t.Errorf("%s: the same fingerprint, %v", name, err)
		}
	}
}

func TestFingerprintRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, input := range map[string]string{
		"empty":                     ``,
		"two values":                `1 2`,
		"F-26 too deep":             deep(inputDepth + 1),
		"F-26 much too deep":        deep(30_000),
		"too long":                  `"` + strings.Repeat("x", maxInput) + `"`,
		"F-27 NUL":                  `{"a":"x\u0000"}`,
		"F-27 NUL in a key":         `{"\u0000":1}`,
		"F-27 broken UTF-8":         "\"\xff\"",
		"F-27 lone high surrogate":  `"\ud83d"`,
		"F-27 lone low surrogate":   `"\ude00"`,
		"F-27 high surrogate twice": `"\ud83d\ud83d"`,
		"key twice":                 `{"a":1,"b":2,"a":1}`,
		"key twice, two spellings":  `{"a":1,"\u0061":2}`,
	} {
		if _, err := Fingerprint(json.RawMessage(input), Target{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if _, err := Fingerprint(json.RawMessage(deep(inputDepth)), Target{}); err != nil {
		t.Errorf("the deepest input: %v", err)
	}
}

// FuzzCanonical compares with the standard decoder and encoder, which sort
// keys too: whatever they read and write again has the same canonical form.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, `""`, `0`, `-1.5e+7`, `null`, `{"b":1,"a":{"d":[true,false,null],"c":"\u00e9\n"}}`,
		`"\ud83d\ude00 <&> \u2028"`, `[[[]]]`, ` { "x" : [ 1 , "]}" ] } `, `"\\u0000"`, `{"a":"\ud83d"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		text, err := canonical(input)
		if err != nil {
			return
		}
		again, err := canonical([]byte(text))
		if err != nil || again != text {
			t.Fatalf("canonical form %q becomes %q, %v", text, again, err)
		}
		decode := json.NewDecoder(bytes.NewReader(input))
		decode.UseNumber()
		var value any
		if err := decode.Decode(&value); err != nil {
			t.Fatalf("%q was taken and is no JSON: %v", input, err)
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if len(encoded) > maxInput {
			return // the standard encoder escapes more
		}
		other, err := canonical(encoded)
		if err != nil || other != text {
			t.Fatalf("%q: canonical %q, by the standard encoder %q, %v", input, text, other, err)
		}
	})
}
