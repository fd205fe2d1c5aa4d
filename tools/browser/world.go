package browser

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	chromepage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lomi/broker/control"
)

// walkScript defines what we run in pages; see its own comment.
//
//go:embed walk.js
var walkScript string

// worldName marks our isolated world in a debugger.
const worldName = "lomi"

// world returns our isolated world in a frame's document, made on first use.
func (p *page) world(ctx context.Context, f *frame) (session, runtime.ExecutionContextID, error) {
	p.mu.Lock()
	s, id, frameID, navigation := f.session, f.world, f.id, p.navigation
	p.mu.Unlock()
	if id != 0 {
		return s, id, nil
	}
	made, err := cdp.Call(ctx, s, chromepage.CreateIsolatedWorld, chromepage.CreateIsolatedWorldParams{FrameID: frameID, WorldName: worldName})
	if err != nil {
		return s, 0, fmt.Errorf("entering a page: %w", err)
	}
	id = made.ExecutionContextID
	res, err := cdp.Call(ctx, s, runtime.Evaluate, runtime.EvaluateParams{Expression: walkScript, ContextID: id, Silent: new(true)})
	if err != nil {
		return s, 0, fmt.Errorf("entering a page: %w", err)
	}
	if res.ExceptionDetails != nil {
		return s, 0, fmt.Errorf("entering a page: %s", exceptionText(res.ExceptionDetails))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.navigation == navigation && f.session == s {
		f.world = id
	}
	return s, id, nil
}

// run calls one of walk.js's functions in a frame and decodes what it returns.
// A document that was replaced in between gives STALE_SNAPSHOT.
func run[T any](ctx context.Context, p *page, f *frame, name string, args ...any) (T, error) {
	return runOn[T](ctx, p, f, "", name, args...)
}

// runOn is run with a node of the frame's document as the first argument.
func runOn[T any](ctx context.Context, p *page, f *frame, node runtime.RemoteObjectID, name string, args ...any) (T, error) {
	var zero T
	s, id, err := p.world(ctx, f)
	if err != nil {
		return zero, stale(err)
	}
	call := runtime.CallFunctionOnParams{
		FunctionDeclaration: "function(...a) { return lomi." + name + "(...a) }",
		ExecutionContextID:  id, ReturnByValue: new(true), AwaitPromise: new(true), Silent: new(true),
	}
	if node != "" {
		call.Arguments = append(call.Arguments, &runtime.CallArgument{ObjectID: node})
	}
	for _, a := range args {
		raw, err := jsonv2.Marshal(a, chromedp.DefaultMarshalOptions)
		if err != nil {
			return zero, fmt.Errorf("encoding an argument of a page: %w", err)
		}
		call.Arguments = append(call.Arguments, &runtime.CallArgument{Value: raw})
	}
	res, err := cdp.Call(ctx, s, runtime.CallFunctionOn, call)
	if err != nil {
		p.forgetWorld(f, id)
		return zero, stale(err)
	}
	if res.ExceptionDetails != nil {
		return zero, fmt.Errorf("running %s in a page: %s", name, exceptionText(res.ExceptionDetails))
	}
	var out T
	if err := jsonv2.Unmarshal(res.Result.Value, &out, chromedp.DefaultUnmarshalOptions); err != nil {
		return zero, fmt.Errorf("reading %s of a page: %w", name, err)
	}
	return out, nil
}

// forgetWorld lets the next call make the world anew.
func (p *page) forgetWorld(f *frame, id runtime.ExecutionContextID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.world == id {
		f.world = 0
	}
}

// stale turns Chromium's "no such context or frame" into the code that tells
// a caller to look again.
func stale(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, errGone) {
		return err
	}
	text := err.Error()
	for _, sign := range []string{"context", "No frame", "frame with", "destroyed", "navigated", "Session with given id"} {
		if strings.Contains(text, sign) {
			return control.Errorf(control.StaleSnapshot, "the page has changed; take a new snapshot")
		}
	}
	return err
}

func exceptionText(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return line(d.Exception.Description, 300)
	}
	return line(d.Text, 300)
}

// ownerOf returns the element of a frame in the document of its parent.
func (p *page) ownerOf(ctx context.Context, f *frame) (*frame, runtime.RemoteObjectID, error) {
	p.mu.Lock()
	parent := p.frames[f.parent]
	p.mu.Unlock()
	if parent == nil {
		return nil, "", control.Errorf(control.StaleSnapshot, "the frame is gone; take a new snapshot")
	}
	s, world, err := p.world(ctx, parent)
	if err != nil {
		return nil, "", stale(err)
	}
	owner, err := cdp.Call(ctx, s, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: f.id})
	if err != nil {
		return nil, "", stale(err)
	}
	node, err := cdp.Call(ctx, s, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: owner.BackendNodeID, ExecutionContextID: world})
	if err != nil {
		return nil, "", stale(err)
	}
	return parent, node.Object.ObjectID, nil
}
