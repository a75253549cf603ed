"""The page /api/docs: the OpenAPI document as plain HTML in the site's theme. It needs no script and no CDN."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

TYPES = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "object": "object",
}
REF = "#/components/schemas/"
METHODS = ("get", "post", "put", "patch", "delete")


class Page(DocsBase):
    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        document = json.loads(json.dumps(api.get_openapi_schema(path_params=kwargs), default=str))
        context = {
            "about": document["info"]["description"], "openapi_url": self.get_openapi_url(api, kwargs),
            "groups": groups(document), "schemas": schemas(document),
        }  # fmt: skip
        return render(request, "api.html", context)


def groups(document: dict[str, Any]) -> list[dict[str, Any]]:
    """[{tag, operations}] in the order of the document."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for path, methods in document["paths"].items():
        for method in METHODS:
            if method in methods:
                operation = methods[method]
                rows.setdefault((operation.get("tags") or ["others"])[0], []).append(
                    _operation(path, method, operation)
                )
    return [{"tag": tag, "operations": operations} for tag, operations in rows.items()]


def _operation(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return {
        "id": operation["operationId"], "method": method.upper(), "path": path,
        "summary": operation.get("summary", ""), "about": operation.get("description", ""),
        "parameters": [
            {
                "name": p["name"], "where": p["in"], "type": words(p["schema"]), "required": p.get("required", False),
                "about": p.get("description", "") or p["schema"].get("description", ""),
            }
            for p in operation.get("parameters", ())
        ],
        "body": words(body) if body else "", "body_link": link(body) if body else "",
        "answers": [
            {"status": status, "about": answer.get("description", ""), **_content(answer)}
            for status, answer in operation["responses"].items()
        ],
    }  # fmt: skip


def _content(answer: dict[str, Any]) -> dict[str, str]:
    schema = answer.get("content", {}).get("application/json", {}).get("schema")
    return {"type": words(schema), "link": link(schema)} if schema else {"type": "", "link": ""}


def schemas(document: dict[str, Any]) -> list[dict[str, Any]]:
    """[{name, about, fields: [{name, type, link, required, about}], parts: [{name}]}] by name."""
    rows = []
    for name, schema in sorted(document["components"]["schemas"].items()):
        required = schema.get("required", ())
        fields = [
            {
                "name": field, "type": words(about), "link": link(about), "required": field in required,
                "about": about.get("description", ""),
            }
            for field, about in _fields(schema)
        ]  # fmt: skip
        parts = [part["$ref"].removeprefix(REF) for part in schema.get("oneOf", ()) if "$ref" in part]
        rows.append({"name": name, "about": schema.get("description", ""), "fields": fields, "parts": parts})
    return rows


def _fields(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The properties; those of an event's data as data.NAME."""
    rows = []
    for name, field in schema.get("properties", {}).items():
        inner = field.get("properties", {}) if name == "data" else {}
        rows += [(f"data.{part}", about) for part, about in inner.items()] or [(name, field)]
    return rows


def words(schema: dict[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        return schema["$ref"].removeprefix(REF)
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    for many in ("anyOf", "oneOf", "allOf"):
        if many in schema:
            return " or ".join(dict.fromkeys(words(part) for part in schema[many]))
    if schema.get("type") == "array":
        items = schema.get("items", {})
        return f"list of {words(items)}" if items else "list"
    return {"null": "null", **TYPES}.get(schema.get("type", ""), "any value")


def link(schema: dict[str, Any]) -> str:
    """The name of the first schema that a type names, for a link to it; "" if it names none."""
    if "$ref" in schema:
        return schema["$ref"].removeprefix(REF)
    parts = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *([schema["items"]] if "items" in schema else [])]
    return next((name for part in parts if (name := link(part))), "")
