package broker

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"lomi/broker/control"
)

// Eight sessions repeat twelve requests each, four times at once, while people
// revoke half of them and take panels over. However it falls out: no request
// has its effect twice, none begins after a revocation has returned, and every
// receipt settles.
func TestStorm(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	effects := map[string]int{}  // by session and key
	revoked := map[string]bool{} // sessions whose Revoke has returned
	r.adapter.do = func(_ context.Context, p *Permit, call Call, _ Target) (Result, error) {
		mu.Lock()
		gone := revoked[call.Session]
		mu.Unlock()
		if err := p.Start(); err != nil {
			return Result{}, err
		}
		mu.Lock()
		defer mu.Unlock()
		if gone {
			t.Errorf("an effect of session %s began after its revocation", call.Session)
		}
		effects[call.Session+" "+call.Request.(*fakeRequest).RequestKey]++
		return Result{Data: fakeData{Kind: "terminal", PanelID: call.Session}, Lease: "terminal:" + call.Session}, nil
	}
	var wg sync.WaitGroup
	for i := range 8 {
		c := r.pair(terminalGrant("w1"))
		for range 4 {
			wg.Go(func() {
				for key := range 12 {
					reply := r.Handle(t.Context(), c.session, "fake_do", []byte(`{"workspaceId":"w1","retryEpoch":"`+c.epoch+`","requestKey":"k`+strconv.Itoa(key)+`"}`))
					if reply.Status != "ok" && reply.Code != control.ControlRevoked {
						t.Errorf("got %s %s", reply.Code, reply.Message)
					}
				}
			})
		}
		wg.Go(func() {
			r.TakeOver("terminal:" + c.session)
			if i%2 == 0 {
				if err := r.Revoke(c.session); err != nil {
					t.Error(err)
				}
				mu.Lock()
				revoked[c.session] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	until(t, "every receipt settles", func() bool {
		all, err := r.Receipts(t.Context(), ReceiptFilter{Unsettled: true})
		return err == nil && len(all) == 0
	})
	mu.Lock()
	defer mu.Unlock()
	if len(effects) < 4*12 {
		t.Errorf("only %d requests had an effect: too little load to show anything", len(effects))
	}
	for key, n := range effects {
		if n != 1 {
			t.Errorf("%s had its effect %d times", key, n)
		}
	}
	if err := r.ledger.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
