"""Actions on tags and branches. They make no version; each answers with the version that it is about."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from flight_server.handlers.actions.bodies import branch_name, parse_refs, ref_name
from flight_server.requests.commands import VERSION
from flight_server.requests.names import DatasetReference
from flight_server.service import Service
from lance_core.errors import InvalidInputError


def list_tags(service: Service, body: bytes) -> dict[str, Any]:
    reference, _ = parse_refs("list_tags", body, {})
    return {"tags": _shown(service.refs.tags(reference.name))}


def create_tag(service: Service, body: bytes) -> dict[str, Any]:
    """Create a tag. Naming the same version once more changes nothing."""
    fields = {"tag": ref_name, "version": VERSION, "branch": branch_name}
    reference, values = parse_refs("create_tag", body, fields, ("tag",))
    name = values.pop("tag")
    return {"version": service.refs.create_tag(name, _chosen(reference, values))}


def update_tag(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"tag": ref_name, "version": VERSION, "branch": branch_name}
    reference, values = parse_refs("update_tag", body, fields, ("tag",))
    name = values.pop("tag")
    return {"version": service.refs.update_tag(name, _chosen(reference, values))}


def delete_tag(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_refs("delete_tag", body, {"tag": ref_name}, ("tag",))
    return {"version": service.refs.delete_tag(reference.name, values["tag"])}


def list_branches(service: Service, body: bytes) -> dict[str, Any]:
    reference, _ = parse_refs("list_branches", body, {})
    return {"branches": _shown(service.refs.branches(reference.name))}


def create_branch(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"branch": branch_name, "version": VERSION, "tag": ref_name}
    reference, values = parse_refs("create_branch", body, fields, ("branch",))
    name = values.pop("branch")
    return {"version": service.refs.create_branch(name, _chosen(reference, values))}


def delete_branch(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_refs("delete_branch", body, {"branch": branch_name}, ("branch",))
    return {"version": service.refs.delete_branch(reference.name, values["branch"])}


def _chosen(reference: DatasetReference, fields: dict[str, Any]) -> DatasetReference:
    """Return the version that the end of the name or the fields give."""
    if fields and reference != DatasetReference(reference.name):
        raise InvalidInputError(
            f"dataset {reference.name}: its name and the fields {', '.join(fields)} both give a version"
        )
    return replace(reference, **fields)


def _shown(refs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return tags or branches as JSON has them, with times in ISO 8601."""
    return {
        name: {
            field: value.isoformat() if isinstance(value, datetime) else value
            for field, value in asdict(ref).items()
        }
        for name, ref in refs.items()
    }
