"""Numbers of tokens as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixchat.bench.capacity import default_capacities, parse_tokens, show_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("4096", 4096),
        ("512k", 512_000),
        ("1M", 1_000_000),
        ("2.5m", 2_500_000),
        (".5K", 500),
        ("1G", 10**9),
        (" 7 ", 7),
        ("inf", None),
    ],
)
def test_what_people_write(text: str, tokens: int | None) -> None:
    """Plain numbers, decimal suffixes in either case, and no limit."""
    assert parse_tokens(text) == tokens


@pytest.mark.parametrize(
    "text", ["", "M", "1,5M", "-1", "0", "0.0k", "1.2345k", "12x", "1e6", "nan"]
)
def test_what_is_no_number_of_tokens(text: str) -> None:
    """It is refused, and shown."""
    with pytest.raises(ValueError, match=r"write 512k|at least 1") as refused:
        parse_tokens(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (7, "7"),
        (999, "999"),
        (1000, "1,000"),
        (9999, "9,999"),
        (10_000, "10k"),
        (12_345, "12.35k"),
        (512_000, "512k"),
        (2_560_000, "2.56M"),
        (10_240_000, "10.24M"),
        (144_793_823, "144.8M"),
        (999_960, "1M"),
        (3 * 10**12, "3000G"),
        (None, "inf"),
    ],
)
def test_what_is_shown(tokens: int | None, text: str) -> None:
    """Four digits and a suffix, except for what is short as it is."""
    assert show_tokens(tokens) == text


@given(st.integers(1, 9999), st.sampled_from(["", "k", "M"]))
def test_four_digits_come_back(digits: int, suffix: str) -> None:
    """What is shown of at most four digits is read as the same number."""
    tokens = parse_tokens(f"{digits}{suffix}")
    assert parse_tokens(show_tokens(tokens).replace(",", "")) == tokens


def test_the_capacities_of_no_choice() -> None:
    """Shares of the distinct tokens, to two digits, never below the least; no two the same."""
    assert default_capacities(1_234_567, 16, 16) == [62_000, 120_000, 250_000, 620_000]
    assert default_capacities(100, 16, 48) == [16, 20, 50]
    assert default_capacities(1, 512, 512) == [512]


def test_some_default_capacity_holds_the_largest_request() -> None:
    """It is added where no share of the distinct tokens does."""
    assert default_capacities(100, 16, 50) == [16, 20, 50]
    assert default_capacities(100, 16, 96) == [16, 20, 50, 96]
