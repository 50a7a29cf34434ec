import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millstream.errors import InvalidNameError
from millstream.foundation.kafka_acls import required_acls
from millstream.foundation.names import check_name

ALLOWED = frozenset(string.ascii_letters + string.digits + "._-")


def is_valid(name: str) -> bool:
    """State the rule independently of the code."""
    return 1 <= len(name) <= 200 and set(name) <= ALLOWED and not name.startswith(".")


# Mostly edge cases: valid characters, dots, separators, characters special to regular expressions, line ends.
tricky = st.text(
    st.sampled_from([*"aZ09._-", "/", "\\", "\0", "\n", "\r", " ", "%", "é", "\u0661", "\u202e"]), max_size=6
)
valid = st.text(st.sampled_from(sorted(ALLOWED)), min_size=1, max_size=200)


@pytest.mark.slow
@settings(max_examples=3_000, deadline=None)
@given(st.one_of(tricky, valid, st.text(max_size=250)))
@example("a\n")
@example("..")
@example("../up")
@example("a" * 201)
@example("")
def test_a_name_is_accepted_if_and_only_if_it_is_valid(name: str) -> None:
    if is_valid(name):
        assert check_name("topic", name) is name
    else:
        with pytest.raises(InvalidNameError):
            check_name("topic", name)


@pytest.mark.parametrize("name", [None, 7, b"lines", ["lines"]])
def test_only_text_is_a_name(name: object) -> None:
    with pytest.raises(InvalidNameError):
        check_name("topic", name)


def test_the_error_names_kind_and_value() -> None:
    with pytest.raises(InvalidNameError, match=r"store name 'a/b' is not allowed; use 1 to 200") as caught:
        check_name("store", "a/b")
    assert caught.value.facts == {"name": "a/b"}


def test_on_kafka_no_app_id_is_a_prefix_of_the_names_of_another_app() -> None:
    for app in ("orders", "orders-eu", "orders_eu"):
        assert required_acls(app, ["lines"], ["out"], creates=True)
    with pytest.raises(InvalidNameError, match=r"app id 'orders.eu' has a dot, .* on Kafka; .*'orders-eu'"):
        required_acls("orders.eu", ["lines"], ["out"], creates=True)
