"""The container image and its surroundings: Containerfile, OCI archive, compose file, manifests."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from llmserve.cli.parser import parse
from llmserve.server.settings.variables import VARIABLES
from oci import read_settings, write_archive
from serving import serve_in_process
from serving.exposition import scrape
from toolchain import ROOT

CONTAINERFILE = (ROOT / "Containerfile").read_text()
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
RESOURCES = {
    path.stem: yaml.safe_load(path.read_text()) for path in MANIFESTS if path.stem != "kustomization"
}


def test_settings_of_the_image() -> None:
    settings = read_settings(CONTAINERFILE)
    assert settings["Entrypoint"] == ["python3", "-m", "llmserve"]
    assert settings["Cmd"] == ["serve"]
    assert settings["ExposedPorts"] == {"8082/tcp": {}}
    assert "MODELS_DIR=/models" in settings["Env"]
    assert settings["Labels"]["org.opencontainers.image.title"] == "llmserve"
    user, group = settings["User"].split(":")
    assert int(user) > 0 and int(group) > 0
    assert settings["Healthcheck"]["Interval"] == 10 * 10**9
    assert settings["Healthcheck"]["Retries"] == 3
    compile(settings["Healthcheck"]["Test"][-1], "health check", "exec")


def test_only_the_last_stage_counts() -> None:
    settings = read_settings('FROM a AS b\nENV X=1\nUSER 5\nFROM c\nENV Y="2 3" \\\n    Z=4\nCMD ["d"]\n')
    assert settings == {"Env": ["Y=2 3", "Z=4"], "Cmd": ["d"]}


def test_an_archive_holds_what_its_index_says(tmp_path: Path) -> None:
    root = tmp_path / "root.tar"
    with tarfile.open(root, "w") as made:
        made.addfile(tarfile.TarInfo("etc/hostname"), io.BytesIO())
    first, second = tmp_path / "first.tar", tmp_path / "second.tar"
    for target in (first, second):
        write_archive(target, root, {"User": "1:1"}, "name:1")
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.tar", "root.tar", "second.tar"]
    with tarfile.open(first) as archive:

        def content(name: str) -> bytes:
            found = archive.extractfile(name)
            assert found is not None
            return found.read()

        def blob(descriptor: dict[str, Any]) -> bytes:
            found = content(f"blobs/{descriptor['digest'].replace(':', '/')}")
            assert len(found) == descriptor["size"]
            assert f"sha256:{hashlib.sha256(found).hexdigest()}" == descriptor["digest"]
            return found

        assert json.loads(content("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        [entry] = json.loads(content("index.json"))["manifests"]
        manifest = json.loads(blob(entry))
        config = json.loads(blob(manifest["config"]))
        assert config["config"] == {"User": "1:1"}
        [layer] = manifest["layers"]
        with tarfile.open(fileobj=io.BytesIO(blob(layer))) as unpacked:
            assert unpacked.getnames() == ["etc/hostname"]
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(root.read_bytes()).hexdigest()}"]


@pytest.mark.parametrize("name", RESOURCES)
def test_manifests_follow_the_schemas_of_kubernetes(name: str) -> None:
    kubernetes_validate.validate(RESOURCES[name], "1.31", strict=True)


def test_a_wrong_manifest_is_found() -> None:
    wrong = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "service.yaml").read_text())
    wrong["spec"]["ports"][0]["prot"] = 80
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)


def test_every_manifest_is_applied() -> None:
    kustomization = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "kustomization.yaml").read_text())
    assert sorted(kustomization["resources"]) == sorted(f"{name}.yaml" for name in RESOURCES)


def _pod() -> dict[str, Any]:
    pod: dict[str, Any] = RESOURCES["deployment"]["spec"]["template"]["spec"]
    return pod


def test_the_grace_of_a_pod_covers_that_of_the_server() -> None:
    environment = {entry["name"]: entry.get("value") for entry in _pod()["containers"][0]["env"]}
    grace = int(environment["LLMSERVE_PRESTOP_S"]) + int(environment["LLMSERVE_GRACE_S"])
    assert _pod()["terminationGracePeriodSeconds"] > grace


def test_pods_are_confined() -> None:
    pod = _pod()
    assert pod["securityContext"]["runAsNonRoot"]
    assert read_settings(CONTAINERFILE)["User"].startswith(f"{pod['securityContext']['runAsUser']}:")
    for container in (*pod["containers"], *pod["initContainers"]):
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_every_variable_is_a_setting() -> None:
    known = {variable.env for variable in VARIABLES}
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["llmserve"]
    named = set(compose["environment"]) | {entry["name"] for entry in _pod()["containers"][0]["env"]}
    named |= {pair.partition("=")[0] for pair in read_settings(CONTAINERFILE)["Env"]}
    assert {name for name in named if re.match("LLMSERVE_|MODELS_", name)} <= known


KSERVE = yaml.safe_load((ROOT / "deploy" / "kserve" / "runtime.yaml").read_text())
POOL = {path.stem: yaml.safe_load(path.read_text()) for path in ROOT.glob("deploy/kubernetes/pool/*.yaml")}


def test_a_runtime_of_kserve_is_a_pod_that_kubernetes_takes() -> None:
    spec = KSERVE["spec"]
    pod = {"containers": spec["containers"], "volumes": spec["volumes"]}
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod}, "1.31", strict=True
    )
    [container] = spec["containers"]
    assert container["name"] == "kserve-container"  # the name by which KServe finds it
    arguments = parse([argument.replace("{{.Name}}", "name") for argument in container["args"]])
    assert (arguments.path, arguments.port, arguments.served_model_name) == ("/mnt/models", "8080", "name")
    assert {entry["name"] for entry in container["env"]} <= {variable.env for variable in VARIABLES}


def test_the_pool_selects_the_pods_of_the_deployment() -> None:
    template = RESOURCES["deployment"]["spec"]["template"]
    pool = POOL["inferencepool"]["spec"]
    assert pool["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    ports = [port["containerPort"] for port in template["spec"]["containers"][0]["ports"]]
    assert [port["number"] for port in pool["targetPorts"]] == ports


def test_the_picker_and_the_scaler_read_metrics_that_a_scrape_has(tmp_path: Path) -> None:
    with serve_in_process(tmp_path) as server:
        scraped = scrape(server.port)
    plugins = {plugin["type"]: plugin.get("parameters") for plugin in POOL["picker"]["plugins"]}
    [engine] = plugins["core-metrics-extractor"]["engineConfigs"]
    for field in ("queuedRequestsSpec", "runningRequestsSpec", "kvUsageSpec"):
        # Without time stamps the picker takes the first sample of a family.
        assert scraped.first(engine[field]) == ({}, 0)
    assert engine["cacheInfoSpec"] in scraped.families
    [trigger] = POOL["keda"]["spec"]["triggers"]
    assert engine["queuedRequestsSpec"] in trigger["metadata"]["query"]
    [profile] = POOL["picker"]["schedulingProfiles"]
    assert {plugin["pluginRef"] for plugin in profile["plugins"]} <= set(plugins)
