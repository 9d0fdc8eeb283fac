"""The files of docker/ that deploy servers: they name settings, ports and files that exist, and agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from flight_server.configuration.values import parse_bytes
from flight_server.settings import Settings
from support.runs.leftovers import REPOSITORY

DOCKER = REPOSITORY / "docker"
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
SERVERS = {name: each for name, each in COMPOSE["services"].items() if name.startswith("server-")}
KUBERNETES = DOCKER / "kubernetes"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
PORTS = {"port": 8815, "http_port": 9815, "health_port": 9816}
SETTINGS_FILES = sorted(DOCKER.rglob("settings.toml"))
VARIABLES = {f"LANCE_FLIGHT_{field.name.upper()}" for field in fields(Settings)} | {"LANCE_FLIGHT_SETTINGS"}
GIB = 1 << 30


@cache
def objects(name: str = "*.yaml") -> list[dict[str, Any]]:
    """Return the Kubernetes objects of the files, without the kustomization."""
    files = sorted(KUBERNETES.glob(name))
    found = [each for path in files for each in yaml.safe_load_all(path.read_text(encoding="utf-8"))]
    return [each for each in found if each["kind"] != "Kustomization"]


def one(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in objects() if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def pod() -> dict[str, Any]:
    return one("StatefulSet", "lance")["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def settings_of(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make_secrets.sh` fills."""
    folder = tmp_path_factory.mktemp("secrets")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["sh", DOCKER / "compose" / "make_secrets.sh", folder],
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": programs},
    )
    return folder


@pytest.mark.parametrize(
    "path", sorted(DOCKER.rglob("*.yaml")) + sorted(DOCKER.rglob("*.yml")), ids=lambda p: p.name
)
def test_every_file_is_yaml(path: Path) -> None:
    assert all(yaml.safe_load_all(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("number", range(len(objects())), ids=lambda k: objects()[k]["kind"])
def test_every_object_of_kubernetes_has_the_schema_of_its_kind(number: int) -> None:
    kubernetes_validate.validate(objects()[number], kubernetes_validate.latest_version(), strict=True)


def test_the_kustomization_names_every_file() -> None:
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files
    (generator,) = kustomization["configMapGenerator"]
    assert generator["files"] == ["settings.toml"]
    names = {volume["configMap"]["name"] for volume in pod()["volumes"] if "configMap" in volume}
    assert names == {generator["name"]}
    assert kustomization["namespace"] == one("Namespace", "lance")["metadata"]["name"]


@pytest.mark.parametrize("path", SETTINGS_FILES, ids=lambda path: path.parent.name)
def test_a_server_takes_every_settings_file(path: Path, secrets: Path, tmp_path: Path) -> None:
    """With the secrets of `make_secrets.sh` at the places that the file names."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"/run/secrets/(?:lance/|tls/)?", f"{secrets}/", text).replace("ca.crt", "tls.crt")
    copy = tmp_path / "settings.toml"
    copy.write_text(text)
    settings = Settings.resolve("s3://lance/served", {"settings": str(copy)}, {})
    assert settings.accounts_file
    assert settings.signing_key
    assert settings.storage_options
    assert settings.host == "0.0.0.0"
    assert settings.insecure != bool(settings.tls_cert)


@pytest.mark.parametrize("path", SETTINGS_FILES, ids=lambda path: path.parent.name)
def test_ports_are_the_same_everywhere(path: Path) -> None:
    given = settings_of(path)
    assert {name: given[name] for name in PORTS if name in given}.items() <= PORTS.items()
    assert {"port", "http_port"} <= given.keys()


def test_the_image_opens_the_ports() -> None:
    (exposed,) = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    assert exposed.split() == [str(PORTS["port"]), str(PORTS["http_port"])]
    assert f"LANCE_FLIGHT_HTTP_PORT={PORTS['http_port']}" in DOCKERFILE


@pytest.mark.parametrize(
    "path", [DOCKER / "Dockerfile", DOCKER / "compose.yaml", KUBERNETES / "servers.yaml"]
)
def test_every_variable_is_a_setting_or_one_of_a_client(path: Path) -> None:
    named = set(re.findall(r"\bLANCE_FLIGHT_[A-Z_]+", path.read_text(encoding="utf-8")))
    clients = {"LANCE_FLIGHT_TOKEN_FILE", "LANCE_FLIGHT_TLS_ROOT_CERTS"} if path.suffix == ".yaml" else set()
    assert named
    assert named <= VARIABLES | clients


def test_services_of_compose_name_files_and_services_that_exist() -> None:
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DOCKER / source).exists(), (name, source)
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"]), name
        assert set(service["networks"]) <= set(COMPOSE["networks"]), name
        assert set(service.get("depends_on", ())) <= set(COMPOSE["services"]), name
        if "build" in service:
            assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_compose_finds_the_secrets(secrets: Path) -> None:
    for name, secret in COMPOSE["secrets"].items():
        assert secret["file"] == f"./compose/secrets/{name}"
        assert (secrets / name).is_file()
    given = settings_of(DOCKER / "compose" / "settings.toml")
    used = {Path(value).name for value in given.values() if str(value).startswith("/run/secrets/")}
    for service in SERVERS.values():
        assert used == set(service["secrets"])


def test_compose_has_three_servers_without_rights() -> None:
    given = settings_of(DOCKER / "compose" / "settings.toml")
    assert len(SERVERS) == 3
    for service in SERVERS.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert int(service["stop_grace_period"].removesuffix("s")) > given["drain_grace"]
        assert parse_bytes(given["memory_limit"]) <= parse_bytes(service["mem_limit"] + "ib") / 2
        assert "ports" not in service
        assert COMPOSE["networks"]["inside"]["internal"]
        assert service["networks"] == ["inside"]


def test_the_proxy_and_prometheus_name_every_server() -> None:
    configuration = (DOCKER / "compose" / "nginx.conf").read_text(encoding="utf-8")
    assert re.findall(r"server (server-\d):(\d+);", configuration) == [(name, "8815") for name in SERVERS]
    assert COMPOSE["services"]["proxy"]["ports"] == ["8815:8815"]
    assert re.findall(r"^ *listen (\d+) ", configuration, re.MULTILINE) == ["8815"]
    scraped = yaml.safe_load((DOCKER / "compose" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = scraped["scrape_configs"]
    (group,) = job["static_configs"]
    assert group["targets"] == [f"{name}:{PORTS['http_port']}" for name in SERVERS]


def test_the_pods_of_kubernetes_end_in_order() -> None:
    """The pause before the signal and the grace of the server fit into the grace of the pod."""
    (container,) = pod()["containers"]
    _, pause = container["lifecycle"]["preStop"]["exec"]["command"]
    given = settings_of(KUBERNETES / "settings.toml")
    assert pod()["terminationGracePeriodSeconds"] > int(pause) + given["drain_grace"]


def test_the_probes_of_kubernetes_ask_ports_that_the_server_has() -> None:
    (container,) = pod()["containers"]
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert set(named.values()) == set(PORTS.values())
    assert container["readinessProbe"]["grpc"]["port"] == PORTS["health_port"]
    assert container["startupProbe"]["grpc"]["port"] == PORTS["health_port"]
    assert named[container["livenessProbe"]["httpGet"]["port"]] == PORTS["http_port"]
    assert container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    for name in ("lance", "lance-servers"):
        for port in one("Service", name)["spec"]["ports"]:
            assert named[port["targetPort"]] == port["port"]
    allowed = [
        port["port"] for rule in one("NetworkPolicy", "lance")["spec"]["ingress"] for port in rule["ports"]
    ]
    assert allowed == [PORTS["port"], PORTS["http_port"]]
    annotations = one("StatefulSet", "lance")["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(PORTS["http_port"])


def test_the_pods_of_kubernetes_have_no_rights_and_enough_memory() -> None:
    (container,) = pod()["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    user = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert [(str(pod()["securityContext"]["runAsUser"]), str(pod()["securityContext"]["runAsGroup"]))] == user
    limit = parse_bytes(container["resources"]["limits"]["memory"].replace("Gi", "GiB"))
    assert parse_bytes(settings_of(KUBERNETES / "settings.toml")["memory_limit"]) <= limit / 2


def test_the_pods_of_kubernetes_find_the_files_of_the_settings() -> None:
    (container,) = pod()["containers"]
    volumes = {volume["name"] for volume in pod()["volumes"]}
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    given = settings_of(KUBERNETES / "settings.toml")
    paths = [value for value in given.values() if str(value).startswith("/")]
    assert all(any(path.startswith(f"{mount}/") for mount in mounts) for path in paths)


def test_endpoints_and_peers_have_the_names_of_the_pods() -> None:
    """The stateful set, its service and its replicas make the names."""
    servers = one("StatefulSet", "lance")
    (container,) = pod()["containers"]
    advertised = {each["name"]: each.get("value") for each in container["env"]}["LANCE_FLIGHT_ADVERTISE"]
    service = servers["spec"]["serviceName"]
    assert one("Service", service)["spec"]["clusterIP"] == "None"
    assert f".{service}.lance.svc." in advertised
    pods = [f"lance-{k}" for k in range(servers["spec"]["replicas"])]
    expected = [advertised.replace("$(POD_NAME)", each) for each in pods]
    assert settings_of(KUBERNETES / "settings.toml")["peers"] == expected


def test_a_drained_node_takes_one_server() -> None:
    labels = one("StatefulSet", "lance")["spec"]["template"]["metadata"]["labels"]
    budget = one("PodDisruptionBudget", "lance")["spec"]
    assert budget["maxUnavailable"] == 1
    for selector in (budget["selector"]["matchLabels"], one("Service", "lance")["spec"]["selector"]):
        assert selector == labels
