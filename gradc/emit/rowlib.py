"""Rows sorted and searched: functions that are copied into the Numba modules gradc emits.

They work on vectors of any real dtype, allocate nothing and raise nothing. NaN stands behind all
numbers, as in NumPy.
"""

import math
from typing import Any


def _precedes(v: Any, w: Any) -> bool:
    """Whether v stands before w in ascending order."""
    return bool(not w <= v and v <= math.inf)


def _merge(a: Any, b: Any, c: Any, d: Any, width: int) -> None:
    """c := the sorted runs of a, so long each, merged in pairs; d from b in the same way."""
    n = a.size
    for start in range(0, n, 2 * width):
        i = start
        middle = min(start + width, n)
        j = middle
        stop = min(middle + width, n)
        for k in range(start, stop):
            if i < middle and (j >= stop or not _precedes(a[j], a[i])):
                c[k] = a[i]
                d[k] = b[i]
                i += 1
            else:
                c[k] = a[j]
                d[k] = b[j]
                j += 1


def _sort(x: Any, values: Any, order: Any, spare: Any, places: Any) -> None:
    """values := x in ascending order, order := where each stood; equal ones keep their order.

    Runs of 16 by insertion, then merged to the spare arrays and back.
    """
    n = x.size
    for i in range(n):
        v = x[i]
        k = i
        while k > i - (i & 15) and _precedes(v, values[k - 1]):
            values[k] = values[k - 1]
            order[k] = order[k - 1]
            k -= 1
        values[k] = v
        order[k] = i
    width = 16
    while width < n:
        _merge(values, order, spare, places, width)
        _merge(spare, places, values, order, 2 * width)
        width = 4 * width


def _search_left(a: Any, v: Any, out: Any) -> None:
    """out := how many elements of the sorted a stand before each of v."""
    for i in range(v.size):
        low = 0
        high = a.size
        while low < high:
            middle = (low + high) >> 1
            if _precedes(a[middle], v[i]):
                low = middle + 1
            else:
                high = middle
        out[i] = low


def _search_right(a: Any, v: Any, out: Any) -> None:
    """out := how many elements of the sorted a do not stand behind each of v."""
    for i in range(v.size):
        low = 0
        high = a.size
        while low < high:
            middle = (low + high) >> 1
            if _precedes(v[i], a[middle]):
                high = middle
            else:
                low = middle + 1
        out[i] = low
