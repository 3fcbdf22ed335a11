"""Huge pages for the memory of a software device, which is ordinary memory of this process.

With pages of 4 KiB a product that streams its weights waits for the page table and for a prefetcher that stops at every page.
"""
from __future__ import annotations

import sys

PAGE = 4096
LEAST = 4 << 20                 # bytes: two huge pages of x86-64
MADV_HUGEPAGE = 14              # Linux, include/uapi/asm-generic/mman-common.h


def ask_for_huge_pages(address: int, nbytes: int) -> bool:
    """Asks Linux for huge pages where [address, address + nbytes) is not touched yet; elsewhere and where the kernel was built or set up
    without them nothing happens. Whether the request was taken."""
    if sys.platform != "linux" or nbytes < LEAST:
        return False
    import ctypes
    first, last = -(-address // PAGE) * PAGE, (address + nbytes) // PAGE * PAGE
    return ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_HUGEPAGE) == 0
