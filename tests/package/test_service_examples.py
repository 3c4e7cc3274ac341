"""What runs the server as a service: units, a compose file and manifests agree with the product.

No engine runs here. The commands and addresses that the files name are tried on the product itself.
"""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import jsonschema_rs
import pytest
import yaml

from abilities import Abilities, Settings
from abilities.helpers.tokens import TokenFile
from abilities.server.app import create_app
from tests.support.sources import ROOT
from tests.support.surfaces import run

SERVICE = ROOT / "examples" / "service"
SCHEMAS = Path(__file__).parent / "schemas"
UNITS = ("abilities@.service", "abilities-backup.service", "abilities-backup.timer")
PROGRAM = "/opt/abilities/bin/abilities"
PORT = 8642

COMPOSE = yaml.safe_load((SERVICE / "compose.yaml").read_text())
DEPLOYMENT, SERVICE_OBJECT = yaml.safe_load_all(
    (SERVICE / "kubernetes" / "abilities.yaml").read_text()
)
POD = DEPLOYMENT["spec"]["template"]["spec"]
CONTAINER = POD["containers"][0]
RECIPE = (SERVICE / "Containerfile").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = (SERVICE / unit).read_text().replace(PROGRAM, sys.executable)
        (tmp_path / unit.replace("@", "@8642")).write_text(text)

    units = [str(path) for path in sorted(tmp_path.iterdir())]
    command = ["systemd-analyze", "verify", "--man=no", *units]
    done = subprocess.run(command, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


async def test_the_backup_that_the_timer_and_the_compose_file_start_is_made(
    roots: Settings, tmp_path: Path
) -> None:
    async with Abilities.open(roots) as abilities:
        await abilities.call("store_memory", {"type": "core", "content": "x", "key": "k"})
    unit = (SERVICE / "abilities-backup.service").read_text()
    program, *started = re.findall(r"^ExecStart=(.+)$", unit, re.M)[0].split()
    composed = COMPOSE["services"]["backup"]["command"]

    for number, (name, _, *options) in enumerate((started, composed)):
        folder = tmp_path / f"backups-{number}"
        folder.mkdir()
        done = await asyncio.to_thread(run, roots, name, str(folder), *options)
        assert done.exit_code == 0, done.output
        assert len(list(folder.glob("memories-*.db"))) == 1

    assert program == PROGRAM
    assert started[1] == f"/var/lib/{re.findall('^StateDirectory=.* (.+)$', unit, re.M)[0]}"
    assert f" {composed[1]} " in re.findall(r"install -d .+", RECIPE)[0]


def test_the_compose_file_fits_the_published_schema_and_agrees_with_the_image() -> None:
    schema = json.loads((SCHEMAS / "compose-spec.json").read_text())
    validator = jsonschema_rs.validator_for(schema)
    validator.validate(COMPOSE)
    with pytest.raises(jsonschema_rs.ValidationError):
        validator.validate({**COMPOSE, "services": {"a": {"prots": []}}})

    services = COMPOSE["services"]
    build = services["abilities"]["build"]
    assert services["abilities"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"EXPOSE {PORT}\n" in RECIPE
    assert (SERVICE / build["context"] / build["dockerfile"]).samefile(SERVICE / "Containerfile")
    assert {volume.split(":")[0] for volume in services["backup"]["volumes"]} == {"data"}


def test_the_manifests_agree_with_the_image_and_the_settings() -> None:
    values = {item["name"]: item.get("value") for item in CONTAINER["env"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTAINER["volumeMounts"]}
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    service = SERVICE_OBJECT["spec"]

    settings = {name.removeprefix("ABILITIES_").lower() for name in values}
    assert settings <= Settings.model_fields.keys()
    assert [port["containerPort"] for port in CONTAINER["ports"]] == [PORT]
    assert f"USER {POD['securityContext']['runAsUser']}\n" in RECIPE
    assert CONTAINER["args"] == json.loads(RECIPE.rpartition("CMD ")[2])
    assert set(mounts.values()) == {volume["name"] for volume in POD["volumes"]}
    folders = [values["ABILITIES_AGENT_DIR"], values["ABILITIES_WORKSPACE_DIR"]]
    assert {*folders, str(Path(values["ABILITIES_TOKENS_FILE"]).parent)} <= mounts.keys()
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == service["selector"] == labels
    assert service["ports"][0]["targetPort"] == CONTAINER["ports"][0]["name"]


async def test_the_probes_of_the_manifests_are_answered(roots: Settings, tmp_path: Path) -> None:
    """Also with tokens behind a link that may not be written to, as Kubernetes mounts a secret."""
    kept = tmp_path / "..data" / "tokens.json"
    kept.parent.mkdir()
    tokens = tmp_path / "tokens.json"
    _, token = TokenFile(kept).add("default", "read")
    kept.chmod(0o440)
    tokens.symlink_to("..data/tokens.json")
    values = {item["name"]: item.get("value") for item in CONTAINER["env"]}
    hosts = tuple(values["ABILITIES_ALLOWED_HOSTS"].split(","))
    settings = roots.model_copy(update={"tokens_file": tokens, "allowed_hosts": hosts})

    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities, address="0.0.0.0"))
        async with httpx.AsyncClient(transport=transport, base_url="http://10.0.0.7") as client:
            for probe in ("livenessProbe", "readinessProbe"):
                get = CONTAINER[probe]["httpGet"]
                headers = {item["name"]: item["value"] for item in get["httpHeaders"]}
                assert (await client.get(get["path"], headers=headers)).status_code == 200
            headers = {"Host": hosts[0], "Authorization": f"Bearer {token}"}
            answer = await client.post("/api/abilities/file_list", headers=headers, json={})

    assert answer.status_code == 200, answer.text
