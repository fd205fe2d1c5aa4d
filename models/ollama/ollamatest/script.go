package ollamatest

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Script says what the model answers: the number of messages in the prompt,
// counted after Ollama joins neighbours of one role and with the system message,
// maps to the phrases of the answer. Each phrase is one token, so each arrives
// as one piece of the stream. A prompt of another length gets no meaningful
// answer. Call writes a phrase that calls a tool.
type Script map[int][]string

// Call is the phrase with which a qwen3 model calls a tool. Arguments is a JSON
// object.
func Call(tool, arguments string) string {
	return fmt.Sprintf("<tool_call>\n{\"name\": %q, \"arguments\": %s}\n</tool_call>", tool, arguments)
}

// The sizes of the network. Only width has a meaning: every token that another
// follows needs a dimension of its own, and dimension 0 is for the rest.
const (
	width       = 512
	headCount   = 4
	headWidth   = 64
	forward     = 32
	contextSize = 40960 // qwen3's own
	maxMessages = 512   // the longest conversation that a script can answer
)

// The kinds of a token.
const (
	tokenText    = 1
	tokenControl = 3
)

// chain is the vocabulary and which token leads to which: the whole knowledge
// of the model. Attention and feed-forward weights are zero, so what comes next
// depends on the last token alone.
type chain struct {
	tokens []string
	kinds  []int32
	next   map[int]int // token to the token after it
	place  map[int]int // token to its dimension, for tokens in next
	end    int         // the token that ends an answer
}

// WriteModel writes a GGUF file of the qwen3 architecture that speaks the
// script. Ollama loads it, tokenizes, runs the network and samples as it does
// for any qwen3 model; nothing of the engine is replaced.
func WriteModel(w io.Writer, script Script) error {
	c, err := link(script)
	if err != nil {
		return err
	}
	return file{head: c.head(), tensors: c.tensors()}.writeTo(w)
}

// link makes the chain: a control token for each length of conversation, then
// the phrases of the script, each behind the one before.
func link(script Script) (*chain, error) {
	c := &chain{next: map[int]int{}, place: map[int]int{}}
	for b := range 256 { // the alphabet into which all other text falls apart
		c.add(string(stand(byte(b))), tokenText)
	}
	c.end = c.add("<|im_end|>", tokenControl)
	c.add("<|im_start|>", tokenControl)
	c.add("<|endoftext|>", tokenControl)
	first := len(c.tokens)
	for n := range maxMessages + 1 {
		c.add(fmt.Sprintf("<|turn_%d|>", n), tokenControl)
	}
	for _, n := range slices.Sorted(maps.Keys(script)) {
		if n < 0 || n > maxMessages {
			return nil, fmt.Errorf("a script cannot answer %d messages, only 0 to %d", n, maxMessages)
		}
		at := first + n
		for _, phrase := range script[n] {
			token := c.add(inAlphabet(phrase), tokenText)
			c.lead(at, token)
			at = token
		}
		c.lead(at, c.end)
	}
	if len(c.next) >= width {
		return nil, fmt.Errorf("a script of %d phrases is too long, at most %d", len(c.next), width-1)
	}
	return c, nil
}

func (c *chain) add(token string, kind int32) int {
	c.tokens = append(c.tokens, token)
	c.kinds = append(c.kinds, kind)
	return len(c.tokens) - 1
}

func (c *chain) lead(from, to int) {
	c.next[from] = to
	c.place[from] = len(c.next)
}

// inAlphabet writes text as byte-level vocabularies do.
func inAlphabet(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(stand(text[i]))
	}
	return b.String()
}

// stand is the printable character that stands for a byte in byte-level
// vocabularies: itself when it is printable, else the next one from U+0100.
func stand(b byte) rune {
	printable := func(b byte) bool { return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae }
	if printable(b) {
		return rune(b)
	}
	r := rune(0x100)
	for before := range b {
		if !printable(before) {
			r++
		}
	}
	return r
}

func (c *chain) head() []entry {
	return []entry{
		{"general.architecture", "qwen3"},
		{"general.name", "script"},
		{"general.alignment", uint32(ggufAlignment)},
		{"general.file_type", uint32(0)},
		{"qwen3.block_count", uint32(1)},
		{"qwen3.context_length", uint32(contextSize)},
		{"qwen3.embedding_length", uint32(width)},
		{"qwen3.feed_forward_length", uint32(forward)},
		{"qwen3.attention.head_count", uint32(headCount)},
		{"qwen3.attention.head_count_kv", uint32(headCount)},
		{"qwen3.attention.key_length", uint32(headWidth)},
		{"qwen3.attention.value_length", uint32(headWidth)},
		{"qwen3.attention.layer_norm_rms_epsilon", float32(1e-6)},
		{"qwen3.rope.freq_base", float32(1e6)},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "qwen2"},
		{"tokenizer.ggml.tokens", c.tokens},
		{"tokenizer.ggml.token_type", c.kinds},
		{"tokenizer.ggml.merges", []string{"Ġ Ġ"}}, // the loader wants one
		{"tokenizer.ggml.eos_token_id", uint32(c.end)},
		{"tokenizer.ggml.padding_token_id", uint32(c.end)},
	}
}

// tensors lays the chain out: the embedding of a token is its own dimension,
// and the output row of the token after it looks at that dimension. A vector of
// length sqrt(width) passes the norms as it is.
func (c *chain) tensors() []tensor {
	vocabulary := uint64(len(c.tokens))
	embedding := matrix("token_embd.weight", width, vocabulary, 0)
	output := matrix("output.weight", width, vocabulary, 0)
	for token := range c.tokens {
		embedding.data[token*width+c.place[token]] = float32(math.Sqrt(width))
	}
	for from, to := range c.next {
		output.data[to*width+c.place[from]] = 1
	}
	return []tensor{
		embedding, output,
		matrix("output_norm.weight", width, 1, 1),
		matrix("blk.0.attn_norm.weight", width, 1, 1),
		matrix("blk.0.ffn_norm.weight", width, 1, 1),
		matrix("blk.0.attn_q_norm.weight", headWidth, 1, 1),
		matrix("blk.0.attn_k_norm.weight", headWidth, 1, 1),
		matrix("blk.0.attn_q.weight", width, headCount*headWidth, 0),
		matrix("blk.0.attn_k.weight", width, headCount*headWidth, 0),
		matrix("blk.0.attn_v.weight", width, headCount*headWidth, 0),
		matrix("blk.0.attn_output.weight", headCount*headWidth, width, 0),
		matrix("blk.0.ffn_gate.weight", width, forward, 0),
		matrix("blk.0.ffn_up.weight", width, forward, 0),
		matrix("blk.0.ffn_down.weight", forward, width, 0),
	}
}

// matrix makes a weight filled with one value; one row makes a vector.
func matrix(name string, columns, rows uint64, fill float32) tensor {
	t := tensor{name: name, shape: []uint64{columns}, data: make([]float32, columns*rows)}
	if rows > 1 {
		t.shape = append(t.shape, rows)
	}
	if fill != 0 {
		for i := range t.data {
			t.data[i] = fill
		}
	}
	return t
}
