package control

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Decode fills the struct that into points to from the arguments of a call,
// strictly, so that the gate that judges a call and the tool that runs it
// cannot read it differently. Refused, with an *Error RESOURCE_EXHAUSTED that
// names the field's path and the rule, are: text that is not UTF-8, a byte
// order mark, NUL, lone surrogates, a key that is there twice (at any depth,
// however it is spelt), a key that differs in case, unknown and missing
// fields, null where a value belongs, numbers that do not fit exactly, nesting
// deeper than MaxDepth, more than MaxArguments bytes, and data after the end.
//
// A field without omitempty is required. A pointer without omitempty, or with
// the tag null:"yes", takes null. A struct with a field tagged oneof is a
// tagged union (see catalog/rule): each variant has exactly its own fields. A
// field tagged default takes no explicit zero. After an error what into points
// to is of no use.
func Decode(data []byte, into any) error { return DecodeWithin(data, MaxArguments, into) }

// DecodeWithin is Decode with another bound of size, for frames.
func DecodeWithin(data []byte, limit int, into any) error {
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("decoding into %T: not a pointer to a struct", into)
	}
	if f := checkBytes(data, limit); f != nil {
		return f.error()
	}
	d := decoder{scanner{data: data}}
	if d.peek() != '{' {
		return d.refuse("must be an object").error()
	}
	if f := d.object(target.Elem()); f != nil {
		return f.error()
	}
	if d.peek(); d.pos != len(data) {
		return d.refuse("must be one object and nothing after it").error()
	}
	return nil
}

func (f *fault) error() error {
	path := f.path
	if path == "" {
		path = "arguments"
	}
	return Errorf(ResourceExhausted, "%s: %s", path, f.rule)
}

func checkBytes(data []byte, limit int) *fault {
	switch {
	case len(data) > limit:
		return &fault{rule: fmt.Sprintf("must have at most %d bytes", limit)}
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return &fault{rule: "must not start with a byte order mark"}
	case bytes.IndexByte(data, 0) >= 0:
		return &fault{rule: "must hold no NUL"}
	case !utf8.Valid(data):
		return &fault{rule: "must be UTF-8"}
	}
	return nil
}

type decoder struct{ scanner }

var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	bytesType    = reflect.TypeFor[[]byte]()
	jsonDecoder  = reflect.TypeFor[json.Unmarshaler]()
	textDecoder  = reflect.TypeFor[encoding.TextUnmarshaler]()
	anythingType = reflect.TypeFor[any]()
)

// value decodes the next value into v, which is settable.
func (d *decoder) value(v reflect.Value) *fault {
	d.peek()
	t := v.Type()
	switch {
	case t == rawType, t == anythingType, reflect.PointerTo(t).Implements(jsonDecoder):
		return d.opaque(v)
	case t == bytesType:
		return d.base64(v)
	case t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textDecoder):
		return d.fromText(v)
	}
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		return d.value(v.Elem())
	case reflect.String:
		return d.string(v)
	case reflect.Bool:
		return d.bool(v)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return d.int(v)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return d.uint(v)
	case reflect.Float64:
		return d.float64(v)
	case reflect.Slice:
		return d.slice(v)
	case reflect.Map:
		return d.mapping(v)
	case reflect.Struct:
		if d.peek() != '{' {
			return d.refuse("must be an object")
		}
		return d.object(v)
	}
	return d.refuse("has a type that cannot be decoded")
}

// opaque hands the bytes of one value on, after they passed the same rules.
func (d *decoder) opaque(v reflect.Value) *fault {
	start := d.pos
	if f := d.skip(); f != nil {
		return f
	}
	raw := d.data[start:d.pos]
	if v.Type() == rawType {
		v.SetBytes(bytes.Clone(raw))
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(v.Addr().Interface()); err != nil {
		return d.refuse("has a wrong form") // not err: it may quote the value
	}
	return nil
}

func (d *decoder) quoted() ([]byte, *fault) {
	if d.peek() != '"' {
		return nil, d.refuse("must be a string")
	}
	return d.text()
}

func (d *decoder) string(v reflect.Value) *fault {
	text, f := d.quoted()
	if f == nil {
		v.SetString(string(text))
	}
	return f
}

func (d *decoder) base64(v reflect.Value) *fault {
	text, f := d.quoted()
	if f != nil {
		return f
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	// The alphabet is checked here, because the decoder skips line breaks.
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") {
		return d.refuse("must be base64")
	}
	v.SetBytes(out[:n])
	return nil
}

func (d *decoder) fromText(v reflect.Value) *fault {
	text, f := d.quoted()
	if f != nil {
		return f
	}
	if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(text); err != nil {
		return d.refuse("has a wrong form")
	}
	return nil
}

func (d *decoder) bool(v reflect.Value) *fault {
	switch {
	case d.literal("true"):
		v.SetBool(true)
	case d.literal("false"):
		v.SetBool(false)
	default:
		return d.refuse("must be true or false")
	}
	return nil
}

func (d *decoder) atNumber() bool {
	c := d.peek()
	return c == '-' || (c >= '0' && c <= '9')
}

// whole reads the text of an integer. 1.0 and 1e2 are refused: two readers
// could disagree on what they are.
func (d *decoder) whole() (string, *fault) {
	if !d.atNumber() {
		return "", d.refuse("must be a whole number")
	}
	text, whole, f := d.number()
	if f == nil && !whole {
		f = d.refuse("must be a whole number, without fraction or exponent")
	}
	return string(text), f
}

func (d *decoder) int(v reflect.Value) *fault {
	text, f := d.whole()
	if f != nil {
		return f
	}
	n, err := strconv.ParseInt(text, 10, v.Type().Bits())
	if err != nil {
		return d.refuse("is out of the range of numbers")
	}
	v.SetInt(n)
	return nil
}

func (d *decoder) uint(v reflect.Value) *fault {
	text, f := d.whole()
	if f != nil {
		return f
	}
	n, err := strconv.ParseUint(text, 10, v.Type().Bits())
	if err != nil {
		return d.refuse("is out of the range of numbers, or negative")
	}
	v.SetUint(n)
	return nil
}

func (d *decoder) float64(v reflect.Value) *fault {
	if !d.atNumber() {
		return d.refuse("must be a number")
	}
	x, f := d.float()
	v.SetFloat(x)
	return f
}

func (d *decoder) slice(v reflect.Value) *fault {
	if d.peek() != '[' {
		return d.refuse("must be an array")
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0)) // [] is not nil
	return d.items(func(i int) *fault {
		v.Grow(1)
		v.SetLen(i + 1)
		v.Index(i).SetZero()
		return d.value(v.Index(i))
	})
}

func (d *decoder) mapping(v reflect.Value) *fault {
	if d.peek() != '{' {
		return d.refuse("must be an object")
	}
	if v.Type().Key().Kind() != reflect.String {
		return d.refuse("has a type that cannot be decoded")
	}
	v.Set(reflect.MakeMap(v.Type()))
	return d.members(func(key []byte) *fault {
		name := reflect.ValueOf(string(key)).Convert(v.Type().Key())
		if v.MapIndex(name).IsValid() {
			return d.refuse("is there twice").under(shown(key))
		}
		item := reflect.New(v.Type().Elem()).Elem()
		if f := d.value(item); f != nil {
			return f.under(shown(key))
		}
		v.SetMapIndex(name, item)
		return nil
	})
}

// object decodes into a struct; the brace has been seen.
func (d *decoder) object(v reflect.Value) *fault {
	plan := planOf(v.Type())
	if plan.broken != "" {
		return d.refuse(plan.broken)
	}
	var seen uint64
	f := d.members(func(key []byte) *fault {
		i, ok := plan.byName[string(key)]
		if !ok {
			return d.refuse("is no known field").under(shown(key))
		}
		if seen&(1<<i) != 0 {
			return d.refuse("is there twice").under(shown(key))
		}
		seen |= 1 << i
		if f := d.field(v.FieldByIndex(plan.fields[i].index), plan.fields[i]); f != nil {
			return f.under(plan.fields[i].name)
		}
		return nil
	})
	if f != nil {
		return f
	}
	return plan.complete(v, seen)
}

func (d *decoder) field(v reflect.Value, p fieldPlan) *fault {
	if d.peek() == 'n' && p.nullable && d.literal("null") {
		return nil
	}
	if f := d.value(v); f != nil {
		return f
	}
	if p.noZero && v.IsZero() {
		return d.refuse("must not be empty or 0; leave it out for the default")
	}
	return nil
}
