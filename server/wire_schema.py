"""How pydantic reads wire values: one configuration, for validation and for schemas."""

from __future__ import annotations

from pydantic import ConfigDict

from radixchat.server.wire_value import wire_name


def wire_config(strict: bool) -> ConfigDict:
    """strict: a field that nobody knows is an error; else it is ignored.

    A number in quotation marks is no number, and NaN is none either.
    """
    return ConfigDict(
        extra="forbid" if strict else "ignore",
        strict=True,
        alias_generator=wire_name,
        allow_inf_nan=False,
    )
