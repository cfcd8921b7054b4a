"""How pydantic reads wire values: one configuration, for validation and for schemas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NewType

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from radixchat.server.wire_value import wire_name

WHERE = "#/components/schemas/{model}"  # in both documents


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


Schemas = dict[str, dict[str, Any]]


def wire_schemas(*, received: Iterable[Any], sent: Iterable[Any]) -> Schemas:
    """The JSON schemas of wire values and of all that is in them, by the names of the classes.

    They refer to each other as parts of a document (`WHERE`). received: what a client says, where
    a field with a default can be left out. sent: what the server says, where such a field is there
    unless its default is null, and then it is never null.
    """
    asked = _schemas(received)
    told = {name: _as_sent(schema) for name, schema in _schemas(sent).items()}
    for name in asked.keys() & told.keys():
        assert asked[name] == told[name], f"{name} is not the same in both directions"
    return dict(sorted({**asked, **told}.items()))


def _schemas(kinds: Iterable[Any]) -> Schemas:
    mode: JsonSchemaMode = "validation"
    inputs = [(kind, mode, wire_adapter(kind, strict=False)) for kind in dict.fromkeys(kinds)]
    if not inputs:
        return {}
    _, whole = TypeAdapter.json_schemas(
        inputs, ref_template=WHERE, schema_generator=_WithoutFieldTitles
    )
    schemas: Schemas = whole.get("$defs", {})
    for kind, _, _ in inputs:
        assert kind.__name__ in schemas, f"two wire values are named {kind.__name__}"
    for schema in schemas.values():
        constant = [
            name for name, field in schema.get("properties", {}).items() if "const" in field
        ]
        required = schema.get("required", [])
        schema["required"] = [*(name for name in constant if name not in required), *required]
    return schemas


def _as_sent(schema: dict[str, Any]) -> dict[str, Any]:
    """Of a class, as `wire_dict` writes it."""
    fields = schema.get("properties", {})
    required = [name for name, field in fields.items() if field.get("default", "") is not None]
    return {
        **schema,
        "properties": {name: _never_null(field) for name, field in fields.items()},
        "required": required,
    }


def _never_null(field: dict[str, Any]) -> dict[str, Any]:
    """A field without its default, and without null if that was its default."""
    if "default" not in field:
        return field
    rest = {key: value for key, value in field.items() if key != "default"}
    if field["default"] is None and "anyOf" in rest:
        branches = [branch for branch in rest.pop("anyOf") if branch != {"type": "null"}]
        rest |= branches[0] if len(branches) == 1 else {"anyOf": branches}
    return rest


class _WithoutFieldTitles(GenerateJsonSchema):
    """A field's name is title enough."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False
