"""Actions on tags and branches. They make no version; each answers with the one it is about."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from flight_server.handlers.actions.bodies import branch_name, parse_refs, ref_name
from flight_server.requests.commands import VERSION
from flight_server.requests.names import DatasetReference
from flight_server.service import Service
from lance_core.errors import InvalidInputError, RefConflictError
from lance_core.maintenance import branches as branch_changes
from lance_core.maintenance import tags as tag_changes
from lance_core.table import refs as stored
from lance_core.table.snapshot import Snapshot


def list_tags(service: Service, body: bytes) -> dict[str, Any]:
    reference, _ = parse_refs("list_tags", body, {})
    with service.mutations.opened(_bare(reference)) as opened:
        return {"tags": {name: _shown(tag) for name, tag in stored.list_tags(opened.root).items()}}


def create_tag(service: Service, body: bytes) -> dict[str, Any]:
    """Naming the same version once more changes nothing."""
    fields = {"tag": ref_name, "version": VERSION, "branch": branch_name}
    reference, values = parse_refs("create_tag", body, fields, ("tag",))
    name = values.pop("tag")
    with service.mutations.opened(_bare(reference)) as opened:
        target = _source(service, reference, values)
        try:
            tag_changes.create_tag(opened.root, name, target)
        except RefConflictError:
            tag = stored.read_tag(opened.root, name)
            if (tag.branch, tag.version) != (target.manifest.branch, target.manifest.version):
                raise
    return {"version": target.manifest.version}


def update_tag(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"tag": ref_name, "version": VERSION, "branch": branch_name}
    reference, values = parse_refs("update_tag", body, fields, ("tag",))
    name = values.pop("tag")
    with service.mutations.opened(_bare(reference)) as opened:
        target = _source(service, reference, values)
        tag_changes.update_tag(opened.root, name, target)
    return {"version": target.manifest.version}


def delete_tag(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_refs("delete_tag", body, {"tag": ref_name}, ("tag",))
    with service.mutations.opened(_bare(reference)) as opened:
        version = stored.read_tag(opened.root, values["tag"]).version
        tag_changes.delete_tag(opened.root, values["tag"])
    return {"version": version}


def list_branches(service: Service, body: bytes) -> dict[str, Any]:
    reference, _ = parse_refs("list_branches", body, {})
    with service.mutations.opened(_bare(reference)) as opened:
        branches = stored.list_branches(opened.root)
    return {"branches": {name: _shown(branch) for name, branch in branches.items()}}


def create_branch(service: Service, body: bytes) -> dict[str, Any]:
    fields = {"branch": branch_name, "version": VERSION, "tag": ref_name}
    reference, values = parse_refs("create_branch", body, fields, ("branch",))
    name = values.pop("branch")
    with service.mutations.opened(_bare(reference)) as opened:
        made = branch_changes.create_branch(opened.root, name, _source(service, reference, values))
    return {"version": made.manifest.version}


def delete_branch(service: Service, body: bytes) -> dict[str, Any]:
    reference, values = parse_refs("delete_branch", body, {"branch": branch_name}, ("branch",))
    with service.mutations.opened(_bare(reference)) as opened:
        version = opened.snapshot.manifest.version
        branch_changes.delete_branch(opened.root, values["branch"])
    return {"version": version}


def _bare(reference: DatasetReference) -> DatasetReference:
    return DatasetReference(reference.name)


def _source(service: Service, reference: DatasetReference, chosen: dict[str, Any]) -> Snapshot:
    """Return the version that the name ends in, or that fields say."""
    if chosen and reference != _bare(reference):
        raise InvalidInputError(f"dataset {reference.name}: its name and other fields both give a version")
    return service.open(replace(reference, **chosen))


def _shown(ref: stored.Tag | stored.Branch) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in asdict(ref).items()
    }
