"""The Helm chart, rendered by Helm, against the manifests in `deploy/kubernetes`."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from clients.environment import client_python
from llmserve import __version__
from llmserve.server.settings.variables import VARIABLES
from toolchain import ROOT

CHART = ROOT / "deploy" / "helm" / "llmserve"
MANIFESTS = ROOT / "deploy" / "kubernetes"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
CHECKS = Path(__file__).parent / "clients" / "helm_checks.py"

NAME = "llmserve"
OF_THE_RELEASE = re.compile(r"helm\.sh/|app\.kubernetes\.io/(instance|version|managed-by)")
EVERYTHING: dict[str, Any] = {
    "model": {"source": "hf:ORG/REPO:Q4_K_M", "load": "smollm2"},
    "args": ["--max-sequences", "8"],
    "env": {"LLMSERVE_CONTEXT_LENGTH": "8k"},
    "extraEnv": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}],
    "apiKey": {"secret": "keys"},
    "models": {"existingClaim": "shared"},
    "imagePullSecrets": [{"name": "registry"}],
    "image": {"tag": "9.9"},
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "traces": {"endpoint": "http://collector:4318"},
    "kvEvents": {"enabled": True},
    "autoscaling": {"by": "keda"},
    "pool": {"enabled": True},
    "podLabels": {"llm-d.ai/engine-type": "llmserve"},
    "podAnnotations": {"a": "b"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
}

pytestmark = pytest.mark.clients


def ask_helm(values: dict[str, Any], release: str = NAME) -> dict[str, Any]:
    command = [client_python("helm"), str(CHECKS), str(CHART), release, json.dumps(values)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    said: dict[str, Any] = json.loads(made.stdout)
    return said


def render(values: dict[str, Any] | None = None, release: str = NAME) -> dict[str, Any]:
    """The objects by kind."""
    said = ask_helm(values or {}, release)
    assert said["lint"]["errors"] == []
    files = [text for name, text in said["files"].items() if name.endswith(".yaml")]
    objects = [made for text in files if (made := yaml.safe_load(text)) is not None]
    return {made["kind"]: made for made in objects}


@pytest.fixture(scope="module")
def plain() -> dict[str, Any]:
    return render()


@pytest.fixture(scope="module")
def full() -> dict[str, Any]:
    return render(EVERYTHING)


def manifest(name: str) -> Any:
    return yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())


def without_release(value: Any) -> Any:
    """An object without what tells one release from another."""
    if isinstance(value, dict):
        kept = {key: without_release(own) for key, own in value.items() if not OF_THE_RELEASE.match(key)}
        return {key: own for key, own in kept.items() if own != {}}
    return [without_release(own) for own in value] if isinstance(value, list) else value


def pod_of(objects: dict[str, Any]) -> Any:
    return objects["Deployment"]["spec"]["template"]["spec"]


def environment(objects: dict[str, Any]) -> dict[str, Any]:
    [container] = pod_of(objects)["containers"]
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def test_the_default_is_the_plain_manifests(plain: dict[str, Any]) -> None:
    assert plain.keys() == {"Deployment", "Service", "PersistentVolumeClaim"}
    image = f"{VALUES['image']['repository']}:{__version__}"
    deployment = manifest("deployment")
    # kustomize sets the image; the number of replicas and when an image is pulled are values.
    pod = deployment["spec"]["template"]["spec"]
    for container in (*pod["containers"], *pod["initContainers"]):
        container |= {"image": image, "imagePullPolicy": "IfNotPresent"}
    deployment["spec"]["replicas"] = 1
    assert without_release(plain["Deployment"]) == without_release(deployment)
    service = manifest("service")
    service["spec"]["type"] = "ClusterIP"
    assert without_release(plain["Service"]) == without_release(service)
    assert without_release(plain["PersistentVolumeClaim"]) == without_release(manifest("models"))


@pytest.mark.parametrize(
    ("values", "kind", "name"),
    [
        ({"autoscaling": {"by": "hpa"}}, "HorizontalPodAutoscaler", "autoscaler"),
        ({"autoscaling": {"by": "keda"}}, "ScaledObject", "pool/keda"),
        ({"pool": {"enabled": True}}, "InferencePool", "pool/inferencepool"),
    ],
)
def test_what_is_switched_on_is_as_in_the_plain_manifests(
    values: dict[str, Any], kind: str, name: str
) -> None:
    assert without_release(render(values)[kind]) == without_release(manifest(name))


def test_what_is_rendered_follows_the_schemas_of_kubernetes(
    plain: dict[str, Any], full: dict[str, Any]
) -> None:
    scaled = render({"autoscaling": {"by": "hpa"}})
    own = {"ScaledObject", "InferencePool", "ServiceMonitor"}
    for objects in (plain, full, scaled):
        for kind, made in objects.items():
            if kind not in own:
                kubernetes_validate.validate(made, "1.31", strict=True)
    assert own < full.keys()


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_pods_are_found_by_their_labels(full: dict[str, Any]) -> None:
    labels = full["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    assert full["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels
    assert full["Service"]["spec"]["selector"].items() <= labels
    assert full["InferencePool"]["spec"]["selector"]["matchLabels"].items() <= labels
    monitored = full["ServiceMonitor"]["spec"]["selector"]["matchLabels"].items()
    assert monitored <= full["Service"]["metadata"]["labels"].items()


def test_every_value_has_its_effect(full: dict[str, Any]) -> None:
    pod = pod_of(full)
    [container], [pull] = pod["containers"], pod["initContainers"]
    assert container["args"] == ["serve", "smollm2", "--max-sequences", "8"]
    assert pull["args"] == ["pull", "hf:ORG/REPO:Q4_K_M"]
    assert container["image"] == pull["image"] == f"{VALUES['image']['repository']}:9.9"
    assert "replicas" not in full["Deployment"]["spec"]
    assert "PersistentVolumeClaim" not in full
    assert {"name": "models", "persistentVolumeClaim": {"claimName": "shared"}} in pod["volumes"]
    shown = environment(full)
    assert shown["LLMSERVE_METRICS_OPEN"] == "true"
    assert shown["LLMSERVE_CONTEXT_LENGTH"] == "8k"
    assert shown["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert shown["LLMSERVE_KV_EVENTS"] == "tcp://*:5557"
    [key] = [entry for entry in container["env"] if entry["name"] == "LLMSERVE_API_KEY"]
    assert key["valueFrom"]["secretKeyRef"] == {"name": "keys", "key": "api-key", "optional": False}
    passed_on = ("imagePullSecrets", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")
    assert {name: pod[name] for name in passed_on} == {name: EVERYTHING[name] for name in passed_on}


def test_every_variable_is_a_setting(full: dict[str, Any]) -> None:
    named = {name for name in environment(full) if name.startswith("LLMSERVE_")}
    assert named <= {variable.env for variable in VARIABLES}


def test_the_grace_of_a_pod_covers_that_of_the_server() -> None:
    objects = render({"shutdown": {"prestopSeconds": 5, "graceSeconds": 100}})
    shown = environment(objects)
    assert (shown["LLMSERVE_PRESTOP_S"], shown["LLMSERVE_GRACE_S"]) == ("5", "100")
    assert pod_of(objects)["terminationGracePeriodSeconds"] > 105


def test_two_releases_have_names_of_their_own() -> None:
    objects = render(release="chat")
    assert objects["Service"]["metadata"]["name"] == "chat-llmserve"
    selector = objects["Service"]["spec"]["selector"]
    assert selector["app.kubernetes.io/instance"] == "chat"


@pytest.mark.parametrize(
    "values",
    [{"modell": {}}, {"replicas": "2"}, {"env": {"LLMSERVE_PORT": 1}}, {"autoscaling": {"by": "x"}}],
)
def test_wrong_values_are_refused(values: dict[str, Any]) -> None:
    assert next(iter(values)) in ask_helm(values)["error"]


def test_the_schema_has_every_value() -> None:
    def names(values: Any, schema: dict[str, Any]) -> None:
        if schema.get("additionalProperties") is False:
            assert values.keys() == schema["properties"].keys() - {"global"}
            for name, own in values.items():
                names(own, schema["properties"][name])

    names(VALUES, SCHEMA)
