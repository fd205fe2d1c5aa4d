package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"lomi/models"
	"lomi/models/internal/assemble"
	"lomi/models/internal/guard"
)

// chatRequest makes the body for Chat Completions. Reasoning of earlier replies
// is not sent again, so that each prompt begins with the one before.
func chatRequest(req models.Request) sdk.ChatCompletionNewParams {
	body := sdk.ChatCompletionNewParams{
		Model:         req.Model,
		StreamOptions: sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if req.MaxOutputTokens > 0 {
		body.MaxTokens = param.NewOpt(int64(req.MaxOutputTokens)) // the name that every server knows
	}
	for _, tool := range req.Tools {
		body.Tools = append(body.Tools, sdk.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: tool.Name, Description: param.NewOpt(tool.Description), Parameters: schema(tool.Parameters),
		}))
	}
	for _, m := range req.Messages {
		body.Messages = append(body.Messages, chatMessages(m)...)
	}
	return body
}

func schema(raw json.RawMessage) map[string]any {
	out := map[string]any{}
	if json.Unmarshal(raw, &out) != nil || len(out) == 0 {
		return map[string]any{"type": "object", "properties": map[string]any{}}
	}
	return out
}

// chatMessages makes one message, or one for each result. Pictures of results
// follow in a user's message, because a tool's may hold only text.
func chatMessages(m models.Message) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	var text strings.Builder
	var images []models.Image
	var calls []sdk.ChatCompletionMessageToolCallUnionParam
	for _, p := range m.Parts {
		switch {
		case p.Kind == models.PartText:
			text.WriteString(p.Text)
		case p.Kind == models.PartImage && p.Image != nil:
			images = append(images, *p.Image)
		case p.Kind == models.PartCall && p.Call != nil:
			calls = append(calls, sdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       p.Call.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: p.Call.Name, Arguments: sentArguments(*p.Call)},
			}})
		case p.Kind == models.PartResult && p.Result != nil:
			out = append(out, sdk.ToolMessage(resultText(*p.Result), p.Result.CallID))
			images = append(images, p.Result.Images...)
		}
	}
	switch {
	case m.Role == models.RoleAssistant:
		if text.Len() == 0 && len(calls) == 0 {
			return nil // reasoning alone has no form here
		}
		message := sdk.ChatCompletionAssistantMessageParam{ToolCalls: calls}
		if text.Len() > 0 {
			message.Content.OfString = param.NewOpt(text.String())
		}
		return append(out, sdk.ChatCompletionMessageParamUnion{OfAssistant: &message})
	case m.Role == models.RoleSystem:
		return append(out, sdk.SystemMessage(text.String()))
	case len(images) > 0:
		var parts []sdk.ChatCompletionContentPartUnionParam
		if text.Len() > 0 {
			parts = append(parts, sdk.TextContentPart(text.String()))
		}
		for _, image := range images {
			parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: dataURL(image)}))
		}
		return append(out, sdk.UserMessage(parts))
	case text.Len() > 0:
		return append(out, sdk.UserMessage(text.String()))
	}
	return out
}

// sentArguments are the arguments of a call as the history shows them. What
// could not be read goes back as it was, wrapped, because servers parse it.
func sentArguments(call models.ToolCall) string {
	if call.Malformed == "" {
		return string(call.Arguments)
	}
	return `{"unreadable":` + string(call.Arguments) + `}` // a JSON string, as the port has it
}

func resultText(r models.ToolResult) string {
	if r.IsError {
		return "Error: " + r.Text // neither protocol has a mark for a failure
	}
	return r.Text
}

func dataURL(image models.Image) string {
	return "data:" + image.MediaType + ";base64," + base64.StdEncoding.EncodeToString(image.Data)
}

// chatChunk is a chunk of Chat Completions, read leniently. Message is there
// when a server answers whole instead of streaming.
type chatChunk struct {
	Choices []struct {
		Index        int         `json:"index"`
		Delta        chatDelta   `json:"delta"`
		Message      chatDelta   `json:"message"`
		FinishReason *guard.Text `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Input  int `json:"prompt_tokens"`
		Output int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type chatDelta struct {
	Content          guard.Text `json:"content"`
	Refusal          guard.Text `json:"refusal"`
	ReasoningContent guard.Text `json:"reasoning_content"` // vLLM, llama.cpp
	Reasoning        guard.Text `json:"reasoning"`         // Ollama, OpenRouter
	ToolCalls        []struct {
		Index    *int   `json:"index"`
		ID       string `json:"id"`
		Function struct {
			Name      string    `json:"name"`
			Arguments arguments `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// arguments is a piece of a JSON text as a string, or, from servers that do it
// their own way, the object itself.
type arguments string

// UnmarshalJSON implements json.Unmarshaler.
func (a *arguments) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return (*guard.Text)(a).UnmarshalJSON(assemble.KeepHalves(data))
	}
	if string(data) != "null" {
		*a = arguments(data)
	}
	return nil
}

// chatReader reads the chunks of Chat Completions.
type chatReader struct {
	assembler *assemble.Assembler
	finished  models.FinishReason
	counted   *models.Usage
}

func (r *chatReader) done() bool                                   { return false } // [DONE] says it
func (r *chatReader) reason() (models.FinishReason, *models.Usage) { return r.finished, r.counted }

func (r *chatReader) event(data []byte) ([]models.Delta, error) {
	var chunk chatChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return nil, fmt.Errorf("an event is not a chunk: %s: %w", guard.Snippet(data), models.ErrProtocol)
	}
	if len(chunk.Error) > 0 && string(chunk.Error) != "null" {
		return nil, guard.Status(0, errorText(data))
	}
	if chunk.Usage != nil {
		r.counted = &models.Usage{InputTokens: chunk.Usage.Input, OutputTokens: chunk.Usage.Output}
	}
	var out []models.Delta
	for _, choice := range chunk.Choices {
		if choice.Index != 0 || r.finished != "" { // one reply was asked for, and it ends once
			continue
		}
		out = append(out, r.take(choice.Delta)...)
		out = append(out, r.take(choice.Message)...)
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			switch *choice.FinishReason {
			case "length":
				r.finished = models.FinishLength
			case "content_filter":
				r.finished = models.FinishRefusal
			default:
				r.finished = models.FinishStop // whether there are calls, the assembler knows
			}
		}
	}
	return out, nil
}

func (r *chatReader) take(d chatDelta) []models.Delta {
	var out []models.Delta
	reasoning := d.ReasoningContent
	if reasoning == "" {
		reasoning = d.Reasoning
	}
	if reasoning != "" {
		out = append(out, r.assembler.Thinking(string(reasoning))...)
	}
	if text := d.Content + d.Refusal; text != "" {
		out = append(out, r.assembler.Text(string(text))...)
	}
	for _, call := range d.ToolCalls {
		r.assembler.Piece(call.Index, call.ID, call.Function.Name, string(call.Function.Arguments))
	}
	return out
}
