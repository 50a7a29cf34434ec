"""Columns of keys have the results of single keys."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.foundation.key_columns import encode_keys, sorted_keys
from millstream.foundation.object_codec import encode_key

endings = st.text("\0ab", max_size=3)
KEYS = {
    "text of any length": st.text(max_size=12),
    "text that begins alike": endings.map("the same beginning of all keys".__add__),
    "text that differs late": endings.map(lambda text: "a" + "-" * 9 + text),
    "long text": st.tuples(st.integers(50, 70), endings).map(lambda parts: "k" * parts[0] + parts[1]),
    "text of one length": st.text("\0ab", min_size=10, max_size=10),
    "numbers": st.integers(-(2**63), 2**63 - 1),
    "small numbers": st.integers(-300, 300),
}


@pytest.mark.parametrize("kind", KEYS)
def test_encoded_keys_are_sorted_as_bytes(kind: str) -> None:
    @given(st.lists(KEYS[kind], min_size=1, max_size=30, unique=True))
    def law(keys: list[Any]) -> None:
        encoded = encode_keys(keys)
        assert encoded == list(map(encode_key, keys))
        in_order, previous = sorted_keys(encoded)
        assert in_order == sorted(encoded)
        assert [encoded[index] for index in previous.tolist()] == in_order

    law()
