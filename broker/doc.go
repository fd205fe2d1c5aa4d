// Package broker is the engine behind every tool call: pairing, grants,
// policies, leases, approvals, artifacts, admission and dispatch. A call of
// the built-in chat and one of an external MCP host take the same way through
// it. Tools implement Adapter; the ledger underneath makes each effect happen
// at most once.
//
// Three rules keep it honest. Every request passes the steps of Broker.steps
// in their order and nothing else admits one. What can take a right away (the
// policy epoch, a session's and a lease's mark) is atomic and read at the
// effect, through the permit. And no lock is held while the ledger, an
// adapter, the desk's disk or a person is waited for; where two are needed the
// broker's mutex comes before a session's, and the feed's last.
package broker
