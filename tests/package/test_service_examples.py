"""What runs the server as a service: units, a compose file and manifests agree with the product.

No engine runs here. The commands and addresses that the files name are tried on the product itself.
"""

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner

from abilities import Abilities, Settings
from abilities.cli.main import main
from abilities.server.app import create_app
from tests.support.surfaces import environment

SERVICE = Path(__file__).parents[2] / "examples" / "service"
SCHEMAS = Path(__file__).parent / "schemas"
UNITS = ("abilities@.service", "abilities-backup.service", "abilities-backup.timer")
PROGRAM = "/opt/abilities/bin/abilities"
PORT = 8642

COMPOSE = yaml.safe_load((SERVICE / "compose.yaml").read_text())
DEPLOYMENT, SERVICE_OBJECT = yaml.safe_load_all(
    (SERVICE / "kubernetes" / "abilities.yaml").read_text()
)
RECIPE = (SERVICE / "Containerfile").read_text()


def find_command(unit: str) -> list[str]:
    """Return the arguments that a unit gives to the program."""
    line = re.search(r"^ExecStart=(.+)$", (SERVICE / unit).read_text(), re.MULTILINE)
    assert line is not None

    program, *arguments = shlex.split(line[1])
    assert program == PROGRAM
    return arguments


def read_container() -> dict[str, Any]:
    container: dict[str, Any] = DEPLOYMENT["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = (SERVICE / unit).read_text().replace(PROGRAM, sys.executable)
        (tmp_path / unit.replace("@", "@8642")).write_text(text)

    units = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_the_timer_starts_the_backup_that_the_command_makes(settings: Settings) -> None:
    asyncio.run(store_one(settings))
    command, folder, *options = find_command("abilities-backup.service")
    unit = (SERVICE / "abilities-backup.service").read_text()
    backups = settings.agent_dir / "backups"
    backups.mkdir()

    arguments = [command, str(backups), *options]
    done = CliRunner().invoke(main, arguments, env=environment(settings))

    assert done.exit_code == 0, done.output
    assert len(list(backups.glob("memories-*.db"))) == 1
    state = re.search(r"^StateDirectory=(.+)$", unit, re.MULTILINE)
    assert state is not None and folder.removeprefix("/var/lib/") in state[1].split()


async def store_one(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        await abilities.call("store_memory", {"type": "core", "content": "x", "key": "k"})


def test_the_compose_file_fits_the_published_schema() -> None:
    schema = json.loads((SCHEMAS / "compose-spec.json").read_text())
    validator = jsonschema_rs.validator_for(schema)

    validator.validate(COMPOSE)
    with pytest.raises(jsonschema_rs.ValidationError):
        validator.validate({**COMPOSE, "services": {"a": {"prots": []}}})


def test_the_compose_file_agrees_with_the_image() -> None:
    services = COMPOSE["services"]
    command, folder, *options = services["backup"]["command"]
    recipe = services["abilities"]["build"]

    assert services["abilities"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert f"EXPOSE {PORT}\n" in RECIPE
    assert (
        SERVICE / recipe["context"] / recipe["dockerfile"]
    ).resolve() == SERVICE / "Containerfile"
    assert (command, options) == ("backup", ["--keep", "14"])
    assert f" {folder} " in re.findall(r"install -d .+", RECIPE)[0]
    assert {volume.split(":")[0] for volume in services["backup"]["volumes"]} == {"data"}


def test_the_manifests_agree_with_the_image_and_the_settings() -> None:
    container, pod = read_container(), DEPLOYMENT["spec"]["template"]["spec"]
    names = {variable["name"].removeprefix("ABILITIES_").lower() for variable in container["env"]}
    values = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]

    assert names <= Settings.model_fields.keys()
    assert [port["containerPort"] for port in container["ports"]] == [PORT]
    assert f"USER {pod['securityContext']['runAsUser']}\n" in RECIPE
    assert container["args"] == json.loads(RECIPE.rpartition("CMD ")[2])
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    folders = [values["ABILITIES_AGENT_DIR"], values["ABILITIES_WORKSPACE_DIR"]]
    assert {*folders, str(Path(values["ABILITIES_TOKENS_FILE"]).parent)} <= mounts.keys()
    assert DEPLOYMENT["spec"]["selector"]["matchLabels"] == labels
    assert SERVICE_OBJECT["spec"]["selector"] == labels
    assert SERVICE_OBJECT["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


async def test_the_probes_of_the_manifests_are_answered(roots: Settings, tmp_path: Path) -> None:
    """Also with tokens behind a link that may not be written to, as Kubernetes mounts a secret."""
    kept = tmp_path / "..data" / "tokens.json"
    kept.parent.mkdir()
    tokens = tmp_path / "tokens.json"
    made = await asyncio.to_thread(
        CliRunner().invoke,
        main,
        ["token", "add", "--scope", "read"],
        env=environment(roots.model_copy(update={"tokens_file": kept})),
    )
    assert made.exit_code == 0, made.output
    kept.chmod(0o440)
    tokens.symlink_to("..data/tokens.json")
    token = re.search(r"abl_\S+", made.output)
    assert token is not None

    container = read_container()
    values = {item["name"]: item.get("value") for item in container["env"]}
    hosts = tuple(values["ABILITIES_ALLOWED_HOSTS"].split(","))
    settings = roots.model_copy(update={"tokens_file": tokens, "allowed_hosts": hosts})

    async with Abilities.open(settings) as abilities:
        transport = httpx.ASGITransport(app=create_app(abilities, address="0.0.0.0"))
        async with httpx.AsyncClient(transport=transport, base_url="http://10.0.0.7") as client:
            for probe in ("livenessProbe", "readinessProbe"):
                get = container[probe]["httpGet"]
                headers = {item["name"]: item["value"] for item in get["httpHeaders"]}
                assert (await client.get(get["path"], headers=headers)).status_code == 200
            headers = {"Host": hosts[0], "Authorization": f"Bearer {token[0]}"}
            answer = await client.post("/api/abilities/file_list", headers=headers, json={})

    assert answer.status_code == 200, answer.text
