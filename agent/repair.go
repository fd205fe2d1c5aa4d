package agent

import "lomi/models"

// textInterrupted is the result of a call whose end nobody saw.
const textInterrupted = "Interrupted: Lomi stopped before this call ended. It may have had its effect; look before you repeat it."

// Repair makes a history valid for every engine: each call has exactly one
// result, right after the reply that made it and in the order of the calls;
// results of no call and second results are dropped, missing ones are filled
// in (bugs 19 and 21, F-68). Repairing twice changes nothing.
func Repair(history []models.Message) []models.Message {
	var out []models.Message
	for i := 0; i < len(history); i++ {
		m := history[i]
		switch m.Role {
		case models.RoleTool:
			continue // consumed below, or a stray
		case models.RoleAssistant:
			out = append(out, m)
			results := map[string]models.Part{}
			for i+1 < len(history) && history[i+1].Role == models.RoleTool {
				i++
				collectResults(results, history[i])
			}
			if answer, ok := answers(m, results); ok {
				out = append(out, answer)
			}
		default:
			out = append(out, m)
		}
	}
	return out
}

func collectResults(into map[string]models.Part, m models.Message) {
	for _, p := range m.Parts {
		if p.Kind != models.PartResult || p.Result == nil {
			continue
		}
		if _, twice := into[p.Result.CallID]; !twice {
			into[p.Result.CallID] = p
		}
	}
}

func answers(reply models.Message, results map[string]models.Part) (models.Message, bool) {
	answer := models.Message{Role: models.RoleTool}
	for _, p := range reply.Parts {
		if p.Kind != models.PartCall || p.Call == nil {
			continue
		}
		r, ok := results[p.Call.ID]
		if !ok {
			r = models.Part{Kind: models.PartResult, Result: &models.ToolResult{
				CallID: p.Call.ID, Name: p.Call.Name, Text: textInterrupted, IsError: true}}
		}
		answer.Parts = append(answer.Parts, r)
	}
	return answer, len(answer.Parts) > 0
}
