package ollama

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ollama/ollama/api"

	"lomi/models"
)

// request makes the wire request. It depends on nothing but its arguments, so
// that the same conversation always begins with the same bytes.
func (c *Client) request(req models.Request, d Details) (*api.ChatRequest, error) {
	on, off := true, false
	chat := &api.ChatRequest{
		Model:    req.Model,
		Messages: []api.Message{},
		Stream:   &on,
		// Both default to true: the oldest messages would vanish, the person's
		// question among them, with nothing said.
		Truncate:  &off,
		Shift:     &off,
		KeepAlive: &api.Duration{Duration: keepAlive},
		Options:   map[string]any{"num_ctx": c.window(req, d)},
	}
	if req.MaxOutputTokens > 0 {
		chat.Options["num_predict"] = req.MaxOutputTokens
	}
	switch {
	case req.Thinking == models.ThinkingOff:
		chat.Think = &api.ThinkValue{Value: false}
	case req.Thinking == models.ThinkingOn && d.Thinking: // true is refused by a model that cannot
		chat.Think = &api.ThinkValue{Value: true}
	}
	for _, spec := range req.Tools {
		tool, err := convertTool(spec)
		if err != nil {
			return nil, err
		}
		chat.Tools = append(chat.Tools, tool)
	}
	for _, m := range req.Messages {
		chat.Messages = append(chat.Messages, convertMessage(m, d.Vision)...)
	}
	return chat, nil
}

// convertMessage makes one message, or one for each result of a tool message.
func convertMessage(m models.Message, vision bool) []api.Message {
	var results []api.Message
	out := api.Message{Role: string(m.Role)}
	var text strings.Builder
	for _, p := range m.Parts {
		switch {
		case p.Kind == models.PartText:
			text.WriteString(p.Text)
		case p.Kind == models.PartImage && p.Image != nil:
			note := addImages(&out, []models.Image{*p.Image}, vision)
			text.WriteString(note)
		case p.Kind == models.PartCall && p.Call != nil:
			out.ToolCalls = append(out.ToolCalls, convertCall(*p.Call, len(out.ToolCalls)))
		case p.Kind == models.PartResult && p.Result != nil:
			results = append(results, convertResult(*p.Result, vision))
		}
	}
	out.Content = text.String()
	if out.Content == "" && len(out.ToolCalls) == 0 && len(out.Images) == 0 {
		return results // reasoning alone, or nothing: no template has a form for it
	}
	return append(results, out)
}

func convertResult(r models.ToolResult, vision bool) api.Message {
	out := api.Message{Role: "tool", Content: r.Text, ToolName: r.Name, ToolCallID: r.CallID}
	if r.IsError {
		out.Content = "Error: " + r.Text // the wire has no mark for a failure
	}
	out.Content += addImages(&out, r.Images, vision)
	return out
}

// addImages attaches pictures, or says in words that there were some: a model
// that cannot see refuses the whole request otherwise.
func addImages(to *api.Message, images []models.Image, vision bool) (note string) {
	for _, image := range images {
		if vision {
			to.Images = append(to.Images, image.Data)
		} else {
			note += "\n[a picture, which this model cannot see]"
		}
	}
	return note
}

// convertCall puts a call back into the history. What could not be read goes
// back as it was written, under one name, so that the model sees its mistake.
func convertCall(call models.ToolCall, index int) api.ToolCall {
	out := api.ToolCall{ID: call.ID}
	out.Function.Index = index
	out.Function.Name = call.Name
	out.Function.Arguments = api.NewToolCallFunctionArguments()
	if call.Malformed == "" && out.Function.Arguments.UnmarshalJSON(call.Arguments) == nil {
		return out
	}
	var raw string
	if json.Unmarshal(call.Arguments, &raw) != nil {
		raw = string(call.Arguments)
	}
	out.Function.Arguments = api.NewToolCallFunctionArguments()
	out.Function.Arguments.Set("unreadable", raw)
	return out
}

const maxSchema = 64 << 10

// convertTool fits a tool into the library's types, which drop most keywords of
// JSON Schema, on the server as well. What they would drop is said in words.
func convertTool(spec models.ToolSpec) (api.Tool, error) {
	tool := api.Tool{Type: "function", Function: api.ToolFunction{Name: spec.Name, Description: spec.Description}}
	parameters := &tool.Function.Parameters
	raw := spec.Parameters
	if len(raw) == 0 {
		raw = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if len(raw) > maxSchema {
		return tool, fmt.Errorf("the schema of %s is larger than 64 KiB: %w", spec.Name, models.ErrUnsupported)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return tool, fmt.Errorf("the schema of %s is no JSON object: %w", spec.Name, models.ErrUnsupported)
	}
	if err := json.Unmarshal(raw, parameters); err != nil {
		return tool, fmt.Errorf("the schema of %s has a form that Ollama does not take: %w", spec.Name, models.ErrUnsupported)
	}
	parameters.Type = "object"
	parameters.Properties = restateAll(parameters.Properties, schema, schema, 0)
	parameters.Defs = nil // what used them was written out
	return tool, nil
}

// maxNesting bounds how deep references are followed, since they may be loops.
const maxNesting = 8

func restateAll(properties *api.ToolPropertiesMap, schema, root map[string]any, level int) *api.ToolPropertiesMap {
	out := api.NewToolPropertiesMap()
	raw, _ := schema["properties"].(map[string]any)
	for name, p := range properties.All() {
		facts, _ := raw[name].(map[string]any)
		out.Set(name, restate(p, facts, root, level))
	}
	return out
}

// restate says in the description what the type of a property cannot hold.
func restate(p api.ToolProperty, facts, root map[string]any, level int) api.ToolProperty {
	if target := lookUp(facts, root); target != nil && level < maxNesting {
		data, err := json.Marshal(target)
		var full api.ToolProperty
		if err == nil && json.Unmarshal(data, &full) == nil {
			if p.Description != "" {
				full.Description = p.Description
			}
			return restate(full, target, root, level+1)
		}
	}
	if constant, ok := facts["const"]; ok && len(p.Enum) == 0 {
		p.Enum = []any{constant}
	}
	if options, ok := facts["oneOf"].([]any); ok && len(p.AnyOf) == 0 {
		if data, err := json.Marshal(options); err == nil {
			_ = json.Unmarshal(data, &p.AnyOf) // what does not fit stays unsaid
		}
	}
	if p.Properties != nil && level < maxNesting {
		p.Properties = restateAll(p.Properties, facts, root, level+1)
	}
	var rules []string
	for _, key := range [...]string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format", "default"} {
		if v, ok := facts[key]; ok {
			data, err := json.Marshal(v)
			if err == nil {
				rules = append(rules, key+" "+strings.Trim(string(data), `"`))
			}
		}
	}
	if required, ok := facts["required"].([]any); ok && len(required) > 0 {
		rules = append(rules, "needs "+strings.Trim(fmt.Sprint(required), "[]"))
	}
	if len(rules) > 0 {
		p.Description = strings.TrimSpace(p.Description + " (" + strings.Join(rules, ", ") + ")")
	}
	return p
}

// lookUp follows a reference into the schema's own definitions.
func lookUp(facts, root map[string]any) map[string]any {
	ref, _ := facts["$ref"].(string)
	for _, place := range [...]string{"$defs", "definitions"} {
		if name, ok := strings.CutPrefix(ref, "#/"+place+"/"); ok {
			all, _ := root[place].(map[string]any)
			target, _ := all[name].(map[string]any)
			return target
		}
	}
	return nil
}
