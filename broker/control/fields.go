package control

import (
	"math/bits"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// maxFields is what a set of 64 bits can tell present or missing.
const maxFields = 64

// typePlan is what Decode knows about one struct type.
type typePlan struct {
	fields   []fieldPlan
	byName   map[string]int
	required uint64
	union    int      // the field with the tag oneof, -1 for none
	variants []string // its values
	broken   string   // why the type cannot be decoded
}

type fieldPlan struct {
	name     string
	index    []int
	nullable bool
	noZero   bool
	in       []membership // of a union's variants; none: of all
}

type membership struct {
	variant  string
	optional bool
}

// typePlans caches by type, as encoding/json does: types are few and never
// change.
var typePlans sync.Map // reflect.Type -> *typePlan

func planOf(t reflect.Type) *typePlan {
	if p, ok := typePlans.Load(t); ok {
		return p.(*typePlan)
	}
	p := makePlan(t)
	typePlans.Store(t, p)
	return p
}

func makePlan(t reflect.Type) *typePlan {
	p := &typePlan{byName: map[string]int{}, union: -1}
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" && opts == "":
			continue
		case f.Anonymous && name == "":
			if f.Type.Kind() != reflect.Struct {
				p.broken = "has an embedded type that cannot be decoded"
			}
			continue // its fields follow by themselves
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		p.add(f, name, strings.Contains(opts, "omitempty") || strings.Contains(opts, "omitzero"))
	}
	return p
}

func (p *typePlan) add(f reflect.StructField, name string, optional bool) {
	if other, ok := p.byName[name]; ok {
		if len(p.fields[other].index) <= len(f.Index) {
			return // a field of the outer struct hides one of an embedded struct
		}
		p.broken = "has a type that names a field twice"
	}
	i := len(p.fields)
	if i == maxFields {
		p.broken = "has a type with too many fields"
		return
	}
	pointer := f.Type.Kind() == reflect.Pointer
	field := fieldPlan{name: name, index: f.Index,
		nullable: pointer && (!optional || f.Tag.Get("null") == "yes")}
	if f.Tag.Get("default") != "" && !pointer {
		field.noZero = true
	}
	if in := f.Tag.Get("in"); in != "" {
		for v := range strings.SplitSeq(in, ",") {
			name, found := strings.CutSuffix(v, "?")
			field.in = append(field.in, membership{variant: name, optional: found})
		}
	} else if !optional {
		p.required |= 1 << i
	}
	if of := f.Tag.Get("oneof"); of != "" {
		p.union, p.variants = i, strings.Split(of, ",")
	}
	p.byName[name] = i
	p.fields = append(p.fields, field)
}

// complete refuses what is missing, and in a union what belongs to another
// variant.
func (p *typePlan) complete(v reflect.Value, seen uint64) *fault {
	if missing := p.required &^ seen; missing != 0 {
		return (&fault{rule: "is required"}).under(p.fields[bits.TrailingZeros64(missing)].name)
	}
	if p.union < 0 {
		return nil
	}
	tag := p.fields[p.union]
	chosen := v.FieldByIndex(tag.index).String()
	if !slices.Contains(p.variants, chosen) {
		return (&fault{rule: "must be one of " + strings.Join(p.variants, ", ")}).under(tag.name)
	}
	for i, field := range p.fields {
		if field.in == nil {
			continue
		}
		present := seen&(1<<i) != 0
		at := slices.IndexFunc(field.in, func(m membership) bool { return m.variant == chosen })
		switch {
		case at < 0 && present:
			return (&fault{rule: "does not go with " + tag.name + " " + chosen}).under(field.name)
		case at >= 0 && !present && !field.in[at].optional:
			return (&fault{rule: "is required with " + tag.name + " " + chosen}).under(field.name)
		}
	}
	return nil
}
