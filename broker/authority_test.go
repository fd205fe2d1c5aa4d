package broker

import (
	"context"
	"slices"
	"testing"

	"lomi/broker/catalog/link"
	"lomi/broker/control"
)

// choosy offers one tool of its domain.
type choosy struct{ fakeAdapter }

func (*choosy) Offers(tool string) (bool, string) {
	return tool == "fake_do", "the rest needs a part that is not here"
}

func TestAdapterChoosesItsTools(t *testing.T) {
	r := newRig(t, func(cfg *Config) { cfg.Adapters["fake"] = &choosy{} })
	c := r.pair(terminalGrant("w1"))
	status := decodeData[link.Status](t, c.call("lomi_status", map[string]any{}))
	for _, capability := range status.Capabilities {
		want := capability.Name == "fake_do" || r.tools[capability.Name].Domain == "link"
		if capability.Available != want || capability.Qualified != want {
			t.Errorf("%+v", capability)
		}
	}
	if !slices.Equal(status.Limitations, []string{"the rest needs a part that is not here"}) {
		t.Errorf("limitations %q", status.Limitations)
	}
	if op := c.operation("fake_do", c.args()); op.State != control.StateSucceeded {
		t.Errorf("offered: %+v", op)
	}
	reply := c.call("fake_risky", c.args())
	if reply.Code != control.UnsupportedCapability || reply.Message != "the rest needs a part that is not here" {
		t.Errorf("not offered: %+v", reply)
	}
}

func TestAuthorityEndsWithTheSession(t *testing.T) {
	r := newRig(t, func(cfg *Config) { cfg.Internal = func(_, port string) bool { return port == "7777" } })
	c := r.pair(GrantSpec{Scopes: DomainScopes("browser"), Workspaces: []string{"w1"}, Origins: []string{"https://a.test", "http://127.0.0.1:8080"}})
	s := r.session(c.session)
	a := authority{b: r.Broker, s: s}
	r.giveLease(s, "browser:a")
	other := r.pair(terminalGrant("w1"))
	r.giveLease(r.session(other.session), "terminal:b")
	for _, row := range []struct {
		name      string
		got, want any
	}{
		{"a granted scope", a.Scope(control.BrowserRead), true},
		{"another scope", a.Scope(control.TerminalRead), false},
		{"a granted workspace", a.Workspace("w1"), true},
		{"another workspace", a.Workspace("w2"), false},
		{"a granted origin", a.Origin("https://a.test:443"), true},
		{"another port", a.Origin("https://a.test:444"), false},
		{"Lomi's own port", a.Origin("http://127.0.0.1:7777"), false},
		{"by session", r.AllowsOrigin(c.session, "http://127.0.0.1:8080"), true},
		{"by an unknown session", r.AllowsOrigin("x", "https://a.test:443"), false},
		{"its own panel", a.Holder("browser:a"), "this_session"},
		{"another's panel", a.Holder("terminal:b"), "another_session"},
		{"nobody's panel", a.Holder("terminal:c"), ""},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, row.got, row.want)
		}
	}
	if err := r.Revoke(c.session); err != nil {
		t.Fatal(err)
	}
	if a.Scope(control.BrowserRead) || a.Workspace("w1") || a.Origin("https://a.test:443") || a.Holder("browser:a") != "" {
		t.Error("the authority outlived its session")
	}
}

func TestCreatorAloneGainsWhatItMakes(t *testing.T) {
	r := newRig(t)
	one, two := r.pair(terminalGrant("w1")), r.pair(terminalGrant("w1"))
	r.adapter.do = func(_ context.Context, p *Permit, _ Call, _ Target) (Result, error) {
		return Result{Data: fakeData{Kind: "fake"}, Workspaces: []string{"w2", "never-made"}}, p.Start()
	}
	wantCode(t, one.call("fake_do", one.args("workspaceId", "w2")), control.TargetNotFound)
	wantCode(t, one.call("fake_do", one.args()), "")
	wantCode(t, one.call("fake_do", one.args("workspaceId", "w2")), "")
	wantCode(t, two.call("fake_do", two.args("workspaceId", "w2")), control.TargetNotFound)
	wantCode(t, one.call("fake_do", one.args("workspaceId", "never-made")), control.TargetNotFound)
}
