package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// A frame read is the frame written, and nothing that is not one is read as one.
func FuzzFrame(f *testing.F) {
	f.Add(appendFrame([]byte(`{"ipcVersion":1}`)), 64)
	f.Add([]byte{0, 0, 0, 0}, 64)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 2}, 1<<20)
	f.Add([]byte{0, 0, 0}, 1)
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		limit &= 1<<20 - 1
		r := bytes.NewReader(stream)
		body, err := readFrame(r, int64(limit), nil)
		switch {
		case err == nil:
			used := stream[:len(stream)-r.Len()]
			if len(body) == 0 || len(body) > limit || !bytes.Equal(appendFrame(body), used) {
				t.Errorf("%x read as %x, limit %d", used, body, limit)
			}
		case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			if len(stream) != 0 {
				t.Error("a partial frame counts as an orderly end")
			}
		case len(stream) >= headerBytes && errors.Is(err, errEmptyFrame):
			if binary.BigEndian.Uint32(stream) != 0 {
				t.Error("a frame with a length counts as empty")
			}
		}
	})
}

// What decodes also encodes, to something that decodes to the same.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"ipcVersion":1,"requestId":1,"request":{"tool":"lomi_status","arguments":{"a":["\u2028<"]}}}`,
		`{"ipcVersion":1,"requestId":9007199254740991,"result":{"status":"error","controlApiVersion":"1.0","code":"SCOPE_DENIED","message":"no"}}`,
		`{"ipcVersion":1,"signal":"ping"}`, `{"request":null,"result":null}`, `{"IPCVERSION":1}`, "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m, again message
		if decode(data, &m) != nil {
			return
		}
		body, err := encode(m)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if err := decode(body, &again); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		second, err := encode(again)
		if err != nil || !bytes.Equal(body, second) {
			t.Errorf("%s became %s, %v", body, second, err)
		}
	})
}

// Whatever a stranger sends before TLS, the server neither crashes nor opens a
// session, and lets go of it.
func FuzzHandshake(f *testing.F) {
	broker, client := certificate(f, instance+brokerSuffix), certificate(f, helperName)
	hello, err := encode(enrollment{IPCVersion: IPCVersion, InstanceID: instance, ClientLabel: "fuzz", Certificate: client.Certificate[0]})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(appendFrame(hello))
	f.Add(append(appendFrame(hello), "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"...))
	f.Add(append(appendFrame(hello), alertRecord(alertRejected)...))
	f.Add(appendFrame([]byte(`{"ipcVersion":1}`)))
	f.Fuzz(func(t *testing.T, stream []byte) {
		e := &engine{auto: Approved}
		s := &server{Config: Config{InstanceID: instance, Certificate: broker, Handler: e,
			Identify: func(net.Conn) (int, int, error) { return 0, 0, nil }}}
		if err := s.validate(); err != nil {
			t.Fatal(err)
		}
		s.pending, s.handshakes = make(chan struct{}, 1), make(chan struct{}, 1)
		ours, theirs := net.Pipe()
		var sides sync.WaitGroup
		sides.Go(func() { s.connection(t.Context(), theirs) })
		sides.Go(func() { io.Copy(io.Discard, ours) })
		ours.Write(stream)
		ours.Close()
		sides.Wait()
		if e.opened.Load() != 0 {
			t.Errorf("%x opened a session", stream)
		}
	})
}

func FuzzLabel(f *testing.F) {
	f.Add("Codex")
	f.Add("a\u202eb")
	f.Fuzz(func(t *testing.T, label string) {
		if !ValidLabel(label) {
			return
		}
		body, err := json.Marshal(label)
		if err != nil {
			t.Fatal(err)
		}
		var again string
		if err := json.Unmarshal(body, &again); err != nil || again != label {
			t.Errorf("%q became %q, %v", label, again, err)
		}
		if len(label) > 4*maxLabel || bytes.ContainsAny([]byte(label), "\n\r\x1b\x00") {
			t.Errorf("%q is valid", label)
		}
	})
}
