"""How pydantic reads wire values: one configuration, for validation and for schemas."""

from __future__ import annotations

from typing import Any, NewType

from pydantic import ConfigDict, TypeAdapter

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


def wire_adapter(kind: Any, strict: bool) -> TypeAdapter[Any]:
    """pydantic's reader of a wire value; kind: its class, or a union of classes."""
    # A class cannot be given a configuration, one under another name can; mypy knows new names
    # of classes that it can see only.
    renamed: Any = NewType
    named = renamed("named", kind) if isinstance(kind, type) else kind
    return TypeAdapter(named, config=wire_config(strict))
