package broker

import "sync/atomic"

// Permit is the right to carry out one effect. It can be taken back until the
// effect starts, and is asked again at every write boundary after that. It is
// safe for concurrent use.
type Permit struct {
	check     func() error
	cancelled <-chan struct{}
	started   atomic.Bool
}

// NewPermit makes a permit that is good as long as check returns nil; check
// takes no lock that a revocation could wait for. cancelled is closed when the
// caller or a person asks for the effect to end.
func NewPermit(check func() error, cancelled <-chan struct{}) *Permit {
	return &Permit{check: check, cancelled: cancelled}
}

// Check returns CONTROL_REVOKED when the right has ended: the policy epoch
// moved, the session or its lease is gone, a person took over.
func (p *Permit) Check() error { return p.check() }

// Start is Check, and from then on the effect may have happened: what fails
// later without saying so counts as unknown. Call it right before the first
// byte that can have an effect.
func (p *Permit) Start() error {
	if err := p.check(); err != nil {
		return err
	}
	p.started.Store(true)
	return nil
}

// Started reports whether Start succeeded.
func (p *Permit) Started() bool { return p.started.Load() }

// Cancelled is closed when someone asked for the effect to end.
func (p *Permit) Cancelled() <-chan struct{} { return p.cancelled }
