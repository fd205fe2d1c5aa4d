package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lomi/broker/control"
)

// F-20: a peer that stalls at any step is let go at the deadline of the step,
// and another client is served meanwhile.
func TestPeerStalls(t *testing.T) {
	enrollmentOf := func(r *rig) []byte {
		body, err := encode(enrollment{IPCVersion: IPCVersion, InstanceID: instance, ClientLabel: "stalls",
			Certificate: r.enrollment().Certificate.Certificate[0]})
		if err != nil {
			t.Fatal(err)
		}
		return appendFrame(body)
	}
	for name, row := range map[string]struct {
		stall func(r *rig) net.Conn // returns the connection at the point of the stall
		after time.Duration
	}{
		"says nothing": {func(r *rig) net.Conn { return r.dial() }, enrollTime},
		"half a header": {func(r *rig) net.Conn {
			conn := r.dial()
			io.WriteString(conn, "\x00\x00")
			return conn
		}, enrollTime},
		"half an enrolment": {func(r *rig) net.Conn {
			conn := r.dial()
			conn.Write(enrollmentOf(r)[:100])
			return conn
		}, enrollTime},
		"no handshake after approval": {func(r *rig) net.Conn {
			return r.enroll().conn
		}, handshakeTime},
		"half a handshake": {func(r *rig) net.Conn {
			conn := r.enroll().conn
			io.WriteString(conn, "\x16\x03\x01\x02\x00\x01")
			return conn
		}, handshakeTime},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, &engine{auto: Approved}, func(r *rig) {
				conn := row.stall(r)
				synctest.Wait()
				if _, err := r.open().Call(r.t.Context(), "lomi_status", nil); err != nil {
					t.Errorf("another client: %v", err)
				}
				if got := ends(conn); got != row.after {
					t.Errorf("let go after %v, want %v", got, row.after)
				}
			})
		})
	}
	t.Run("does not read the welcome", func(t *testing.T) {
		bubble(t, &engine{auto: Approved}, func(r *rig) {
			conn := r.dial()
			conn.Write(enrollmentOf(r))
			<-time.After(welcomeTime)
			synctest.Wait()
			if r.engine.context(0).Err() == nil {
				t.Error("the pairing is still held")
			}
		})
	})
	// Four handshakes may compute at a time; when all four stall, the fifth
	// has its turn after their deadline.
	t.Run("four handshakes", func(t *testing.T) {
		bubble(t, &engine{auto: Approved}, func(r *rig) {
			for range maxHandshakes {
				r.enroll()
			}
			synctest.Wait()
			start := time.Now()
			r.open()
			if got := time.Since(start); got > handshakeTime {
				t.Errorf("the fifth waited %v", got)
			}
		})
	})
}

// F-23: a frame has five seconds from its first byte.
func TestSlowWriter(t *testing.T) {
	for name, part := range map[string]string{
		"one byte of the header": "\x00",
		"the header":             "\x00\x00\x00\x40",
		"half the body":          "\x00\x00\x00\x40{\"ipcVersion\"",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, &engine{auto: Approved}, func(r *rig) {
				conn := r.raw()
				if _, err := io.WriteString(conn, part); err != nil {
					t.Fatal(err)
				}
				if got := ends(conn); got != frameTime {
					t.Errorf("ended after %v, want %v", got, frameTime)
				}
			})
		})
	}
	t.Run("a frame in time, then silence within the pings", func(t *testing.T) {
		bubble(t, &engine{auto: Approved}, func(r *rig) {
			l := r.open()
			for range 3 {
				<-time.After(frameTime + time.Second)
				if _, err := l.Call(r.t.Context(), "lomi_status", nil); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// F-22: a client that does not read is let go after five seconds of a write,
// and the calls are not held up by it.
func TestSlowReader(t *testing.T) {
	e := &engine{auto: Approved, handle: func(context.Context, string, json.RawMessage) control.Reply {
		return control.Reply{Status: "ok", Data: json.RawMessage(`"` + strings.Repeat("x", 256<<10) + `"`)}
	}}
	bubble(t, e, func(r *rig) {
		conn := r.raw()
		for id := range 16 {
			r.send(conn, `{"ipcVersion":1,"requestId":`+fmt.Sprint(id+1)+`,"request":{"tool":"large"}}`)
		}
		synctest.Wait()
		if got := e.handled.Load(); got != 16 {
			t.Errorf("%d of 16 calls ran", got)
		}
		<-time.After(writeTime)
		synctest.Wait()
		if e.closed.Load() != 1 {
			t.Error("the session of the client that does not read is open")
		}
	})
}

// Answers beyond the budget of a connection are replaced by a failure that
// says so; the client that reads on stays connected.
func TestUnsentAnswersAreBounded(t *testing.T) {
	const size = maxUnsent/14 - 1<<10 // 14 fit, 15 do not
	e := &engine{auto: Approved, handle: func(context.Context, string, json.RawMessage) control.Reply {
		return control.Reply{Status: "ok", Data: json.RawMessage(`"` + strings.Repeat("x", size) + `"`)}
	}}
	bubble(t, e, func(r *rig) {
		conn := r.raw()
		for id := 1; id <= maxInFlight; id++ {
			r.send(conn, fmt.Sprintf(`{"ipcVersion":1,"requestId":%d,"request":{"tool":"large"}}`, id))
			synctest.Wait()
		}
		whole, dropped := 0, 0
		for range maxInFlight {
			m := r.receive(conn)
			switch {
			case m.Result.Status == "ok":
				whole++
			case m.Result.Code == control.ResourceExhausted:
				dropped++
			}
		}
		if whole != 14 || dropped != 2 {
			t.Errorf("%d whole and %d dropped, want 14 and 2", whole, dropped)
		}
		r.send(conn, `{"ipcVersion":1,"requestId":17,"request":{"tool":"large"}}`)
		if m := r.receive(conn); m.Result.Status != "ok" {
			t.Errorf("after reading: %+v", m.Result.Code)
		}
	})
}

// F-21: two unanswered pings end the connection; answered ones keep it for
// as long as it is idle.
func TestIdleForHours(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		l := r.open()
		<-time.After(6 * time.Hour)
		if _, err := l.Call(r.t.Context(), "lomi_status", nil); err != nil {
			t.Errorf("after six hours: %v", err)
		}
	})
}

func TestSilentClientIsLetGo(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		conn := r.raw()
		// It reads what comes, as a stopped process's socket would take it, and
		// answers nothing.
		if got, want := ends(conn), (maxMissed+1)*pingEvery; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
		synctest.Wait()
		if r.engine.closed.Load() != 1 {
			t.Error("the session is open")
		}
	})
}

func TestSilentBrokerIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		go io.Copy(io.Discard, server)
		l := startLink(client)
		start := time.Now()
		_, err := l.Call(t.Context(), "lomi_status", nil)
		if err == nil {
			t.Fatal("got an answer")
		}
		if got, want := time.Since(start), (maxMissed+1)*pingEvery; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
		l.Close()
		server.Close()
	})
}

// A ping is answered while calls run, so a long call keeps its connection.
func TestLongCallKeepsConnection(t *testing.T) {
	e := &engine{auto: Approved, handle: func(_ context.Context, tool string, args json.RawMessage) control.Reply {
		<-time.After(time.Hour)
		return echo(tool, args)
	}}
	bubble(t, e, func(r *rig) {
		if _, err := r.open().Call(r.t.Context(), "slow", nil); err != nil {
			t.Errorf("after an hour: %v", err)
		}
	})
}

// S-113: a broker that sends something else than answers loses the client;
// the client does not crash and no call hangs.
func TestClientMeetsStrangeBroker(t *testing.T) {
	for name, frame := range map[string]string{
		"not JSON":                   "{",
		"an answer to no request":    `{"ipcVersion":1,"requestId":99,"result":{"status":"ok","controlApiVersion":"1.0"}}`,
		"an answer to request 0":     `{"ipcVersion":1,"result":{"status":"ok","controlApiVersion":"1.0"}}`,
		"a request":                  `{"ipcVersion":1,"requestId":1,"request":{"tool":"lomi_status"}}`,
		"an answer without a result": `{"ipcVersion":1,"requestId":1}`,
		"a null result":              `{"ipcVersion":1,"requestId":1,"result":null}`,
		"a wrong type":               `{"ipcVersion":1,"requestId":1,"result":[]}`,
		"another version":            `{"ipcVersion":2,"requestId":1,"result":{"status":"ok","controlApiVersion":"1.0"}}`,
		"an unknown signal":          `{"ipcVersion":1,"signal":"dance"}`,
		"an unknown field":           `{"ipcVersion":1,"requestId":1,"result":{"status":"ok","controlApiVersion":"1.0","more":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				go func() {
					if _, err := readFrame(server, maxRequest, nil); err == nil {
						server.Write(appendFrame([]byte(frame)))
					}
					io.Copy(io.Discard, server)
				}()
				l := startLink(client)
				reply, err := l.Call(t.Context(), "lomi_status", nil)
				if err == nil {
					t.Errorf("got %+v", reply)
				}
				<-l.Done()
				l.Close()
				server.Close()
			})
		})
	}
}

func TestClientHoldsBackBadArguments(t *testing.T) {
	bubble(t, &engine{auto: Approved}, func(r *rig) {
		l := r.open()
		for name, args := range map[string]string{
			"not JSON": "{", "two values": "{}{}", "F-27 not UTF-8": "{\"a\":\"\xff\"}",
			"too long": `"` + strings.Repeat("x", control.MaxArguments) + `"`,
		} {
			_, err := l.Call(r.t.Context(), "lomi_status", json.RawMessage(args))
			if !failed(err, control.ResourceExhausted) {
				t.Errorf("%s: got %v, want RESOURCE_EXHAUSTED", name, err)
			}
		}
		full := `"` + strings.Repeat("<", control.MaxArguments-2) + `"`
		if reply, err := l.Call(r.t.Context(), "lomi_status", json.RawMessage(full)); err != nil || reply.Status != "ok" {
			t.Errorf("64 KiB: got %v, %v", reply.Code, err)
		}
	})
}
