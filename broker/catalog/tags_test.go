package catalog_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lomi/broker/catalog"
)

// TestTagsAreKnown: a misspelt tag would be a rule that nobody enforces.
func TestTagsAreKnown(t *testing.T) {
	for _, tool := range catalog.All() {
		checkTags(t, tool.Name, reflect.TypeOf(tool.NewRequest()).Elem())
	}
}

func checkTags(t *testing.T, where string, of reflect.Type) {
	t.Helper()
	var variants []string
	names := map[string]bool{}
	for i := range of.NumField() {
		f := of.Field(i)
		here := where + "." + f.Name
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if names[name] && !f.Anonymous {
			t.Errorf("%s: %q is there twice", here, name)
		}
		names[name] = true
		if oneof := f.Tag.Get("oneof"); oneof != "" {
			variants = strings.Split(oneof, ",")
		}
		checkTag(t, here, f, variants)
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			checkTags(t, here, inner)
		}
	}
}

func checkTag(t *testing.T, here string, f reflect.StructField, variants []string) {
	t.Helper()
	forms := []string{"id", "decimal", "sha256", "commit", "uuid", "chat", "line", "text", "lf", "path", "absolute"}
	for rest := string(f.Tag); rest != ""; {
		key, after, _ := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			t.Fatalf("%s: tag %s", here, f.Tag)
		}
		value, _ := strconv.Unquote(quoted)
		ok := true
		switch key {
		case "json", "doc", "oneof", "enum", "default":
			ok = value != ""
		case "min", "max":
			_, err := strconv.ParseFloat(value, 64)
			ok = err == nil
		case "is", "each":
			ok = slices.Contains(forms, value)
		case "in":
			for v := range strings.SplitSeq(value, ",") {
				ok = ok && slices.Contains(variants, strings.TrimSuffix(v, "?"))
			}
		case "null":
			ok = value == "yes"
		default:
			ok = false
		}
		if !ok {
			t.Errorf("%s: tag %s:%s", here, key, quoted)
		}
		rest = strings.TrimSpace(after[len(quoted):])
	}
	enum := f.Tag.Get("enum")
	if d, ok := f.Tag.Lookup("default"); ok && enum != "" && !slices.Contains(strings.Split(enum, ","), d) {
		t.Errorf("%s: its default is none of its values", here)
	}
}
