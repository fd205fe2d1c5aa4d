package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/control"
)

func TestCall(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		l := r.open()
		reply, err := l.Call(r.t.Context(), "lomi_status", json.RawMessage(`{"a": "<&\u2028>"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(reply.Data), `{"args":{"a":"<&\u2028>"},"kind":"echo","tool":"lomi_status"}`; !sameJSON(t, got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		reply, err = l.Call(r.t.Context(), "lomi_status", nil)
		if err != nil || !strings.Contains(string(reply.Data), `"args":{}`) {
			t.Errorf("without arguments: got %s, %v", reply.Data, err)
		}
		peer := r.engine.peers[0]
		if len(peer.CertificateSHA256) != 64 {
			t.Errorf("pin of the peer: %q", peer.CertificateSHA256)
		}
		peer.CertificateSHA256 = ""
		if diff := cmp.Diff(Peer{UID: 1000, PID: 4242, Label: "test"}, peer); diff != "" {
			t.Error(diff)
		}
	})
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(x, y)
}

func TestPairingOutcomes(t *testing.T) {
	for decision, want := range map[Decision]error{Rejected: ErrRejected, Expired: ErrExpired} {
		t.Run(string(decision), func(t *testing.T) {
			bubble(t, &engine{}, func(r *rig) {
				w := r.enroll()
				if !control.ValidID(w.PairingID()) {
					t.Errorf("pairing id %q", w.PairingID())
				}
				go func() {
					<-time.After(time.Minute)
					r.engine.decide(0, decision)
				}()
				if _, err := w.Open(r.t.Context()); !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				if r.engine.opened.Load() != 0 {
					t.Error("a session was opened")
				}
			})
		})
	}
	t.Run("nobody answers", func(t *testing.T) {
		bubble(t, &engine{}, func(r *rig) {
			start := time.Now()
			if _, err := r.enroll().Open(r.t.Context()); !errors.Is(err, ErrExpired) {
				t.Errorf("got %v, want ErrExpired", err)
			}
			if got := time.Since(start); got != pairingTime {
				t.Errorf("after %v, want %v", got, pairingTime)
			}
			synctest.Wait()
			if r.engine.context(0).Err() == nil {
				t.Error("the engine still holds the pairing")
			}
		})
	})
	t.Run("approved in the last second", func(t *testing.T) {
		bubble(t, &engine{}, func(r *rig) {
			go func() {
				<-time.After(pairingTime - time.Second)
				r.engine.decide(0, Approved)
			}()
			l, err := r.enroll().Open(r.t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		})
	})
	t.Run("the daemon stops", func(t *testing.T) {
		bubble(t, &engine{}, func(r *rig) {
			w := r.enroll()
			go func() {
				<-time.After(time.Second)
				r.stop()
			}()
			if _, err := w.Open(r.t.Context()); !errors.Is(err, ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
		})
	})
	t.Run("the client gives up", func(t *testing.T) {
		bubble(t, &engine{}, func(r *rig) {
			ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
			defer cancel()
			if _, err := r.enroll().Open(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
			synctest.Wait()
			if r.engine.context(0).Err() == nil {
				t.Error("the pairing lives on")
			}
		})
	})
}

func TestHangUpDropsPairing(t *testing.T) {
	bubble(t, &engine{}, func(r *rig) {
		w := r.enroll()
		if r.engine.context(0).Err() != nil {
			t.Fatal("the pairing ended by itself")
		}
		w.Close()
		synctest.Wait()
		if r.engine.context(0).Err() == nil {
			t.Error("the pairing outlives its connection")
		}
	})
}

// Rows of the enrolment that end the connection before the engine hears of it.
func TestEnrollmentRefused(t *testing.T) {
	valid := func(r *rig) map[string]any {
		return map[string]any{"ipcVersion": 1, "instanceId": instance, "clientLabel": "test",
			"certificate": r.enrollment().Certificate.Certificate[0]}
	}
	with := func(key string, value any) func(r *rig) string {
		return func(r *rig) string {
			fields := valid(r)
			fields[key] = value
			body, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			return string(body)
		}
	}
	for name, body := range map[string]func(r *rig) string{
		"version":                    with("ipcVersion", 2),
		"another instance":           with("instanceId", "another"),
		"label empty":                with("clientLabel", ""),
		"label of 81":                with("clientLabel", strings.Repeat("ä", 81)),
		"S-75 label with line break": with("clientLabel", "a\nb"),
		"S-75 label with escape":     with("clientLabel", "a\x1b[31m"),
		"label that reorders":        with("clientLabel", "a\u202eb"),
		"no certificate":             with("certificate", []byte{}),
		"certificate of 8193":        with("certificate", make([]byte, 8193)),
		"S-112 unknown field":        with("only", "reads"),
		"S-70 case":                  with("ClientLabel", "test"),
		"null":                       with("clientLabel", nil),
		"wrong type":                 with("clientLabel", 1),
		"not JSON":                   func(*rig) string { return "{" },
		"F-27 not UTF-8":             func(*rig) string { return "{\"clientLabel\":\"\xff\"}" },
		"two values": func(r *rig) string {
			return with("ipcVersion", 1)(r) + "{}"
		},
		"S-70 twice": func(r *rig) string {
			return strings.Replace(with("ipcVersion", 1)(r), "{", `{"ipcVersion":1,`, 1)
		},
		"F-26 deep": func(*rig) string { return strings.Repeat("[", 5000) },
		"oversized": func(*rig) string { return strings.Repeat(" ", maxEnrollment+1) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, &engine{auto: Approved}, func(r *rig) {
				conn := r.dial()
				text := body(r)
				go conn.Write(appendFrame([]byte(text))) // may be cut off in the middle
				ends(conn)
				if got := r.engine.enrolled.Load(); got != 0 {
					t.Errorf("%d pairings", got)
				}
				r.open() // others are not disturbed
			})
		})
	}
}

func TestEnrollmentOfAnotherUser(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		r.uid = 1001
		if got := ends(r.dial()); got != 0 {
			t.Errorf("ended after %v, want at once", got)
		}
		if r.engine.enrolled.Load() != 0 {
			t.Error("another user got a pairing")
		}
	})
}

// refusing is an engine that takes no pairing.
type refusing struct {
	engine
	err error
}

func (e *refusing) Enroll(context.Context, Peer) (Pairing, error) { return Pairing{}, e.err }

func TestEnrollmentRefusedByEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, row := range []struct {
			err  error
			want control.Code
		}{
			{control.Errorf(control.StorageUnavailable, "agent control is off"), control.StorageUnavailable},
			{errors.New("a secret of the daemon"), control.AppUnavailable},
		} {
			cert := certificate(t, instance+brokerSuffix)
			listener := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
			ctx, cancel := context.WithCancel(t.Context())
			var served sync.WaitGroup
			served.Go(func() {
				Serve(ctx, listener, Config{InstanceID: instance, Certificate: cert, Handler: &refusing{err: row.err},
					Identify: func(net.Conn) (int, int, error) { return 0, 0, nil }})
			})
			client, server := net.Pipe()
			listener.conns <- server
			_, err := Enroll(t.Context(), client, Enrollment{InstanceID: instance, Label: "test",
				Certificate: certificate(t, helperName), BrokerSHA256: pin(cert.Certificate[0])})
			if !failed(err, row.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %v", err, row.want)
			}
			cancel()
			served.Wait()
		}
	})
}

func TestCeilings(t *testing.T) {
	t.Run("pending pairings", func(t *testing.T) {
		bubble(t, &engine{}, func(r *rig) {
			for range maxPending {
				r.enroll()
			}
			_, err := Enroll(r.t.Context(), r.dial(), r.enrollment())
			if !failed(err, control.ResourceExhausted) {
				t.Errorf("the ninth: got %v, want RESOURCE_EXHAUSTED", err)
			}
			r.engine.decide(0, Rejected)
			synctest.Wait()
			r.enroll().Close() // a settled one makes room
		})
	})
	t.Run("connections", func(t *testing.T) {
		bubble(t, &engine{auto: Approved}, func(r *rig) {
			var links []*Link
			for range maxConnections {
				links = append(links, r.open())
			}
			if got := ends(r.dial()); got != 0 {
				t.Errorf("the 65th ended after %v, want at once", got)
			}
			links[0].Close()
			synctest.Wait()
			r.open()
		})
	})
}

// F-24: the 17th request of a connection is refused, and others are served.
func TestRequestsInFlight(t *testing.T) {
	block := make(chan struct{})
	e := &engine{auto: Approved, handle: func(ctx context.Context, tool string, args json.RawMessage) control.Reply {
		if tool == "slow" {
			select {
			case <-block:
			case <-ctx.Done():
			}
		}
		return echo(tool, args)
	}}
	bubble(t, e, func(r *rig) {
		block = make(chan struct{}) // of this bubble
		conn := r.raw()
		for id := 1; id <= maxInFlight; id++ {
			r.send(conn, fmt.Sprintf(`{"ipcVersion":1,"requestId":%d,"request":{"tool":"slow"}}`, id))
		}
		r.send(conn, `{"ipcVersion":1,"requestId":17,"request":{"tool":"fast"}}`)
		m := r.receive(conn)
		if m.RequestID != 17 || code(t, *m.Result) != control.ResourceExhausted {
			t.Errorf("got %d %v, want 17 RESOURCE_EXHAUSTED", m.RequestID, m.Result)
		}
		synctest.Wait()
		if got := e.handled.Load(); got != maxInFlight {
			t.Errorf("%d calls reached the engine, want %d", got, maxInFlight)
		}
		if _, err := r.open().Call(r.t.Context(), "fast", nil); err != nil {
			t.Errorf("another connection: %v", err)
		}
		close(block)
		seen := make(map[uint64]bool)
		for range maxInFlight {
			seen[r.receive(conn).RequestID] = true
		}
		if len(seen) != maxInFlight {
			t.Errorf("%d answers, want %d", len(seen), maxInFlight)
		}
		r.send(conn, `{"ipcVersion":1,"requestId":18,"request":{"tool":"fast"}}`)
		if m := r.receive(conn); m.Result.Status != "ok" {
			t.Errorf("after the others: %+v", m.Result)
		}
	})
}

// A client of our own waits for a place instead.
func TestClientKeepsPlaces(t *testing.T) {
	e := &engine{auto: Approved}
	var most, running int
	var mu sync.Mutex
	e.handle = func(_ context.Context, tool string, args json.RawMessage) control.Reply {
		mu.Lock()
		running++
		most = max(most, running)
		mu.Unlock()
		<-time.After(time.Second)
		mu.Lock()
		running--
		mu.Unlock()
		return echo(tool, args)
	}
	bubble(t, e, func(r *rig) {
		l := r.open()
		var calls sync.WaitGroup
		for i := range 100 {
			calls.Go(func() {
				args := fmt.Sprintf(`{"n":%d}`, i)
				reply, err := l.Call(r.t.Context(), "lomi_status", json.RawMessage(args))
				if err != nil || !strings.Contains(string(reply.Data), args) {
					t.Errorf("call %d: got %s, %v", i, reply.Data, err)
				}
			})
		}
		calls.Wait()
		if most != maxInFlight {
			t.Errorf("at most %d ran together, want %d", most, maxInFlight)
		}
	})
}

func TestGivenUpCallKeepsItsPlace(t *testing.T) {
	e := &engine{auto: Approved, handle: func(_ context.Context, tool string, args json.RawMessage) control.Reply {
		<-time.After(time.Minute)
		return echo(tool, args)
	}}
	bubble(t, e, func(r *rig) {
		l := r.open()
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		var calls sync.WaitGroup
		for range maxInFlight + 1 {
			calls.Go(func() {
				if _, err := l.Call(ctx, "lomi_status", nil); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the deadline", err)
				}
			})
		}
		calls.Wait()
		if got := e.handled.Load(); got != maxInFlight {
			t.Errorf("%d calls reached the engine, want %d", got, maxInFlight)
		}
		_, err := l.Call(ctx, "lomi_status", nil)
		if !errors.Is(err, ErrNotSent) {
			t.Errorf("without a place: got %v, want ErrNotSent", err)
		}
		<-time.After(2 * time.Minute)
		if _, err := l.Call(r.t.Context(), "lomi_status", nil); err != nil {
			t.Errorf("after the answers came: %v", err)
		}
	})
}

// F-28: an id is used once on a connection, and ids rise.
func TestRequestIDs(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		conn := r.raw()
		for _, row := range []struct {
			id   string
			want control.Code
		}{
			{"5", ""}, {"5", control.IdempotencyConflict}, {"4", control.IdempotencyConflict}, {"6", ""},
			{"0", control.ResourceExhausted}, {"9007199254740992", control.ResourceExhausted}, {"9007199254740991", ""},
			{"-1", control.ResourceExhausted}, {"1.5", control.ResourceExhausted}, {"1e400", control.ResourceExhausted},
			{`"7"`, control.ResourceExhausted}, {"null", control.ResourceExhausted}, {"{}", control.ResourceExhausted},
			{"18446744073709551616", control.ResourceExhausted},
		} {
			r.send(conn, `{"ipcVersion":1,"requestId":`+row.id+`,"request":{"tool":"a"}}`)
			m := r.receive(conn)
			if got := m.Result.Code; got != row.want {
				t.Errorf("id %s: got %q, want %q", row.id, got, row.want)
			}
		}
		if got := r.engine.handled.Load(); got != 3 {
			t.Errorf("%d calls reached the engine, want 3", got)
		}
	})
}

// What is malformed inside TLS gets an answer, and the connection lives on.
func TestMalformedMessageLivesOn(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		conn := r.raw()
		for _, body := range []string{
			`{`, `[]`, `1`, `{"ipcVersion":1}`, `{"ipcVersion":1,"requestId":1}`, "\xff",
			`{"ipcVersion":1,"requestId":1,"request":null}`, `{"ipcVersion":1,"requestId":1,"request":{}}`,
			`{"ipcVersion":1,"requestId":1,"request":{"tool":""}}`, `{"ipcVersion":1,"requestId":1,"request":{"tool":"a\nb"}}`,
			`{"ipcVersion":1,"requestId":1,"request":{"tool":"a","more":1}}`, `{"ipcVersion":1,"requestId":1,"request":{"tool":"a"}} {}`,
			`{"ipcVersion":1,"requestId":1,"request":{"tool":"a"},"result":{"status":"ok","controlApiVersion":"1.0"}}`,
			`{"ipcVersion":1,"signal":"other"}`, `{"ipcVersion":1,"requestId":1,"request":{"tool":"a","arguments":` +
				strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}}`,
			`{"ipcVersion":1,"requestId":1,"request":{"tool":"a","arguments":"` + strings.Repeat("x", control.MaxArguments) + `"}}`,
			strings.Repeat(" ", maxRequest+1),
			strings.Repeat(" ", control.MaxFrame),
		} {
			shown := body[:min(len(body), 80)]
			go func() { _, _ = conn.Write(appendFrame([]byte(body))) }()
			m := r.receive(conn)
			if got := code(t, *m.Result); got != control.ResourceExhausted {
				t.Errorf("%s: got %v, want RESOURCE_EXHAUSTED", shown, got)
			}
		}
		r.send(conn, `{"ipcVersion":1,"requestId":2,"request":{"tool":"a"}}`)
		if m := r.receive(conn); m.RequestID != 2 || m.Result.Status != "ok" {
			t.Errorf("afterwards: %+v", m)
		}
		if got := r.engine.handled.Load(); got != 1 {
			t.Errorf("%d calls reached the engine, want 1", got)
		}
	})
}

func TestAnotherVersionEndsConnection(t *testing.T) {
	for _, body := range []string{`{}`, `null`, `{"ipcVersion":2,"requestId":1,"request":{"tool":"a"}}`} {
		bubble(t, &engine{auto: Approved}, func(r *rig) {
			conn := r.raw()
			r.send(conn, body)
			if got := ends(conn); got != 0 {
				t.Errorf("%s: ended after %v, want at once", body, got)
			}
		})
	}
}

// F-25: a length that no frame has ends the connection at once.
func TestHugeFrames(t *testing.T) {
	for name, header := range map[string]string{
		"zero": "\x00\x00\x00\x00", "2^31": "\x80\x00\x00\x00", "2^32-1": "\xff\xff\xff\xff", "12 MiB + 1": "\x00\xc0\x00\x01",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, &engine{auto: Approved}, func(r *rig) {
				conn := r.raw()
				if _, err := io.WriteString(conn, header); err != nil {
					t.Fatal(err)
				}
				if got := ends(conn); got != 0 {
					t.Errorf("ended after %v, want at once", got)
				}
				plain := r.dial()
				go io.WriteString(plain, header)
				if got := ends(plain); got != 0 {
					t.Errorf("as an enrolment: ended after %v, want at once", got)
				}
			})
		})
	}
}

func TestResultsOutOfBounds(t *testing.T) {
	for name, reply := range map[string]control.Reply{
		"8 MiB + 1":      {Status: "ok", Data: json.RawMessage(`"` + strings.Repeat("x", control.MaxResult-1) + `"`)},
		"image too long": {Status: "ok", Data: json.RawMessage(`{}`), Image: &control.Image{Data: make([]byte, control.MaxFrame*3/4)}},
		"not JSON":       {Status: "ok", Data: json.RawMessage(`{bad`)},
	} {
		t.Run(name, func(t *testing.T) {
			e := &engine{auto: Approved, handle: func(_ context.Context, tool string, args json.RawMessage) control.Reply {
				if tool == "bad" {
					return reply
				}
				return echo(tool, args)
			}}
			bubble(t, e, func(r *rig) {
				l := r.open()
				got, err := l.Call(r.t.Context(), "bad", nil)
				if err != nil || got.Status != "error" {
					t.Errorf("got %q, %v, want a failure", got.Status, err)
				}
				if _, err := l.Call(r.t.Context(), "good", nil); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		})
	}
	t.Run("8 MiB", func(t *testing.T) {
		e := &engine{auto: Approved, handle: func(context.Context, string, json.RawMessage) control.Reply {
			return control.Reply{Status: "ok", Data: json.RawMessage(`"` + strings.Repeat("x", control.MaxResult-2) + `"`)}
		}}
		bubble(t, e, func(r *rig) {
			got, err := r.open().Call(r.t.Context(), "large", nil)
			if err != nil || len(got.Data) != control.MaxResult {
				t.Errorf("got %d bytes, %v", len(got.Data), err)
			}
		})
	})
}

func TestSessionEndsAfterDueAnswers(t *testing.T) {
	e := &engine{auto: Approved}
	bubble(t, e, func(r *rig) {
		e.ended = make(chan struct{})
		started := make(chan struct{})
		e.handle = func(_ context.Context, tool string, args json.RawMessage) control.Reply {
			close(started)
			<-time.After(drainTime / 2)
			return echo(tool, args)
		}
		l := r.open()
		go func() {
			<-started
			close(e.ended)
		}()
		if reply, err := l.Call(r.t.Context(), "slow", nil); err != nil || reply.Status != "ok" {
			t.Errorf("the due answer: got %v, %v", reply, err)
		}
		<-l.Done()
		if _, err := l.Call(r.t.Context(), "late", nil); !errors.Is(err, ErrLost) || !errors.Is(err, ErrNotSent) {
			t.Errorf("a later call: got %v, want ErrLost, ErrNotSent", err)
		}
	})
}

// The end of the connection is noticed while a call runs.
func TestHangUpCancelsCalls(t *testing.T) {
	cancelled := make(chan struct{})
	e := &engine{auto: Approved, handle: func(ctx context.Context, tool string, args json.RawMessage) control.Reply {
		<-ctx.Done()
		close(cancelled)
		return echo(tool, args)
	}}
	bubble(t, e, func(r *rig) {
		cancelled = make(chan struct{})
		conn := r.raw()
		r.send(conn, `{"ipcVersion":1,"requestId":1,"request":{"tool":"slow"}}`)
		synctest.Wait()
		conn.Close()
		<-cancelled
		synctest.Wait()
		if e.closed.Load() != 1 {
			t.Error("the session is still open")
		}
	})
}

func TestLostConnectionEndsCalls(t *testing.T) {
	e := &engine{auto: Approved, handle: func(ctx context.Context, tool string, args json.RawMessage) control.Reply {
		<-ctx.Done()
		return echo(tool, args)
	}}
	bubble(t, e, func(r *rig) {
		l := r.open()
		go func() {
			<-time.After(time.Second)
			r.stop()
		}()
		_, err := l.Call(r.t.Context(), "slow", nil)
		if !errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent) {
			t.Errorf("got %v, want ErrLost of a sent request", err)
		}
	})
}
