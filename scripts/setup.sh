#!/bin/sh
# Installs what is missing, and nothing else: a virtual environment in .venv, the Vulkan loader and, where no Vulkan
# driver is found, Mesa's software driver. Can be repeated; the second time takes a second.
#
#   scripts/setup.sh            what `make run` needs
#   scripts/setup.sh test       and what `make test` needs
#   scripts/setup.sh oracle     and PyTorch, Transformers and PEFT, to compare with
set -eu
cd "$(dirname "$0")/.."
extras=${1:-}

say() { printf 'setup: %s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null 2>&1; then sudo "$@"
  else stop "this needs an administrator; run once as root:  $*"
  fi
}

install_packages() {
  command -v apt-get >/dev/null 2>&1 || stop "please install with your package manager, then run this again: $*"
  say "installing $*"
  as_root apt-get update -qq || say "the package lists could not be brought up to date; trying with those at hand"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# --- Python ---------------------------------------------------------------------------------------------------------
newest_python() {
  for candidate in python3 python3.13 python3.12 python3.11 python3.14; do
    if command -v "$candidate" >/dev/null 2>&1 &&
       "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"; return
    fi
  done
}

python=$(newest_python)
if [ -z "$python" ]; then
  install_packages python3 python3-venv
  python=$(newest_python)
  [ -n "$python" ] || stop "Python 3.11 or newer is needed; $(python3 --version 2>&1) was found"
fi
if [ ! -x .venv/bin/python ] || ! .venv/bin/python -c 'import pip' 2>/dev/null; then
  "$python" -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
  say "creating .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv
fi

# A stamp holds what the environment was made from: pip is called only when pyproject.toml or the extras change.
stamp=".venv/.installed-$extras"
wanted=$(cksum < pyproject.toml)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
  say "installing Python packages${extras:+ ($extras)}"
  requirement=".${extras:+[$extras]}"
  .venv/bin/python -m pip install -q --disable-pip-version-check -e "$requirement"
  echo "$wanted" > "$stamp"
fi

# --- Vulkan ---------------------------------------------------------------------------------------------------------
devices() { .venv/bin/python -c 'from hierarchos.vulkan import list_devices; print(len(list_devices()))' 2>/dev/null || echo 0; }

debian_12_backports() {      # its Mesa is 2.5 to 3 times faster than the one of the release
  . /etc/os-release
  [ "${ID:-}${VERSION_ID:-}" = debian12 ] || return 1
  apt-cache policy mesa-vulkan-drivers 2>/dev/null | grep -q bpo12 && return 0
  mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -n 1)
  [ -n "$mirror" ] || mirror=$(sed -n 's/^deb .*\(https\{0,1\}:[^ ]*\) bookworm main.*/\1/p' /etc/apt/sources.list 2>/dev/null | head -n 1)
  [ -n "$mirror" ] || return 1
  echo "deb $mirror bookworm-backports main" | as_root tee /etc/apt/sources.list.d/hierarchos-backports.list >/dev/null
  as_root apt-get update -qq && apt-cache policy mesa-vulkan-drivers | grep -q bpo12
}

install_software_driver() {
  say "no Vulkan driver was found; installing Mesa's software driver (slow: for trying things out and for tests)"
  if debian_12_backports; then install_packages -t bookworm-backports mesa-vulkan-drivers
  else install_packages mesa-vulkan-drivers
  fi
}

case "$(uname -s)" in
  Linux)
    if [ "$(devices)" = 0 ]; then
      ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' || install_packages libvulkan1
      [ "$(devices)" != 0 ] || install_software_driver
      [ "$(devices)" != 0 ] || stop "there is still no Vulkan device; see: .venv/bin/hierarchos doctor"
    fi ;;
  *) [ "$(devices)" != 0 ] || stop "no Vulkan driver was found; the README says how to get one on this system" ;;
esac
