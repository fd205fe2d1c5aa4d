#!/usr/bin/env bash
# Builds the Ollama server that the tests talk to, once, into a cache outside
# the tree, and prints the path of the binary on the last line of its output.
# CPU only, from the Go module proxy; the module zip leaves out three headers,
# which come from Debian and from the malgo module.
# Environment: LOMI_OLLAMA (use this binary instead), XDG_CACHE_HOME.
set -euo pipefail

version=v0.17.4
malgo=v0.11.24

if [ -n "${LOMI_OLLAMA:-}" ]; then
  [ -x "$LOMI_OLLAMA" ] || { echo "LOMI_OLLAMA=$LOMI_OLLAMA is not an executable file" >&2; exit 1; }
  echo "$LOMI_OLLAMA"
  exit 0
fi

cache="${XDG_CACHE_HOME:-$HOME/.cache}/lomi/ollama-$version"
binary="$cache/bin/ollama"
if [ -x "$binary" ]; then
  echo "$binary"
  exit 0
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two test runs at once build it once
if [ -x "$binary" ]; then
  echo "$binary"
  exit 0
fi

need=()
[ -d /usr/include/nlohmann ] || need+=(nlohmann-json3-dev)
[ -d /usr/include/stb ] || need+=(libstb-dev)
command -v g++ >/dev/null || need+=(g++)
if [ "${#need[@]}" -gt 0 ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "building Ollama needs these packages; please install them: ${need[*]}" >&2
    exit 1
  fi
  echo "installing ${need[*]} (headers to build Ollama with)" >&2
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${need[@]}" >&2
fi

echo "building Ollama $version for the tests (about 7 minutes on 2 cores, once)" >&2
include="$cache/include"
mkdir -p "$include/miniaudio"
ln -sfn /usr/include/nlohmann "$include/nlohmann"
ln -sfn /usr/include/stb "$include/stb"
malgo_dir=$(cd "$cache" && GOFLAGS=-mod=mod go mod download -json "github.com/gen2brain/malgo@$malgo" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
cp "$malgo_dir/miniaudio.h" "$include/miniaudio/"
chmod u+w "$include/miniaudio/miniaudio.h"
(cd "$cache" && GOFLAGS= CGO_ENABLED=1 CGO_CFLAGS="-O2 -I$include" CGO_CXXFLAGS="-O2 -I$include" GOBIN="$cache/bin.new" \
  go install "github.com/ollama/ollama@$version" >&2)
mkdir -p "$cache/bin"
mv "$cache/bin.new/ollama" "$binary" # appears whole or not at all
rm -rf "$cache/bin.new"
echo "$binary"
