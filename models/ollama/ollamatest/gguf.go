package ollamatest

import (
	"encoding/binary"
	"io"
)

// The kinds of a value in a GGUF file, as its format numbers them.
const (
	kindUint32  uint32 = 4
	kindInt32   uint32 = 5
	kindFloat32 uint32 = 6
	kindString  uint32 = 8
	kindArray   uint32 = 9
)

const (
	ggufVersion   = 3
	ggufAlignment = 32
	tensorFloat32 = 0
)

// tensor is one weight. Its shape is in the file's order: the fastest first.
type tensor struct {
	name  string
	shape []uint64
	data  []float32
}

// entry is one key of the file's head. Value is a uint32, float32, string,
// []string or []int32.
type entry struct {
	key   string
	value any
}

// file is what a GGUF file holds.
type file struct {
	head    []entry
	tensors []tensor
}

// writeTo writes the file. The first error is kept and returned at the end.
func (f file) writeTo(w io.Writer) error {
	e := &encoder{w: w}
	e.bytes([]byte("GGUF"))
	e.put(uint32(ggufVersion))
	e.put(uint64(len(f.tensors)))
	e.put(uint64(len(f.head)))
	for _, h := range f.head {
		e.text(h.key)
		e.value(h.value)
	}
	var offset uint64
	for _, t := range f.tensors {
		e.text(t.name)
		e.put(uint32(len(t.shape)))
		e.put(t.shape)
		e.put(uint32(tensorFloat32))
		e.put(offset)
		offset += aligned(uint64(4 * len(t.data)))
	}
	e.align()
	for _, t := range f.tensors {
		e.put(t.data)
		e.align()
	}
	return e.err
}

func aligned(n uint64) uint64 {
	return (n + ggufAlignment - 1) / ggufAlignment * ggufAlignment
}

// encoder counts what it writes, because tensors begin at aligned offsets.
type encoder struct {
	w   io.Writer
	n   uint64
	err error
}

func (e *encoder) bytes(b []byte) {
	if e.err != nil {
		return
	}
	_, e.err = e.w.Write(b)
	e.n += uint64(len(b))
}

// put writes numbers of a fixed size.
func (e *encoder) put(v any) {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil && e.err == nil {
		e.err = err
	}
	e.bytes(b)
}

func (e *encoder) text(s string) {
	e.put(uint64(len(s)))
	e.bytes([]byte(s))
}

func (e *encoder) align() {
	e.bytes(make([]byte, aligned(e.n)-e.n))
}

// value writes a value behind its kind.
func (e *encoder) value(v any) {
	switch v := v.(type) {
	case uint32:
		e.put(kindUint32)
		e.put(v)
	case float32:
		e.put(kindFloat32)
		e.put(v)
	case string:
		e.put(kindString)
		e.text(v)
	case []string:
		e.list(kindString, len(v))
		for _, s := range v {
			e.text(s)
		}
	case []int32:
		e.list(kindInt32, len(v))
		e.put(v)
	}
}

func (e *encoder) list(kind uint32, n int) {
	e.put(kindArray)
	e.put(kind)
	e.put(uint64(n))
}
