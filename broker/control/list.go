package control

import "encoding/json"

// List is a slice that is never null in JSON: an empty answer is [], because
// the output schemas say array and hosts hold us to them.
type List[T any] []T

// MarshalJSON implements json.Marshaler.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}
