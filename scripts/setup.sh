#!/bin/sh
# Installs what is missing, and nothing else: a virtual environment in .venv, the Vulkan loader and, where no Vulkan
# driver is found, Mesa's. Can be repeated; the second time takes less than a second, changes nothing and needs no network.
#
#   scripts/setup.sh            what `make run` needs
#   scripts/setup.sh test       and what `make test` needs; where pip has no Ray, MLflow or Trackio, all but these, and their tests are skipped
#   scripts/setup.sh oracle     and PyTorch, Transformers and PEFT, to compare with
#   scripts/setup.sh system     only the system packages (for an administrator, where the user is none)
set -eu
cd "$(dirname "$0")/.."
extras=${1:-}
PATH=$PATH:/usr/sbin:/sbin                          # ldconfig, for users who are no administrators

say() { printf 'setup: %s\n' "$*" >&2; }
stop() { say "$*"; exit 1; }
. scripts/system_packages.sh

case $extras in ''|test|oracle|system) ;; *) stop "'$extras' is none of: test, oracle, system (or nothing)" ;; esac

# --- what is here ---------------------------------------------------------------------------------------------------
find_python() {
  for candidate in python3 python3.13 python3.12 python3.14 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$candidate"; return; fi
  done
}

place="$(pwd -P) $(uname -s -m)"                    # an environment that was copied or moved has wrong paths in it
environment_works() {
  [ "$(cat .venv/.place 2>/dev/null)" = "$place" ] && .venv/bin/python -c 'import pip' 2>/dev/null
}

count_devices() {                                   # usable ones; 0 also when there is no loader library
  .venv/bin/python -c '
from hierarchos.vulkan import VulkanError, list_devices
try: print(sum(device.usable for device in list_devices()))
except VulkanError: print(0)'
}

# --- system packages, all in one go ---------------------------------------------------------------------------------
if [ "$extras" = system ] || ! environment_works; then
  missing=
  python=$(find_python)
  if [ -z "$python" ]; then missing=$(python_packages)
  elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then missing=$(venv_package "$python")
  fi
  if [ "$(uname -s)" = Linux ]; then
    has_vulkan_loader || missing="$missing libvulkan1"
    has_vulkan_driver || missing="$missing mesa-vulkan-drivers"
  fi
  # shellcheck disable=SC2086                       # a list of words
  [ -z "$missing" ] || install_packages $missing
fi
[ "$extras" != system ] || exit 0

# --- Python ---------------------------------------------------------------------------------------------------------
if ! environment_works; then
  python=$(find_python)
  [ -n "$python" ] || stop "Python 3.11 or newer is needed; found: $(python3 --version 2>&1 || true)"
  say "creating .venv with $("$python" --version)"
  rm -rf .venv
  "$python" -m venv .venv
  echo "$place" > .venv/.place
fi

optional=ray,mlflow,trackio                         # extras that some Pythons and machines have no packages of

install_extras() { .venv/bin/python -m pip install -q --disable-pip-version-check --use-pep517 -e ".${1:+[$1]}"; }

# The stamp says which extras were installed from which pyproject.toml by which script; a line with extras covers the one without.
stamp=.venv/.installed
wanted=$(cat pyproject.toml scripts/setup.sh | cksum)
if ! grep -q "^$wanted $extras" "$stamp" 2>/dev/null; then
  say "installing Python packages${extras:+ for $extras} (a minute)"
  if [ "$extras" != test ] || ! install_extras "test,$optional"; then
    [ "$extras" != test ] || say "without $optional, which pip could not install here: their tests are skipped"
    install_extras "$extras" || stop "pip could not install the packages; what is there was kept, and running this again goes on from it"
  fi
  grep -q "^$wanted " "$stamp" 2>/dev/null || : > "$stamp"
  echo "$wanted $extras" >> "$stamp"
fi

# --- Vulkan ---------------------------------------------------------------------------------------------------------
devices=$(count_devices 2>/dev/null) || devices=$(count_devices)
if [ "$devices" = 0 ] && [ "$(uname -s)" = Linux ]; then
  say "no driver that is installed finds a Vulkan device"
  install_packages libvulkan1 mesa-vulkan-drivers
  devices=$(count_devices 2>/dev/null)
fi
[ "$devices" != 0 ] || stop "there is no usable Vulkan device; this says more:  .venv/bin/hierarchos doctor"
