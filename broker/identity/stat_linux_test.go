package identity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStat(t *testing.T) {
	const rest = " S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1000 2"
	want := Process{PID: 42, Parent: 7, Session: 9, Start: 4711}
	for name, line := range map[string]string{
		"plain":             "42 (sh)" + rest,
		"spaces":            "42 (a b c)" + rest,
		"closing brackets":  "42 (a) S 1 1 1 (b))" + rest,
		"a line break":      "42 (a\n1 (x) R 1)" + rest,
		"brackets and more": "42 ()) ((" + ")" + rest,
	} {
		got, err := parseStat(42, []byte(line))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, line := range []string{"", "42 (sh", "42 (sh) S 7", "42 (sh) S x 8 9 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 47 1"} {
		if got, err := parseStat(42, []byte(line)); err == nil {
			t.Errorf("%q: got %+v", line, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 1000 2"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parseStat(42, line)
		if err == nil && p.PID != 42 {
			t.Errorf("got %+v", p)
		}
	})
}
