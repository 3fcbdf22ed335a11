# Read by setup.sh: which Debian or Ubuntu packages are missing, and how they are installed.

has_vulkan_loader() { ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; }

has_vulkan_driver() {                               # where the loader looks for descriptions of drivers
  [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}${VK_ADD_DRIVER_FILES:-}" ] || return 0
  for folder in /usr/share /usr/local/share /etc "${XDG_DATA_HOME:-${HOME:-}/.local/share}" "${XDG_CONFIG_HOME:-${HOME:-}/.config}"; do
    for description in "$folder"/vulkan/icd.d/*.json; do [ ! -e "$description" ] || return 0; done
  done
  return 1
}

python_packages() {                                 # Ubuntu 22.04: python3 is 3.10, but there is a python3.11
  if ! command -v python3 >/dev/null 2>&1; then echo python3 python3-venv
  elif [ -n "$(apt-cache pkgnames python3.11-venv 2>/dev/null)" ]; then echo python3.11 python3.11-venv
  else stop "Python 3.11 or newer is needed; $(python3 --version 2>&1) was found, and this system has no newer one"
  fi
}

venv_package() { "$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'; }

may_install() {
  [ "$(id -u)" != 0 ] || return 0
  command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

quietly() {                                         # shows what a command said only when it failed
  said=$(as_root env DEBIAN_FRONTEND=noninteractive "$@" 2>&1 </dev/null) || { printf '%s\n' "$said" | tail -n 5 >&2; return 1; }
}

update_lists() { quietly apt-get update -qq; }

install() { quietly apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"; }

install_packages() {
  command -v apt-get >/dev/null 2>&1 || stop "please install with your package manager, then run this again:  $*"
  may_install || stop "$* must be installed by an administrator; as root:  $PWD/scripts/setup.sh system"
  say "installing $* (a minute)"
  update_lists || say "the package lists could not be brought up to date; going on with those at hand"
  rest=
  for package in "$@"; do
    [ "$package" = mesa-vulkan-drivers ] || rest="$rest $package"
  done
  # shellcheck disable=SC2086                       # a list of words
  [ -z "$rest" ] || install $rest || stop "these packages could not be installed: $rest"
  case " $* " in *" mesa-vulkan-drivers "*) install_mesa ;; esac
}

install_mesa() {                                    # drivers for AMD and Intel, and one that runs on the CPU
  if debian_12_backports && install -t bookworm-backports mesa-vulkan-drivers; then return; fi
  install mesa-vulkan-drivers || stop "mesa-vulkan-drivers could not be installed"
}

# Debian 12 has Mesa 22.3; the 25.0 of its backports suite was measured 2.5 to 3 times faster.
debian_12_backports() {
  [ "$(. /etc/os-release; echo "${ID:-}${VERSION_ID:-}")" = debian12 ] || return 1
  has_backports && return
  source=/etc/apt/sources.list.d/hierarchos-backports.list
  mirror=$(apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' 'Origin: Debian' 'Codename: bookworm' 2>/dev/null | head -n 1)
  say "adding Debian's backports suite, for its faster Mesa ($source)"
  echo "deb ${mirror:-http://deb.debian.org/debian} bookworm-backports main" | as_root tee "$source" >/dev/null
  update_lists && has_backports && return
  say "the mirror has no backports suite; taking the slower Mesa of Debian 12"
  as_root rm -f "$source"
  update_lists || true
  return 1
}

has_backports() { apt-cache policy mesa-vulkan-drivers 2>/dev/null | grep -q '~bpo12'; }
