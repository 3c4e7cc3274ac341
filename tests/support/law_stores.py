"""The stores that the law is tried on, opened anew for each trial."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

from abilities import Settings
from abilities.declarations.values import JsonObject
from tests.support import postgres
from tests.support.law_places import LocalApplication, Place, RemoteApplication


class Stores:
    """Opens new stores of some kinds for each trial, and removes those of the one before."""

    def __init__(self, folder: Path, kinds: Sequence[str], server: str | None) -> None:
        self._folder = folder
        self._kinds = kinds
        self._server = server
        self._applications = ExitStack()
        self._databases = ExitStack()
        self._pairs = [self._make_applications() for _ in kinds]

    def open(self, settings: JsonObject) -> list[Place]:
        self._remove()
        places: list[Place] = []

        for kind, pair in zip(self._kinds, self._pairs, strict=True):
            folder = self._folder / uuid4().hex
            folder.mkdir()
            url = f"sqlite:///{folder}/memory.db"
            if kind == "postgres":
                assert self._server is not None
                url = self._databases.enter_context(postgres.database(self._server))
            chosen = Settings(
                agent_dir=self._folder, workspace_dir=self._folder, store_url=url, **settings
            )
            places.append(Place(chosen, folder, pair))

        return places

    def end(self) -> None:
        self._remove()
        self._applications.close()

    def _make_applications(self) -> tuple[LocalApplication, RemoteApplication]:
        local = LocalApplication()
        self._applications.callback(local.end)
        return local, self._applications.enter_context(RemoteApplication.start())

    def _remove(self) -> None:
        for local, remote in self._pairs:
            local.close()
            remote.close()
        self._databases.close()
        for folder in self._folder.iterdir():
            shutil.rmtree(folder)
