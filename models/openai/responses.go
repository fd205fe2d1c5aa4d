package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"lomi/models"
	"lomi/models/internal/assemble"
	"lomi/models/internal/guard"
)

// responsesRequest makes the body for the Responses API. Nothing is stored on
// the other side; encrypted reasoning travels with the conversation instead.
func responsesRequest(req models.Request) responses.ResponseNewParams {
	body := responses.ResponseNewParams{
		Model:   req.Model,
		Store:   param.NewOpt(false),
		Include: []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent},
	}
	if req.MaxOutputTokens > 0 {
		body.MaxOutputTokens = param.NewOpt(int64(req.MaxOutputTokens))
	}
	if req.Thinking == models.ThinkingOff {
		body.Reasoning.Effort = shared.ReasoningEffortNone
	}
	for _, tool := range req.Tools {
		body.Tools = append(body.Tools, responses.ToolUnionParam{OfFunction: &responses.FunctionToolParam{
			Name: tool.Name, Description: param.NewOpt(tool.Description), Parameters: schema(tool.Parameters),
			Strict: param.NewOpt(false), // strict wants every property required
		}})
	}
	var system []string
	for _, m := range req.Messages {
		if m.Role == models.RoleSystem {
			for _, p := range m.Parts {
				system = append(system, p.Text)
			}
			continue
		}
		body.Input.OfInputItemList = append(body.Input.OfInputItemList, responsesItems(m)...)
	}
	if len(system) > 0 {
		body.Instructions = param.NewOpt(strings.Join(system, "\n\n"))
	}
	return body
}

// responsesItems makes the items of one message, in the order of its parts.
func responsesItems(m models.Message) []responses.ResponseInputItemUnionParam {
	var out []responses.ResponseInputItemUnionParam
	role := responses.EasyInputMessageRole(m.Role)
	for _, p := range m.Parts {
		switch {
		case p.Kind == models.PartThinking && len(p.Opaque) > 0:
			item := param.Override[responses.ResponseReasoningItemParam](p.Opaque)
			out = append(out, responses.ResponseInputItemUnionParam{OfReasoning: &item})
		case p.Kind == models.PartText && p.Text != "":
			out = append(out, responses.ResponseInputItemParamOfMessage(p.Text, role))
		case p.Kind == models.PartImage && p.Image != nil:
			out = append(out, imageItem(*p.Image))
		case p.Kind == models.PartCall && p.Call != nil:
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(sentArguments(*p.Call), p.Call.ID, p.Call.Name))
		case p.Kind == models.PartResult && p.Result != nil:
			item := responses.ResponseInputItemParamOfFunctionCallOutput(resultText(*p.Result))
			item.OfFunctionCallOutput.CallID = param.NewOpt(p.Result.CallID)
			out = append(out, item)
			for _, image := range p.Result.Images {
				out = append(out, imageItem(image))
			}
		}
	}
	return out
}

func imageItem(image models.Image) responses.ResponseInputItemUnionParam {
	content := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
	content.OfInputImage.ImageURL = param.NewOpt(dataURL(image))
	return responses.ResponseInputItemParamOfMessage(responses.ResponseInputMessageContentListParam{content}, responses.EasyInputMessageRoleUser)
}

// responsesEvent is an event of the Responses API. Kinds that are not known are
// ignored, as the protocol grows.
type responsesEvent struct {
	Type     string          `json:"type"`
	Delta    json.RawMessage `json:"delta"`
	Item     json.RawMessage `json:"item"`
	Message  string          `json:"message"`
	Code     string          `json:"code"`
	Response struct {
		Incomplete *struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
		Usage *struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		} `json:"usage"`
	} `json:"response"`
}

// responsesReader reads the events of the Responses API.
type responsesReader struct {
	assembler *assemble.Assembler
	refused   bool
	finished  models.FinishReason
	counted   *models.Usage
}

func (r *responsesReader) done() bool                                   { return r.finished != "" }
func (r *responsesReader) reason() (models.FinishReason, *models.Usage) { return r.finished, r.counted }

func (r *responsesReader) event(data []byte) ([]models.Delta, error) {
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("an event cannot be read: %s: %w", guard.Snippet(data), models.ErrProtocol)
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		r.refused = r.refused || e.Type == "response.refusal.delta"
		return r.assembler.Text(text(e.Delta)), nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return r.assembler.Thinking(text(e.Delta)), nil
	case "response.output_item.done":
		return r.item(e.Item), nil
	case "response.completed", "response.incomplete":
		r.end(e)
		return nil, nil
	case "response.failed":
		if e.Response.Error != nil {
			return nil, guard.Status(0, e.Response.Error.Message+" ("+e.Response.Error.Code+")")
		}
		return nil, guard.Status(0, "the reply failed")
	case "error":
		if e.Message == "" {
			return nil, guard.Status(0, errorText(data))
		}
		return nil, guard.Status(0, e.Message+" ("+e.Code+")")
	}
	return nil, nil
}

func text(raw json.RawMessage) string {
	var t guard.Text
	if t.UnmarshalJSON(raw) != nil {
		return "" // another kind of delta under a known name: nothing to show
	}
	return string(t)
}

// item takes an item that is whole: a call, or reasoning that travels back.
func (r *responsesReader) item(raw json.RawMessage) []models.Delta {
	var item struct {
		Type      string    `json:"type"`
		CallID    string    `json:"call_id"`
		Name      string    `json:"name"`
		Arguments arguments `json:"arguments"`
		Encrypted string    `json:"encrypted_content"`
	}
	if json.Unmarshal(raw, &item) != nil {
		return nil
	}
	switch item.Type {
	case "function_call":
		r.assembler.Whole(item.CallID, item.Name, json.RawMessage(item.Arguments))
	case "reasoning":
		if item.Encrypted != "" && len(raw) <= maxOpaque {
			return []models.Delta{{Kind: models.DeltaThinking, Opaque: raw}}
		}
	}
	return nil
}

func (r *responsesReader) end(e responsesEvent) {
	r.finished = models.FinishStop
	if u := e.Response.Usage; u != nil {
		r.counted = &models.Usage{InputTokens: u.Input, OutputTokens: u.Output}
	}
	switch {
	case r.refused:
		r.finished = models.FinishRefusal
	case e.Response.Incomplete != nil && e.Response.Incomplete.Reason == "content_filter":
		r.finished = models.FinishRefusal
	case e.Type == "response.incomplete":
		r.finished = models.FinishLength
	}
}
