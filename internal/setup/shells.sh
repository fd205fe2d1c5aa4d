#!/usr/bin/env bash
# Finds zsh, which the terminal's tests run beside bash and sh, and prints its
# path on the last line of its output; installs Debian's package when there is
# none, and says so before it does. Lomi itself does not need it.
set -euo pipefail

if command -v zsh; then exit 0; fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "no zsh found: installing Debian's package 'zsh' (about 16 MB) for the terminal's tests" >&2
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq zsh >&2
  command -v zsh
  exit 0
fi

cat >&2 <<'TEXT'
no zsh found. The terminal's tests need one; please install it:
  Debian, Ubuntu:  sudo apt-get install zsh
  Fedora:          sudo dnf install zsh
  macOS:           is part of the system, as /bin/zsh
TEXT
exit 1
