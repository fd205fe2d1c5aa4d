package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"runtime"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lomi/broker/catalog/link"
	"lomi/broker/client"
	"lomi/broker/control"
)

// answer carries one call to the broker, or answers it here.
func (f *face) answer(ctx context.Context, tool control.Tool, args json.RawMessage, label string) control.Reply {
	args, bad := normal(args)
	if bad != nil {
		return control.Failure(bad)
	}
	if tool.Unpaired {
		// These two take no arguments; what is wrong with them is known here.
		if err := control.Decode(args, tool.NewRequest()); err != nil {
			return control.Failure(err)
		}
	}
	s := f.pairing.find(ctx, label)
	if s.conn == nil {
		if tool.Unpaired {
			return local(tool, s)
		}
		return control.Failure(s.why)
	}
	reply, err := s.conn.Call(ctx, tool.Name, args)
	switch {
	case err == nil:
		return reply
	case tool.Unpaired:
		return local(tool, standing{state: "disconnected", why: client.Failure(err, true)})
	}
	return control.Failure(client.Failure(err, tool.ReadOnly))
}

// normal gives arguments the one form in which they go on: an object.
func normal(args json.RawMessage) (json.RawMessage, *control.Error) {
	args = bytes.TrimSpace(args)
	switch {
	case len(args) == 0 || string(args) == "null":
		return json.RawMessage("{}"), nil
	case len(args) > control.MaxArguments:
		return nil, control.Errorf(control.ResourceExhausted, "arguments: must have at most %d bytes", control.MaxArguments)
	case args[0] != '{':
		return nil, control.Errorf(control.ResourceExhausted, "arguments: must be an object")
	}
	return args, nil
}

// local answers the two tools that work without a session.
func local(tool control.Tool, s standing) control.Reply {
	var data any
	if tool.Name == "lomi_diagnostics" {
		data = link.Diagnostics{Kind: "diagnostics", Connection: s.state, NextStep: s.why.Message}
	} else {
		data = link.Status{Kind: "status", Connection: s.state, PairingRequestID: s.pairing,
			Platform: runtime.GOOS + "/" + runtime.GOARCH, Limitations: []string{s.why.Message}}
	}
	reply, err := control.OK(data, nil)
	if err != nil {
		return control.Failure(err)
	}
	return reply
}

// result gives a reply the form of MCP: the envelope as structured content and
// again as text, for hosts that read only text, and the image as a block of its
// own. The envelope is encoded here, because the SDK never answers a call whose
// structured content it cannot encode.
func result(reply control.Reply) *mcp.CallToolResult {
	image := reply.Image
	reply.Image = nil
	data, err := json.Marshal(reply)
	if err != nil {
		return result(control.Failure(err))
	}
	content := []mcp.Content{&mcp.TextContent{Text: string(data)}}
	if image != nil && strings.HasPrefix(image.MediaType, "image/") && len(image.Data) > 0 {
		content = append(content, &mcp.ImageContent{Data: image.Data, MIMEType: image.MediaType})
	}
	return &mcp.CallToolResult{Content: content, StructuredContent: json.RawMessage(data), IsError: reply.Status != "ok"}
}
