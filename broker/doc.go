// Package broker is the engine behind every tool call: pairing, grants,
// policies, leases, approvals, artifacts, admission and dispatch. A call of
// the built-in chat and one of an external MCP host take the same way through
// it. Tools implement Adapter; the ledger underneath makes each effect happen
// at most once.
package broker
