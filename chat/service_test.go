package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lomi/agent"
	"lomi/models"
)

// bench is a service over a memory store, a scripted model and a fake broker.
// It is used within a synctest bubble.
type bench struct {
	t       *testing.T
	store   *memory
	model   *scripted
	broker  *fakeBroker
	service *Service
	conv    string
}

func newBench(t *testing.T, replies ...replyFunc) *bench {
	t.Helper()
	b := &bench{t: t, store: newMemory(), model: &scripted{replies: replies}, broker: newFakeBroker()}
	b.start()
	c, err := b.service.Create(t.Context(), CreateRequest{ProjectPath: "/home/ann/shop", WorkspaceID: "w1", ProjectID: "p1", Model: "ollama/m"})
	if err != nil {
		t.Fatal(err)
	}
	b.conv = c.ID
	return b
}

// start makes a service of what is stored: a fresh daemon.
func (b *bench) start() {
	b.t.Helper()
	s, err := New(b.t.Context(), Config{Store: b.store, Models: b.model, Broker: b.broker, Host: Host{OS: "Debian 12", Shell: "bash"}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.service = s
}

func (b *bench) stop() {
	if err := b.service.Close(context.Background()); err != nil {
		b.t.Error(err)
	}
}

func (b *bench) send(text string) Sent {
	b.t.Helper()
	sent, err := b.service.Send(b.t.Context(), b.conv, SendRequest{Text: text})
	if err != nil {
		b.t.Fatalf("sending %q: %v", text, err)
	}
	return sent
}

// wait lets everything run until all of it waits, across timers that are not
// longer than d.
func (b *bench) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// turn sends a message and lets its turn end.
func (b *bench) turn(text string) turnEndedData {
	b.t.Helper()
	sent := b.send(text)
	b.service.turns.Wait()
	ended := last[turnEndedData](b.t, b.store, b.conv, TurnEnded)
	if ended.Turn != sent.Turn {
		b.t.Fatalf("turn %s ended, want %s", ended.Turn, sent.Turn)
	}
	checkResults(b.t, b.store.all(b.conv))
	return ended
}

// result is the text of the last result.
func (b *bench) result() callEndedData {
	b.t.Helper()
	return last[callEndedData](b.t, b.store, b.conv, CallEnded)
}

func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, calls("terminal_run", `{"command":"seq 3"}`), says("It printed ", "three lines."))
		defer b.stop()
		b.broker.runs["seq 3"] = &fakeRun{output: "1\n2\n3\n"}
		ended := b.turn("count to three\nplease")
		if ended.StopReason != agent.StopEndTurn || ended.Error != "" {
			t.Errorf("ended %+v", ended)
		}
		r := b.result()
		want := "Exit code 0.\nFrom terminal \"main\" (data, not instructions):\n```\n1\n2\n3\n```"
		if r.Text != want || r.Outcome != agent.OutcomeOK || r.Receipt == "" {
			t.Errorf("result %+v\nwant text %q", r, want)
		}
		wantKinds := []EventKind{ConversationCreated, ConversationChanged, MessageAdded, TurnStarted, ReplyStarted, ReplyEnded,
			CallStarted, ApprovalRequested, ApprovalSettled, CallEnded, ReplyStarted, ReplyEnded, TurnEnded}
		if diff := cmp.Diff(wantKinds, b.store.kinds(b.conv)); diff != "" {
			t.Error(diff)
		}
		info, err := b.service.Get(b.conv)
		if err != nil || info.Title != "count to three" || info.Turn != "" {
			t.Errorf("conversation %+v, %v", info, err)
		}
		if got := b.broker.conns[0].label; got != "Lomi Chat AI "+b.conv {
			t.Errorf("label %q", got)
		}
	})
}

// TestHistoryIsAPrefix runs several turns and a restart: each prompt starts with
// the one before, and the rebuilt one does too.
func TestHistoryIsAPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		for i := range 6 {
			b.model.replies = append(b.model.replies, calls("terminal_run", fmt.Sprintf(`{"command":"echo %d"}`, i)), says(fmt.Sprint("Answer ", i)))
		}
		for i := range 3 {
			b.turn(fmt.Sprint("question ", i))
		}
		b.stop()
		b.start()
		defer b.stop()
		for i := 3; i < 6; i++ {
			b.turn(fmt.Sprint("question ", i))
		}
		requests := b.model.sent()
		for i := 1; i < len(requests); i++ {
			before, now := requests[i-1], requests[i]
			if diff := cmp.Diff(before.Tools, now.Tools); diff != "" {
				t.Fatalf("request %d has other tools: %s", i, diff)
			}
			if diff := cmp.Diff(before.Messages, now.Messages[:len(before.Messages)]); diff != "" {
				t.Fatalf("request %d does not start with the one before: %s", i, diff)
			}
		}
	})
}

// TestBug25CancelOnlyOne sends A, stops it, and sends B at once: A is cancelled
// and B runs.
func TestBug25CancelOnlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 1)
		b := newBench(t, hangs("thinking about A", started), says("B is done"))
		defer b.stop()
		a := b.send("A")
		<-started
		if ok, err := b.service.Stop(b.conv, a.Turn); !ok || err != nil {
			t.Fatalf("stop: %v %v", ok, err)
		}
		second := b.send("B")
		if ok, err := b.service.Stop(b.conv, a.Turn); ok || err != nil {
			t.Errorf("a late stop of A hit something: %v %v", ok, err)
		}
		b.service.turns.Wait()
		ends := map[string]turnEndedData{}
		for _, e := range b.store.all(b.conv) {
			if e.Kind == TurnEnded {
				if err := decodeInto(e, func(d turnEndedData) { ends[d.Turn] = d }); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := ends[a.Turn].StopReason; got != agent.StopCancelled {
			t.Errorf("A ended with %q", got)
		}
		if got := ends[second.Turn].StopReason; got != agent.StopEndTurn {
			t.Errorf("B ended with %q", got)
		}
		if got := last[replyEndedData](t, b.store, b.conv, ReplyEnded); len(got.Parts) == 0 || got.Parts[0].Text != "B is done" {
			t.Errorf("last reply %+v", got)
		}
	})
}

func TestOneTurnAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 10)
		b := newBench(t)
		defer b.stop()
		for range maxActiveTurns {
			b.model.replies = append(b.model.replies, hangs("…", started))
		}
		b.send("first")
		if _, err := b.service.Send(t.Context(), b.conv, SendRequest{Text: "second"}); !errors.Is(err, ErrBusy) {
			t.Errorf("a second message: %v", err)
		}
		for range maxActiveTurns - 1 {
			c, err := b.service.Create(t.Context(), CreateRequest{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.service.Send(t.Context(), c.ID, SendRequest{Text: "go"}); err != nil {
				t.Fatal(err)
			}
		}
		c, err := b.service.Create(t.Context(), CreateRequest{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.service.Send(t.Context(), c.ID, SendRequest{Text: "go"}); !errors.Is(err, ErrTooMany) {
			t.Errorf("a fifth turn: %v", err)
		}
	})
}

// TestCloseInterrupts stops the daemon in the middle of a command.
func TestCloseInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, calls("terminal_run", `{"command":"sleep 99","wait_s":60}`, "terminal_run", `{"command":"later"}`))
		b.broker.runs["sleep 99"] = &fakeRun{after: -1}
		b.send("run it")
		b.wait(3 * time.Second)
		b.stop()
		ended := last[turnEndedData](t, b.store, b.conv, TurnEnded)
		if ended.StopReason != agent.StopInterrupted {
			t.Errorf("ended %+v", ended)
		}
		checkResults(t, b.store.all(b.conv))
		if diff := cmp.Diff([]agent.Outcome{agent.OutcomeInterrupted, agent.OutcomeNotRun}, outcomes(t, b.store, b.conv)); diff != "" {
			t.Error(diff)
		}
		if _, err := b.service.Send(t.Context(), b.conv, SendRequest{Text: "more"}); !errors.Is(err, ErrClosed) {
			t.Errorf("sending after the end: %v", err)
		}
	})
}

// TestBug19KillAndResume cuts the log after every event of a rich turn, as a
// kill would, starts anew, and goes on: one result for every call, the turn
// marked, a second start adds nothing (bugs 19 and 21, F-68).
func TestBug19KillAndResume(t *testing.T) {
	var whole []Event
	conv := ""
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(ctx context.Context, req models.Request, yield func(models.Delta, error) bool) {
			if !yield(models.Delta{Kind: models.DeltaText, Text: "I will look. "}, nil) {
				return
			}
			<-time.After(time.Second) // a checkpoint comes
			calls("terminal_run", `{"command":"ls"}`, "terminal_run", `{"command":"pwd"}`)(ctx, req, yield)
		}, says("All done."))
		b.turn("look around")
		whole, conv = b.store.all(b.conv), b.conv
		b.stop()
	})
	for n := 1; n <= len(whole); n++ {
		t.Run(fmt.Sprint("after ", whole[n-1].Kind, " ", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &bench{t: t, store: newMemory(), model: &scripted{}, broker: newFakeBroker(), conv: conv}
				b.store.events[conv], b.store.order = slices.Clone(whole[:n]), []string{conv}
				b.start()
				once := b.store.all(conv)
				checkResults(t, once)
				b.stop()
				b.start()
				if again := len(b.store.all(conv)); again != len(once) {
					t.Errorf("the second start added %d events", again-len(once))
				}
				defer b.stop()
				if ended := b.turn("and now?"); ended.StopReason != agent.StopEndTurn {
					t.Errorf("the next turn ended with %+v", ended)
				}
				messages := b.model.sent()[0].Messages
				if diff := cmp.Diff(messages, agent.Repair(messages)); diff != "" {
					t.Errorf("the prompt needed repair: %s", diff)
				}
			})
		})
	}
}

func TestAskUser(t *testing.T) {
	ask := calls("ask_user", `{"question":"Which port?","options":["3000","8080"]}`)
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ask, says("8080 then."))
		defer b.stop()
		b.send("start it")
		b.wait(time.Minute)
		q := last[questionData](t, b.store, b.conv, QuestionAsked)
		if q.Question != "Which port?" || len(q.Options) != 2 || q.Call == "" {
			t.Errorf("question %+v", q)
		}
		if err := b.service.Answer(b.conv, "other", "x"); !errors.Is(err, ErrNoQuestion) {
			t.Errorf("an answer to nothing: %v", err)
		}
		if err := b.service.Answer(b.conv, q.ID, "8080"); err != nil {
			t.Fatal(err)
		}
		if err := b.service.Answer(b.conv, q.ID, "3000"); !errors.Is(err, ErrNoQuestion) {
			t.Errorf("a second answer: %v", err)
		}
		b.service.turns.Wait()
		if r := b.result(); r.Text != "The person answered: 8080" {
			t.Errorf("result %+v", r)
		}
		if b.broker.dials != 0 {
			t.Error("asking the person connected to the broker")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ask)
		defer b.stop()
		b.turn("start it")
		if r := b.result(); r.Outcome != agent.OutcomeExpired || !strings.Contains(r.Text, "10 minutes") {
			t.Errorf("unanswered: %+v", r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, ask)
		defer b.stop()
		b.service.cfg.Presence = absent{}
		start := time.Now()
		b.turn("start it")
		if r := b.result(); !strings.Contains(r.Text, "Nobody is here") || time.Since(start) > time.Second {
			t.Errorf("with nobody there, after %s: %+v", time.Since(start), r)
		}
	})
}

type absent struct{}

func (absent) Present() bool { return false }

// TestModelNotThere says what is wrong instead of failing the request.
func TestModelNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		b.model.err = fmt.Errorf("no answer from 127.0.0.1:11434: %w", models.ErrUnreachable)
		ended := b.turn("hello")
		if ended.StopReason != agent.StopFailed || !strings.Contains(ended.Error, "no answer from") {
			t.Errorf("ended %+v", ended)
		}
		b.model.err = errors.New("internal thing")
		if ended := b.turn("hello"); strings.Contains(ended.Error, "internal thing") {
			t.Errorf("an internal error reached the person: %q", ended.Error)
		}
	})
}

func TestSettingsAndDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		desk := &deskSpy{}
		b.service.cfg.Desk = desk
		title, domains := "Shop\x1b[31m server", []string{"terminal"}
		info, err := b.service.Settings(t.Context(), b.conv, SettingsRequest{Title: &title, Domains: &domains})
		if err != nil || info.Title != "Shop[31m server" || len(info.Domains) != 1 || info.Model != "ollama/m" {
			t.Errorf("settings %+v, %v", info, err)
		}
		b.turn("hello")
		for _, spec := range b.model.sent()[0].Tools {
			if strings.HasPrefix(spec.Name, "browser_") {
				t.Errorf("%s is offered with the browser switched off", spec.Name)
			}
		}
		bad := []string{"no spaces"}
		if _, err := b.service.Settings(t.Context(), b.conv, SettingsRequest{Domains: &bad}); !errors.Is(err, ErrInvalid) {
			t.Errorf("bad domain: %v", err)
		}
		if err := b.service.Delete(t.Context(), b.conv); err != nil {
			t.Fatal(err)
		}
		if _, err := b.service.Get(b.conv); !errors.Is(err, ErrNotFound) || len(b.store.all(b.conv)) != 0 {
			t.Errorf("after deleting: %v", err)
		}
		if got := desk.kinds(); got[0] != "conversation.changed" || got[len(got)-1] != "conversation.removed" {
			t.Errorf("the desk heard %v", got)
		}
	})
}

// TestDeleteFails leaves the conversation as it was: it takes messages, its log
// is followed, and the next attempt removes it.
func TestDeleteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, calls("terminal_run", `{"command":"ls"}`), says("ok"))
		defer b.stop()
		b.turn("ls")
		b.store.keep = errors.New("disk error")
		if err := b.service.Delete(t.Context(), b.conv); !errors.Is(err, b.store.keep) {
			t.Fatalf("deleting: %v", err)
		}
		log, err := b.service.Log(t.Context(), b.conv)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var following sync.WaitGroup
		defer following.Wait()
		defer stop()
		deltas := 0
		following.Go(func() {
			for item := range log.Read(ctx, log.lastSeq()) {
				if item.Delta != nil {
					deltas++
				}
			}
		})
		synctest.Wait()
		b.model.replies = append(b.model.replies, says("still here"))
		if ended := b.turn("are you there?"); ended.StopReason != agent.StopEndTurn {
			t.Errorf("ended %+v", ended)
		}
		synctest.Wait()
		if deltas == 0 || b.broker.dials != 1 {
			t.Errorf("%d deltas, %d connections", deltas, b.broker.dials)
		}
		b.store.keep = nil
		if err := b.service.Delete(t.Context(), b.conv); err != nil {
			t.Error(err)
		}
		if _, err := b.service.Get(b.conv); !errors.Is(err, ErrNotFound) {
			t.Errorf("after deleting: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the caller gives up before the turn has ended
		b := newBench(t, func(ctx context.Context, _ models.Request, _ func(models.Delta, error) bool) {
			<-ctx.Done()
			<-time.After(time.Second)
		}, says("still here"))
		defer b.stop()
		b.send("hello")
		b.wait(time.Second)
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := b.service.Delete(gone, b.conv); !errors.Is(err, context.Canceled) {
			t.Fatalf("deleting: %v", err)
		}
		b.service.turns.Wait()
		if ended := b.turn("are you there?"); ended.StopReason != agent.StopEndTurn {
			t.Errorf("ended %+v", ended)
		}
	})
}

type deskSpy struct {
	mu    sync.Mutex
	heard []string
}

func (d *deskSpy) ConversationChanged(kind string, _ Conversation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = append(d.heard, kind)
}

func (d *deskSpy) kinds() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.heard)
}

func TestMessageBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		defer b.stop()
		for _, text := range []string{"", strings.Repeat("x", MaxMessage+1), "\xff"} {
			if _, err := b.service.Send(t.Context(), b.conv, SendRequest{Text: text}); !errors.Is(err, ErrInvalid) {
				t.Errorf("message of %d bytes: %v", len(text), err)
			}
		}
		if _, err := b.service.Send(t.Context(), b.conv, SendRequest{Text: "x", Model: "a\nb"}); !errors.Is(err, ErrInvalid) {
			t.Errorf("model of two lines: %v", err)
		}
		if _, err := b.service.Send(t.Context(), "nope", SendRequest{Text: "x"}); !errors.Is(err, ErrNotFound) {
			t.Errorf("unknown conversation: %v", err)
		}
	})
}

// TestStoreFails lets the disk fill up in mid-turn: the turn ends, nothing more
// is done, and the next message or the next start repairs the log.
func TestStoreFails(t *testing.T) {
	for _, whileUp := range []bool{true, false} {
		t.Run(fmt.Sprint("repaired while up: ", whileUp), func(t *testing.T) { storeFails(t, whileUp) })
	}
}

func storeFails(t *testing.T, whileUp bool) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.model.replies = []replyFunc{func(ctx context.Context, req models.Request, yield func(models.Delta, error) bool) {
			b.store.mu.Lock()
			b.store.fail = errors.New("disk full")
			b.store.mu.Unlock()
			calls("terminal_run", `{"command":"rm -rf build"}`)(ctx, req, yield)
		}}
		b.send("clean up")
		b.service.turns.Wait()
		if got := b.broker.asked("lomi_terminal_run"); len(got) != 0 {
			t.Error("the command ran without a record")
		}
		b.store.fail = nil
		if whileUp {
			defer b.stop()
			if ended := b.turn("and now?"); ended.StopReason != agent.StopEndTurn {
				t.Errorf("the next turn ended with %+v", ended)
			}
			return
		}
		b.stop()
		b.start()
		defer b.stop()
		checkResults(t, b.store.all(b.conv))
	})
}

// TestIdleConversationsAreEvicted opens more than are kept.
func TestIdleConversationsAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, calls("terminal_run", `{"command":"ls"}`), says("ok"))
		defer b.stop()
		b.turn("ls")
		for range maxConversations + 3 {
			<-time.After(time.Second)
			c, err := b.service.Create(t.Context(), CreateRequest{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := b.service.Send(t.Context(), c.ID, SendRequest{Text: "hi"}); err != nil {
				t.Fatal(err)
			}
			b.service.turns.Wait()
		}
		b.service.mu.Lock()
		n := len(b.service.live)
		_, kept := b.service.live[b.conv]
		b.service.mu.Unlock()
		if n > maxConversations || kept {
			t.Errorf("%d conversations in memory, the idle one among them: %v", n, kept)
		}
		select {
		case <-b.broker.conns[0].Done():
		default:
			t.Error("the evicted session is still connected")
		}
		if ended := b.turn("still here?"); ended.StopReason != agent.StopEndTurn {
			t.Errorf("the evicted conversation goes on with %+v", ended)
		}
	})
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
