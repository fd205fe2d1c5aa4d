package broker

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/broker/catalog/link"
	"lomi/broker/control"
	"lomi/broker/wire"
)

func (r *rig) enroll(ctx context.Context, certificate string) wire.Pairing {
	r.t.Helper()
	p, err := r.Enroll(ctx, wire.Peer{Label: "host", CertificateSHA256: certificate})
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// pass lets time go by in a bubble, and what is due in it happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestPairingExpiresAfterTwoMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.enroll(t.Context(), "a")
		pass(pairingTimeout - time.Second)
		if n := len(r.Pairings()); n != 1 {
			t.Fatalf("%d pairings wait", n)
		}
		pass(time.Second)
		if d := <-p.Decision; d != wire.Expired {
			t.Errorf("decision %s", d)
		}
		if err := r.Approve(t.Context(), p.ID, terminalGrant("w1")); errorCode(err) != control.TargetNotFound {
			t.Errorf("approving an expired pairing: %v", err)
		}
		if _, err := r.Open(t.Context(), p.ID); errorCode(err) != control.PairingRequired {
			t.Errorf("opening an expired pairing: %v", err)
		}
	})
}

func TestApprovedPairingWaitsForItsHandshakeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.enroll(t.Context(), "a")
		if err := r.Approve(t.Context(), p.ID, terminalGrant("w1")); err != nil {
			t.Fatal(err)
		}
		pass(openTimeout)
		if _, err := r.Open(t.Context(), p.ID); errorCode(err) != control.PairingRequired {
			t.Errorf("opening late: %v", err)
		}
		r.enroll(t.Context(), "a") // the place and the certificate are free again
	})
}

func TestPairingRefusals(t *testing.T) {
	r := newRig(t)
	for _, label := range []string{"", strings.Repeat("x", 81), "a\nb", "a\x1b[2J", "\u202eevil", "\xff", "\u200b"} {
		if _, err := r.Enroll(t.Context(), wire.Peer{Label: label, CertificateSHA256: "c"}); errorCode(err) != control.ResourceExhausted {
			t.Errorf("label %q: %v", label, err)
		}
	}
	for i := range maxPairings {
		r.enroll(t.Context(), fmt.Sprint("c", i))
	}
	_, err := r.Enroll(t.Context(), wire.Peer{Label: "x", CertificateSHA256: "more"})
	if errorCode(err) != control.ResourceExhausted {
		t.Errorf("the ninth pairing: %v", err)
	}
	first := r.Pairings()[0]
	if err := r.Reject(first.ID); err != nil {
		t.Fatal(err)
	}
	if err := r.Reject(first.ID); errorCode(err) != control.TargetNotFound {
		t.Errorf("rejecting twice: %v", err)
	}
	if _, err := r.Enroll(t.Context(), wire.Peer{Label: "x", CertificateSHA256: "c5"}); errorCode(err) != control.ResourceExhausted {
		t.Errorf("a certificate that waits already: %v", err)
	}
	r.enroll(t.Context(), "more")
}

func TestOpenCertificateIsNotEnrolledAgain(t *testing.T) {
	r := newRig(t)
	p := r.enroll(t.Context(), "mine")
	if err := r.Approve(t.Context(), p.ID, terminalGrant("w1")); err != nil {
		t.Fatal(err)
	}
	if err := r.Approve(t.Context(), p.ID, terminalGrant("w1")); errorCode(err) != control.RevisionConflict {
		t.Errorf("approving twice: %v", err)
	}
	if _, err := r.Open(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(t.Context(), p.ID); errorCode(err) != control.PairingRequired {
		t.Errorf("opening twice: %v", err)
	}
	if _, err := r.Enroll(t.Context(), wire.Peer{Label: "x", CertificateSHA256: "mine"}); errorCode(err) != control.ResourceExhausted {
		t.Errorf("enrolling an open certificate: %v", err)
	}
	r.Closed(p.ID)
	r.enroll(t.Context(), "mine")
}

func TestHungUpHelperLeavesNoPairing(t *testing.T) {
	r := newRig(t)
	ctx, hangUp := context.WithCancel(t.Context())
	p := r.enroll(ctx, "a")
	hangUp()
	until(t, "the pairing is gone", func() bool { return len(r.Pairings()) == 0 })
	if d := <-p.Decision; d != wire.Expired {
		t.Errorf("decision %s", d)
	}
}

func TestApproveChecksTheGrant(t *testing.T) {
	r := newRig(t)
	p := r.enroll(t.Context(), "a")
	terminal, browser := DomainScopes("terminal"), DomainScopes("browser")
	for _, row := range []struct {
		spec GrantSpec
		want string
	}{
		{GrantSpec{Scopes: terminal[1:]}, "SCOPE_DENIED: scopes: workspace.read is needed in every grant"},
		{GrantSpec{Scopes: terminal, Workspaces: []string{"w1", "gone"}}, "TARGET_NOT_FOUND: workspaces[1]: is not open"},
		{GrantSpec{Scopes: terminal, Policy: "yes"}, "RESOURCE_EXHAUSTED: policy: one of grant, ask_for_risk, ask_always"},
		{GrantSpec{Scopes: terminal, Origins: []string{"https://a.test"}}, "SCOPE_DENIED: origins: need a browser scope"},
		{GrantSpec{Scopes: browser, Origins: []string{"https://a.test", "https://*.test"}}, "RESOURCE_EXHAUSTED: origins[1]: must be one exact origin"},
		{GrantSpec{Scopes: browser, Origins: []string{"http://ipc.localhost"}}, "SCOPE_DENIED: origins[0]: is one of Lomi's own addresses"},
		{GrantSpec{Scopes: browser, Origins: make([]string, 17)}, "RESOURCE_EXHAUSTED: origins: at most 16"},
	} {
		err := r.Approve(t.Context(), p.ID, row.spec)
		if err == nil || err.Error() != row.want {
			t.Errorf("Approve(%+v) = %v, want %s", row.spec, err, row.want)
		}
	}
	if n := len(r.Pairings()); n != 1 {
		t.Errorf("a refused approval settled the pairing: %d wait", n)
	}
	if err := r.Approve(t.Context(), p.ID, GrantSpec{Scopes: browser, Workspaces: []string{"w1"}, Origins: []string{"https://A.test"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	info := r.Sessions()[0]
	if diff := cmp.Diff([]string{"https://a.test:443"}, info.Origins); diff != "" || info.Policy != PolicyAskForRisk {
		t.Errorf("session %+v: %s", info, diff)
	}
}

func TestStopAndResume(t *testing.T) {
	r := newRig(t)
	c := r.pair(terminalGrant("w1"))
	waiting := r.enroll(t.Context(), "a")
	approved := r.enroll(t.Context(), "b")
	if err := r.Approve(t.Context(), approved.ID, terminalGrant("w1")); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	<-c.ended
	wantCode(t, c.call("fake_do", c.args()), control.ControlRevoked)
	if d := <-waiting.Decision; d != wire.Rejected {
		t.Errorf("a waiting pairing was %s", d)
	}
	if _, err := r.Open(t.Context(), approved.ID); errorCode(err) != control.PairingRequired {
		t.Errorf("an approval from before the stop: %v", err)
	}
	if _, err := r.Enroll(t.Context(), wire.Peer{Label: "x", CertificateSHA256: "d"}); errorCode(err) != control.AppUnavailable {
		t.Errorf("enrolling while stopped: %v", err)
	}
	if info := r.Control(); !info.Stopped {
		t.Errorf("control %+v", info)
	}
	r.Resume()
	wantCode(t, c.call("fake_do", c.args()), control.ControlRevoked)
	if op := r.pair(terminalGrant("w1")); op.epoch == "" {
		t.Error("no pairing after resuming")
	}
}

func TestYOLO(t *testing.T) {
	r := newRig(t)
	before := r.pair(terminalGrant("w1"))
	waiting := r.enroll(t.Context(), "a")
	r.SetYOLO(true)
	<-before.ended
	if d := <-waiting.Decision; d != wire.Approved {
		t.Fatalf("a waiting pairing was %s", d)
	}
	s, err := r.Open(t.Context(), waiting.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{rig: r, session: s.ID, ended: s.Ended}
	c.epoch = decodeData[link.Connected](t, c.call("lomi_connect", map[string]any{"workspaceId": "x1"})).RetryEpoch
	for _, tool := range []string{"fake_do", "fake_risky", "fake_open"} {
		args := c.args("workspaceId", "x1", "origin", "https://anywhere.test:443", "command", "rm -rf build", "risk", "bad")
		first := c.operation(tool, args)
		if first.State != control.StateSucceeded {
			t.Errorf("%s: %+v", tool, first)
		}
		if again := c.operation(tool, args); again.OperationID != first.OperationID {
			t.Errorf("%s ran twice", tool)
		}
	}
	wantCode(t, c.call("fake_do", c.args("origin", "http://ipc.localhost:80")), control.ScopeDenied)
	if !r.Control().YOLO || !r.Sessions()[0].YOLO {
		t.Error("it does not show")
	}
	late := r.enroll(t.Context(), "late")
	if d := <-late.Decision; d != wire.Approved {
		t.Fatalf("a new pairing was %s", d)
	}
	r.SetYOLO(false)
	<-c.ended
	if _, err := r.Open(t.Context(), late.ID); errorCode(err) != control.PairingRequired {
		t.Errorf("what yolo approved opens after it is off: %v", err)
	}
	if n := len(r.Sessions()); n != 0 {
		t.Errorf("%d sessions live on", n)
	}
}

func TestLongSessionGetsAnotherEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.pair(terminalGrant("w1"))
		args := c.args()
		first := c.operation("fake_do", args)
		connect := func() string {
			return decodeData[link.Connected](t, c.call("lomi_connect", map[string]any{"workspaceId": "w1"})).RetryEpoch
		}
		if again := connect(); again != c.epoch {
			t.Errorf("a fresh epoch was replaced")
		}
		pass(24*time.Hour - epochMargin/2)
		next := connect()
		if next == c.epoch {
			t.Error("an epoch about to end was given again")
		}
		if op := c.operation("fake_do", args); op.OperationID != first.OperationID {
			t.Error("the old epoch ended early")
		}
		pass(epochMargin)
		wantCode(t, c.call("fake_do", args), control.RetryWindowExpired)
		if op := c.operation("fake_do", c.args("retryEpoch", next)); op.State != control.StateSucceeded {
			t.Errorf("in the new epoch: %+v", op)
		}
	})
}

func TestEventsOfAPairing(t *testing.T) {
	r := newRig(t)
	sub := r.Subscribe(t.Context())
	c := r.pair(terminalGrant("w1"))
	op := c.operation("fake_do", c.args())
	if err := r.SetPolicy(c.session, PolicyAskAlways); err != nil {
		t.Fatal(err)
	}
	r.Stop()
	var got []string
	for range 8 {
		e := <-sub.Events()
		name := e.Kind
		if info, ok := e.Data.(ReceiptInfo); ok {
			if info.ID != op.OperationID || info.Label != "test" {
				t.Errorf("receipt event %+v", info)
			}
			name += " " + string(info.State)
		}
		got = append(got, name)
	}
	want := []string{"pairing.requested", "pairing.settled", "session.opened", "receipt.changed running",
		"receipt.changed succeeded", "session.changed", "session.closed", "control.changed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSlowReaderIsCutOff(t *testing.T) {
	r := newRig(t)
	slow, quick := r.Subscribe(t.Context()), r.Subscribe(t.Context())
	for range feedQueue + 1 {
		r.publishControl()
		<-quick.Events()
	}
	n := 0
	for range slow.Events() {
		n++
	}
	if n != feedQueue || slow.Err() != ErrBehind {
		t.Errorf("got %d events, then %v", n, slow.Err())
	}
	if quick.Err() != nil {
		t.Errorf("the quick reader ended: %v", quick.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := r.Subscribe(ctx)
	cancel()
	<-left.Events()
	if left.Err() != context.Canceled {
		t.Errorf("after its context: %v", left.Err())
	}
	r.Broker.Close()
	for range quick.Events() {
	}
	if quick.Err() != ErrClosed || r.Subscribe(t.Context()).Err() != ErrClosed {
		t.Errorf("after Close: %v", quick.Err())
	}
}

// A person approves by the name that they read: another process cannot call
// itself the built-in chat.
func TestOnlyTheDaemonIsTheChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for i, row := range []struct {
			label string
			pid   int
			ok    bool
		}{
			{"Lomi Chat AI 0123", os.Getpid(), true},
			{"Lomi Chat AI 0123", os.Getpid() + 1, false},
			{"LOMI CHAT ai", os.Getpid() + 1, false},
			{"Lomi Chat AI 0123", 0, false},
			{"Lominous", 1, true},
		} {
			_, err := r.Enroll(t.Context(), wire.Peer{PID: row.pid, Label: row.label, CertificateSHA256: string(rune('a' + i))})
			if (err == nil) != row.ok {
				t.Errorf("%q from %d: %v", row.label, row.pid, err)
			}
		}
	})
}
