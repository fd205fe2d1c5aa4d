#!/usr/bin/env bash
# Finds Chromium and prints its path on the last line of its output; installs
# Debian's package when there is none, and says so before it does.
# Environment: LOMI_CHROMIUM (use this binary instead).
set -euo pipefail

find_chromium() {
  local c
  # Debian's wrapper script prints noise and adds flags: the real binary first.
  for c in "${LOMI_CHROMIUM:-}" /usr/lib/chromium/chromium chromium chromium-browser google-chrome google-chrome-stable \
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" "/Applications/Chromium.app/Contents/MacOS/Chromium"; do
    [ -n "$c" ] || continue
    if command -v "$c" >/dev/null 2>&1; then
      command -v "$c"
      return 0
    fi
  done
  return 1
}

if find_chromium; then exit 0; fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "no Chromium found: installing Debian's package 'chromium' (about 350 MB, a minute)" >&2
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >&2
  find_chromium
  exit 0
fi

cat >&2 <<'TEXT'
no Chromium found. Lomi's browser tools need one. Install it, or name it with LOMI_CHROMIUM=/path/to/chromium:
  Debian, Ubuntu:  sudo apt-get install chromium
  Fedora:          sudo dnf install chromium
  macOS:           brew install --cask chromium   (or install Google Chrome)
TEXT
exit 1
