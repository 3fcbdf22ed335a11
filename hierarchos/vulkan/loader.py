"""The Vulkan binding, loaded at first use, and small helpers around its structs and results."""
from __future__ import annotations

from functools import cache
from weakref import WeakKeyDictionary

from hierarchos.vulkan.errors import CallFailed, NoVulkan

_alive: WeakKeyDictionary = WeakKeyDictionary()


@cache
def api():
    """The `vulkan` module: constants, `ffi` and `lib`. Raises NoVulkan when the loader library is missing.

    Calls go to `lib` directly: the module's own wrappers cost microseconds each, and some return the wrong thing
    (`vkGetBufferDeviceAddress` gives back its argument)."""
    try:
        import vulkan
    except OSError as error:
        raise NoVulkan from error
    return vulkan


def struct(kind: str, stype: int | None = None, **fields):
    """A new `kind *` with `sType` and fields set. What the fields point to lives as long as the struct."""
    made = api().ffi.new(f"{kind} *")
    if stype is not None:
        made.sType = stype
    for name, value in fields.items():
        setattr(made, name, value)
    _alive[made] = tuple(fields.values())
    return made


def names(strings: list[str]):
    """A C array of C strings."""
    ffi = api().ffi
    kept = [ffi.new("char[]", s.encode()) for s in strings]
    made = ffi.new("char*[]", kept)
    _alive[made] = tuple(kept)
    return made


def create(call: str, kind: str, *arguments):
    """Runs `lib.vkCreate...(*arguments, NULL, &handle)` and returns the handle."""
    vk = api()
    out = vk.ffi.new(f"{kind} *")
    check(getattr(vk.lib, call)(*arguments, vk.ffi.NULL, out), call)
    return out[0]


def enumerate_structs(call: str, kind: str, *arguments) -> list:
    """The two-call idiom: count, then fill. Returns the items (they stay valid while the list's items are held)."""
    vk = api()
    function = getattr(vk.lib, call)
    count = vk.ffi.new("uint32_t *")
    function(*arguments, count, vk.ffi.NULL)
    items = vk.ffi.new(f"{kind}[]", count[0])
    function(*arguments, count, items)
    made = [items[i] for i in range(count[0])]
    return made if vk.ffi.typeof(kind).kind != "struct" else [vk.ffi.new(f"{kind} *", item) for item in made]


@cache
def result_names() -> dict[int, str]:
    vk = api()
    return {value: name for name, value in vars(vk).items() if name.startswith("VK_ERROR_") and isinstance(value, int)}


def check(result: int, call: str) -> int:
    """Raises CallFailed for a negative result; returns the result otherwise."""
    if result < 0:
        raise CallFailed(call, result_names().get(result, f"VkResult {result}"))
    return result


def text(chars) -> str:
    """A `char[]` field as a Python string."""
    return api().ffi.string(chars).decode("utf-8", "replace")
