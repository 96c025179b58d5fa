"""The monitoring files work with a real promtool, and use only metrics that a real server has."""

import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import octostore
from octostore.server.metrics import FAMILIES
from tests.support.documents import Machine, blocks_of, follow, replaced
from tests.support.processes import PATIENCE_SECONDS, ROOT, until
from tests.support.server import ServerProcess

PAGE = ROOT / "docs" / "how-to" / "monitoring.md"
FOLDER = ROOT / "examples" / "monitoring"
TOKEN_FILE = "/etc/prometheus/octostore.token"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
PANELS = DASHBOARD["panels"]
SUFFIXES = ("_bucket", "_count", "_sum")


def yaml(text: str) -> Any:
    return importlib.import_module("yaml").safe_load(text)


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def expressions() -> list[str]:
    """Return every query of the dashboard."""
    return [target["expr"] for panel in PANELS for target in panel["targets"]]


def promtool(*arguments: str, folder: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    run = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every metric of a real server, with its type, read with a token that the page's own command creates."""
    folder = tmp_path_factory.mktemp("monitoring") / "machine"
    with Machine(folder) as machine, ServerProcess(folder / ".local/share/octostore") as server:
        machine.env["OCTOSTORE_URL"] = server.url
        follow(blocks_of(PAGE), machine)
        token = (folder / "octostore.token").read_text(encoding="utf-8").strip()
        server.post("/jobs", {"kind": "review", "queue": "reviews"})
        page = server.get("/metrics", token=token).body.decode()
        assert 'octostore_queue_depth{queue="reviews"} 1.0' in page
        return dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))


# With promtool


def test_the_alerts_fire_when_they_should() -> None:
    promtool("check", "rules", "alerts.yml", folder=FOLDER)
    promtool("test", "rules", "alerts_test.yml", folder=FOLDER)


def test_prometheus_accepts_the_configuration(tmp_path: Path) -> None:
    token = tmp_path / "octostore.token"
    token.touch()
    text = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
    (tmp_path / "prometheus.yml").write_text(replaced(text, {TOKEN_FILE: token}), encoding="utf-8")
    shutil.copy(FOLDER / "alerts.yml", tmp_path)
    promtool("check", "config", "prometheus.yml", folder=tmp_path)


def test_prometheus_accepts_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expression.replace("$__rate_interval", "5m").replace("$job", "octostore")}
        for number, expression in enumerate(expressions())
    ]
    group = {"groups": [{"name": "dashboard", "rules": rules}]}
    (tmp_path / "rules.yml").write_text(json.dumps(group), encoding="utf-8")  # JSON is YAML
    promtool("check", "rules", "rules.yml", folder=tmp_path)


# Against a server


def test_the_reference_lists_every_metric_with_its_type(families: dict[str, str]) -> None:
    assert {family.full_name: family.kind for family in FAMILIES.values()} == families


@pytest.mark.parametrize(
    "path",
    [PAGE, *(FOLDER / name for name in ("alerts.yml", "alerts_test.yml", "dashboard.json"))],
    ids=lambda path: path.name,
)
def test_only_metrics_that_exist_are_used(path: Path, families: dict[str, str]) -> None:
    histograms = {f"{name}{end}" for name, kind in families.items() if kind == "histogram" for end in SUFFIXES}
    plain = {name for name, kind in families.items() if kind != "histogram"}
    used = set(re.findall(r"\boctostore_\w+", path.read_text(encoding="utf-8")))
    assert used
    assert used <= (set(families) if path == PAGE else plain | histograms)


def test_metrics_from_the_log_include_programs_that_use_the_store_directly(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, octostore.connect(f"sqlite:///{tmp_path}/octostore.db") as store:
        store.claim_job("job", owner="somebody else")
        until(lambda: 'octostore_events_total{type="claimed"} 1.0' in server.get("/metrics").body.decode())
        assert "octostore_claims_total{" not in server.get("/metrics").body.decode()


# Together


def test_every_alert_is_explained_and_tested() -> None:
    names = [rule["alert"] for rule in alerts()]
    explained = re.findall(r"^### (OctoStore\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert explained == names
    cases = yaml((FOLDER / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {check["alertname"] for case in cases for check in case["alert_rule_test"] if check["exp_alerts"]}
    assert fired == set(names)
    assert {rule["labels"]["severity"] for rule in alerts()} == {"page", "ticket"}


def test_the_page_shows_the_scrape_configuration_of_the_file() -> None:
    (shown,) = blocks_of(PAGE, "yaml")
    assert (FOLDER / "prometheus.yml").read_text(encoding="utf-8").endswith(shown.text)


def test_the_dashboard_has_what_grafana_needs() -> None:
    assert DASHBOARD["schemaVersion"] >= 39, "Grafana 11"
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "job"}
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["title"]
        assert panel["description"]
        for target in panel["targets"]:
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert 'job="$job"' in target["expr"]


def test_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for grid in (panel["gridPos"] for panel in PANELS)
        for x in range(grid["x"], grid["x"] + grid["w"])
        for y in range(grid["y"], grid["y"] + grid["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
