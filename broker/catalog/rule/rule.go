// Package rule reads the rules that stand in the struct tags of the catalog's
// requests. One reading checks requests, another makes their JSON Schemas, so
// that what is told and what is enforced cannot part.
//
// The tags of a field:
//
//	default:"100"      stands in when the field is missing (or zero)
//	min:"1" max:"500"  of a number, of a text's bytes, of a list's items
//	enum:"a,b"         the texts that are taken; a single one is a constant
//	is:"id"            the form of a text, see the table of forms
//	each:"path"        the form of every text of a list
//	oneof:"a,b"        the discriminator of a tagged union, and its variants
//	in:"a,b?"          the variants a field belongs to; "?" makes it optional there
//	doc:"..."          what a model reads about the field
//
// A field with omitempty is optional. The tags oneof and in are enforced by
// control.Decode, which alone knows what was present.
package rule

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lomi/broker/control"
)

// Bad is the error for a field that breaks a rule. It never takes the value.
func Bad(path, rule string) error {
	return control.Errorf(control.ResourceExhausted, "%s: %s", path, rule)
}

// Check fills the defaults of the request that ptr points to and holds it
// against the rules of its tags.
func Check(ptr any) error {
	v := reflect.ValueOf(ptr).Elem()
	if path, broken := plan(v.Type()).check(v); broken != "" {
		return Bad(path, broken)
	}
	return nil
}

// structPlan is the compiled form of one struct type's tags.
type structPlan struct {
	fields []fieldPlan
	tag    int // index of a union's discriminator, -1 for none
}

type fieldPlan struct {
	name     string // "" for an embedded struct, whose fields are its parent's
	index    int
	optional bool
	in       map[string]bool            // by variant of a union: is it optional there
	fallback func(reflect.Value)        // sets the default
	check    func(reflect.Value) string // the broken rule, or ""
	nested   func(reflect.Value) (path, broken string)
}

// plans caches by type, as encoding/json does: types are few and never change.
var plans sync.Map // reflect.Type -> structPlan

func plan(t reflect.Type) structPlan {
	if p, ok := plans.Load(t); ok {
		return p.(structPlan)
	}
	p := structPlan{tag: -1}
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("oneof") != "" {
			p.tag = i
		}
		p.fields = append(p.fields, planField(t.Field(i), i))
	}
	plans.Store(t, p)
	return p
}

func planField(f reflect.StructField, index int) fieldPlan {
	name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
	p := fieldPlan{name: name, index: index, optional: strings.Contains(opts, "omitempty")}
	if text, ok := f.Tag.Lookup("default"); ok {
		p.fallback = fallback(f.Type, text)
	}
	if in := f.Tag.Get("in"); in != "" {
		p.in = map[string]bool{}
		for variant := range strings.SplitSeq(in, ",") {
			name, optional := strings.CutSuffix(variant, "?")
			p.in[name] = optional
		}
	}
	kind := f.Type
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch kind.Kind() {
	case reflect.String:
		p.check = textRules(f.Tag)
	case reflect.Int, reflect.Int64, reflect.Float64:
		p.check = numberRules(f.Tag)
	case reflect.Struct:
		p.nested = func(v reflect.Value) (string, string) { return plan(v.Type()).check(v) }
	case reflect.Slice:
		p.check = countRules(f.Tag)
		p.nested = itemRules(kind.Elem(), f.Tag.Get("each"))
	}
	return p
}

func (p structPlan) check(v reflect.Value) (path, broken string) {
	variant := ""
	if p.tag >= 0 {
		variant = v.Field(p.tag).String()
	}
	for _, f := range p.fields {
		optional := f.optional
		if f.in != nil {
			var belongs bool
			if optional, belongs = f.in[variant]; !belongs {
				continue
			}
		}
		if path, broken := f.hold(v.Field(f.index), optional); broken != "" {
			return join(f.name, path), broken
		}
	}
	return "", ""
}

func (f fieldPlan) hold(v reflect.Value, optional bool) (path, broken string) {
	if f.fallback != nil && v.IsZero() {
		f.fallback(v)
	}
	if optional && v.IsZero() {
		return "", ""
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "", "" // required and null: Decode has let it through on purpose
		}
		v = v.Elem()
	}
	if f.check != nil {
		if broken := f.check(v); broken != "" {
			return "", broken
		}
	}
	if f.nested != nil {
		return f.nested(v)
	}
	return "", ""
}

func join(name, rest string) string {
	switch {
	case name == "" || rest == "":
		return name + rest
	case rest[0] == '[':
		return name + rest
	}
	return name + "." + rest
}

func fallback(t reflect.Type, text string) func(reflect.Value) {
	switch t.Kind() {
	case reflect.Pointer:
		inner := fallback(t.Elem(), text)
		return func(v reflect.Value) {
			v.Set(reflect.New(t.Elem()))
			inner(v.Elem())
		}
	case reflect.Bool:
		return func(v reflect.Value) { v.SetBool(text == "true") }
	case reflect.Int, reflect.Int64:
		n, _ := strconv.ParseInt(text, 10, 64)
		return func(v reflect.Value) { v.SetInt(n) }
	}
	return func(v reflect.Value) { v.SetString(text) }
}

func textRules(tag reflect.StructTag) func(reflect.Value) string {
	least, most := bounds(tag)
	allowed := tag.Get("enum")
	var enum []string
	if allowed != "" {
		enum = strings.Split(allowed, ",")
	}
	form := forms()[tag.Get("is")]
	return func(v reflect.Value) string {
		s := v.String()
		switch {
		case enum != nil && !slices.Contains(enum, s):
			return "must be one of " + strings.Join(enum, ", ")
		case least != nil && len(s) < int(*least) && len(s) == 0:
			return "must not be empty"
		case least != nil && len(s) < int(*least):
			return fmt.Sprintf("must have at least %s bytes", number(*least))
		case most != nil && len(s) > int(*most):
			return fmt.Sprintf("must have at most %s bytes", number(*most))
		case form != nil:
			return form(s)
		}
		return ""
	}
}

func numberRules(tag reflect.StructTag) func(reflect.Value) string {
	least, most := bounds(tag)
	return func(v reflect.Value) string {
		var x float64
		if v.CanInt() {
			x = float64(v.Int())
		} else {
			x = v.Float()
		}
		switch {
		case least != nil && !(x >= *least): // so that NaN is refused
			return "must be at least " + number(*least)
		case most != nil && !(x <= *most):
			return "must be at most " + number(*most)
		}
		return ""
	}
}

func countRules(tag reflect.StructTag) func(reflect.Value) string {
	least, most := bounds(tag)
	return func(v reflect.Value) string {
		n := float64(v.Len())
		switch {
		case least != nil && n < *least:
			return fmt.Sprintf("must have at least %s items", number(*least))
		case most != nil && n > *most:
			return fmt.Sprintf("must have at most %s items", number(*most))
		}
		return ""
	}
}

func itemRules(item reflect.Type, each string) func(reflect.Value) (string, string) {
	form := forms()[each]
	return func(v reflect.Value) (string, string) {
		for i := range v.Len() {
			path, broken := "", ""
			switch {
			case item.Kind() == reflect.Struct:
				path, broken = plan(item).check(v.Index(i))
			case form != nil:
				broken = form(v.Index(i).String())
			}
			if broken != "" {
				return join(fmt.Sprintf("[%d]", i), path), broken
			}
		}
		return "", ""
	}
}

// bounds reads min and max; nil means none.
func bounds(tag reflect.StructTag) (least, most *float64) {
	read := func(key string) *float64 {
		x, err := strconv.ParseFloat(tag.Get(key), 64)
		if err != nil {
			return nil // no tag: a test holds that the others are numbers
		}
		return &x
	}
	return read("min"), read("max")
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
