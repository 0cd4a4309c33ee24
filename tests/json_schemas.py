"""JSON Schemas of all kinds that the tests of constrained output run through."""

from __future__ import annotations

from typing import Any

LINKED_LIST = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": "integer"}},
            "required": ["value"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/node",
}
TREE = {
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 8},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 3},
            },
            "required": ["name", "children"],
        }
    },
    "$ref": "#/$defs/tree",
}
MUTUAL = {
    "$defs": {
        "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}, "required": ["b"]},
        "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]},
    },
    "$ref": "#/$defs/a",
}
EXPRESSION = {
    "$defs": {
        "expr": {
            "anyOf": [
                {"type": "number"},
                {
                    "type": "object",
                    "properties": {
                        "op": {"enum": ["+", "-", "*"]},
                        "left": {"$ref": "#/$defs/expr"},
                        "right": {"$ref": "#/$defs/expr"},
                    },
                    "required": ["op", "left", "right"],
                    "additionalProperties": False,
                },
            ]
        }
    },
    "$ref": "#/$defs/expr",
}
SHAPES = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "minimum": 0}},
            "required": ["kind", "radius"],
        },
        {
            "type": "object",
            "properties": {
                "kind": {"const": "box"},
                "width": {"type": "integer", "minimum": 1, "maximum": 99},
                "height": {"type": "integer", "minimum": 1, "maximum": 99},
            },
            "required": ["kind", "width", "height"],
        },
    ]
}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "email": {"type": "string", "format": "email"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
            "required": ["street", "zip"],
        },
    },
    "required": ["name", "age", "address"],
}
PYDANTIC_STYLE = {
    "$defs": {
        "Colour": {"enum": ["red", "green", "blue"], "title": "Colour", "type": "string"},
        "Item": {
            "properties": {
                "colour": {"$ref": "#/$defs/Colour"},
                "size": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Size"},
            },
            "required": ["colour"],
            "title": "Item",
            "type": "object",
        },
    },
    "properties": {"items": {"items": {"$ref": "#/$defs/Item"}, "title": "Items", "type": "array"}},
    "required": ["items"],
    "title": "Basket",
    "type": "object",
}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


SCHEMAS: dict[str, Any] = {
    "any value": True,
    "empty schema": {},
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "string": {"type": "string"},
    "type list": {"type": ["string", "null"]},
    "any object": {"type": "object"},
    "any array": {"type": "array"},
    "empty object": {"type": "object", "properties": {}, "additionalProperties": False},
    "const string": {"const": "exactly this"},
    "const object": {"const": {"a": [1, 2, {"b": None}], "c": "d"}},
    "const unicode": {"const": "größer ☃ 雪"},
    "enum strings": {"enum": ["north", "northeast", "south"]},
    "enum mixed": {"enum": [1, "one", None, True, [1], {"x": 1}]},
    "enum unicode": {"enum": ["日本", "日曜", "naïve"]},
    "min length": {"type": "string", "minLength": 12},
    "max length": {"type": "string", "maxLength": 5},
    "max length 0": {"type": "string", "maxLength": 0},
    "exact length": {"type": "string", "minLength": 7, "maxLength": 7},
    "pattern digits": {"type": "string", "pattern": r"^\d{3}-\w+$"},
    "pattern unanchored": {"type": "string", "pattern": "abc"},
    "pattern star": {"type": "string", "pattern": "^a*b$"},
    "pattern alternatives": {"type": "string", "pattern": "^(cat|dog)s?$"},
    "pattern class": {"type": "string", "pattern": r'^[^\s"]+$'},
    "pattern of lenient syntax": {"type": "string", "pattern": r"^\${[\w.-]{1,4}}$"},
    "pattern with word boundaries": {"type": "string", "pattern": r"^\w{1,3}\b-\b\w$"},
    "pattern and length": {"type": "string", "pattern": "^[a-z]+$", "minLength": 4, "maxLength": 9},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "date-time": {"type": "string", "format": "date-time"},
    "email": {"type": "string", "format": "email"},
    "hostname": {"type": "string", "format": "hostname"},
    "ipv4": {"type": "string", "format": "ipv4"},
    "ipv6": {"type": "string", "format": "ipv6"},
    "uuid": {"type": "string", "format": "uuid"},
    "uri": {"type": "string", "format": "uri"},
    "duration": {"type": "string", "format": "duration"},
    "range": {"type": "integer", "minimum": 1000, "maximum": 2050},
    "negative range": {"type": "integer", "minimum": -20, "maximum": -7},
    "number range": {"type": "number", "minimum": 0.25, "maximum": 0.75},
    "exclusive range": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "multiple of 7": {"type": "integer", "multipleOf": 7, "minimum": 100},
    "multiple of 0.25": {"type": "number", "multipleOf": 0.25, "minimum": 1, "maximum": 9},
    "min items": {"type": "array", "items": {"type": "integer"}, "minItems": 4},
    "max items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2},
    "max items 0": {"type": "array", "items": {"type": "boolean"}, "maxItems": 0},
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
        "items": False,
        "minItems": 2,
    },
    "nested arrays": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2},
        "minItems": 2,
        "maxItems": 3,
    },
    "flat record": _object(id={"type": "integer"}, name={"type": "string"}, ok={"type": "boolean"}),
    "optional members": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "null"}},
        "additionalProperties": False,
    },
    "required last": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "boolean"}},
        "required": ["c"],
        "additionalProperties": False,
    },
    "key order": _object(z_reason={"type": "string", "maxLength": 30}, a_answer={"enum": ["yes", "no"]}),
    "unicode keys": _object(größe={"type": "integer"}, 名前={"type": "string", "maxLength": 4}),
    "quoted keys": _object(**{'a "b" \\ c': {"type": "integer"}}),
    "map of integers": {"type": "object", "additionalProperties": {"type": "integer"}},
    "deep": _object(a=_object(b=_object(c=_object(d=_object(e={"type": "string"}))))),
    "any of": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 4}, {"type": "null"}]},
    "any of objects": SHAPES,
    "array of shapes": {"type": "array", "items": SHAPES, "minItems": 1, "maxItems": 3},
    "all of": {
        "allOf": [_object(a={"type": "integer"}), _object(b={"type": "string", "maxLength": 3})],
    },
    "all of ranges": {"allOf": [{"type": "integer", "minimum": 10}, {"maximum": 12}]},
    "one of": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
    "ref to an enum": PYDANTIC_STYLE,
    "linked list": LINKED_LIST,
    "reference to itself beside others": {
        "type": "object",
        "properties": {"k": {"type": "integer"}},
        "additionalProperties": {"allOf": [{"$ref": "#"}, {"required": ["k"]}]},
    },
    "patterns of two schemas": {
        "type": "object",
        "allOf": [
            {"patternProperties": {"^a": {"type": "integer"}}},
            {"patternProperties": {"b$": {"type": "integer", "minimum": 3}}},
        ],
    },
    "counted members": {
        "type": "object",
        "properties": {name: {"type": "null"} for name in "abcdef"},
        "additionalProperties": False,
        "minProperties": 2,
        "maxProperties": 3,
    },
    "closed branches": {
        "oneOf": [
            {"type": "object", "properties": {"t": {"const": 1}, name: {}}, "additionalProperties": False}
            for name in "ab"
        ]
    },
    "narrowed by if": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b"]}, "value": {}},
        "required": ["kind", "value"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"properties": {"value": {"type": "integer"}}},
        "else": {"properties": {"value": {"type": "string", "maxLength": 3}}},
    },
    "narrowed by one of": {
        "type": "integer",
        "minimum": 0,
        "maximum": 99,
        "oneOf": [{"multipleOf": 2}, {"minimum": 50}],
    },
    "one of overlapping patterns": {
        "type": "string",
        "maxLength": 4,
        "oneOf": [{"pattern": "^[ab]+$"}, {"pattern": "a"}],
    },
    "patterns too large to be told apart": {
        "type": "object",
        "patternProperties": {"^.*$": {"type": "integer"}, "additionalProperties": {"minimum": 7}},
        "minProperties": 1,
        "maxProperties": 2,
    },
    "look-ahead for one character": {"type": "string", "pattern": r"^(?!-)[a-c-]{0,40}[a-c]$"},
    "word boundary after a long word": {"type": "string", "pattern": r"^[a-c()]{1,40}\b[-b]*$"},
    "tree": TREE,
    "mutual recursion": MUTUAL,
    "expression": EXPRESSION,
    "person": PERSON,
    "people": {"type": "array", "items": PERSON, "minItems": 1, "maxItems": 2},
}
