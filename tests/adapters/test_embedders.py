"""The built-in embedders beside model2vec and fastembed, with a model that the test makes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from abilities import Abilities, Settings
from abilities.cli.doctor import diagnose

MEANINGS = ("car automobile vehicle", "doctor physician surgeon", "rain weather storm", "the red")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of a few words; those of one meaning have the same vector."""
    vocabulary = {"[UNK]": 0}
    vectors = [np.zeros(len(MEANINGS))]
    for place, words in enumerate(MEANINGS):
        for word in words.split():
            vocabulary[word] = len(vectors)
            vectors.append(np.eye(len(MEANINGS))[place])

    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    static = StaticModel(np.array(vectors, dtype=np.float32), tokenizer)
    static.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def roots(tmp_path: Path) -> Settings:
    for name in ("agent", "work"):
        (tmp_path / name).mkdir()

    return Settings(
        agent_dir=tmp_path / "agent",
        workspace_dir=tmp_path / "work",
        store_url=f"sqlite:///{tmp_path}/m.db",
    )


def choose(roots: Settings, embedder: str) -> Settings:
    return roots.model_copy(update={"embedder": embedder})


async def refuse(settings: Settings) -> str:
    """Return what is wrong with the embedder, which is the same at the start and from doctor."""
    with pytest.raises(ValueError) as caught:
        async with Abilities.open(settings):
            pass

    (diagnosis,) = [d for d in await diagnose(settings) if d.about == "embedder"]
    assert diagnosis.words == str(caught.value)
    return diagnosis.words


async def test_one_line_of_settings_finds_by_meaning(roots: Settings, model: Path) -> None:
    settings = choose(roots, f"model2vec:{model}")
    async with Abilities.open(settings) as abilities:
        for key, content in (("garage", "an automobile"), ("week", "rain")):
            memory = {"type": "core", "key": key, "content": content}
            await abilities.call("store_memory", memory)
        payload = await abilities.call("recall", {"queries": ["vehicle", "storm", "surgeon"]})

    found = [[m["key"] for m in record["memories"]] for record in payload["results"]]
    assert found == [["garage"], ["week"], []]
    (diagnosis,) = [d for d in await diagnose(settings) if d.about == "embedder"]
    assert diagnosis.words.startswith(f"model2vec:{model} answers; 2 memories got vectors in")


async def test_a_folder_that_is_not_there_is_an_error(roots: Settings, tmp_path: Path) -> None:
    for name in (f"{tmp_path}/none", "./none", "~/none", "none"):
        words = await refuse(choose(roots, f"model2vec:{name}"))
        assert words == f"embedder 'model2vec:{name}': there is no such folder"


async def test_a_folder_without_a_model_is_not_embedded_with(roots: Settings) -> None:
    settings = choose(roots, f"model2vec:{roots.agent_dir}")
    async with Abilities.open(settings) as abilities:
        await abilities.call("recall", {"queries": ["a"]})

    (diagnosis,) = [d for d in await diagnose(settings) if d.about == "embedder"]
    assert diagnosis.state == "fails" and "it raised" in diagnosis.words


@pytest.mark.parametrize("kind", ["model2vec", "fastembed"])
async def test_nothing_is_downloaded_unless_asked(kind: str, roots: Settings) -> None:
    name = {"model2vec": "minishlab/potion-base-8M", "fastembed": "BAAI/bge-small-en-v1.5"}[kind]

    words = await refuse(choose(roots, f"{kind}:{name}"))

    expected = "the model is not on this machine; run: abilities doctor --download"
    assert words == f"embedder '{kind}:{name}': {expected}"


async def test_an_unknown_model_of_fastembed_is_told_from_the_known_ones(roots: Settings) -> None:
    words = await refuse(choose(roots, "fastembed:none"))

    assert words.startswith("embedder 'fastembed:none': fastembed has no such model; it has: ")
    assert "BAAI/bge-small-en-v1.5" in words


def test_a_download_that_fails_says_so() -> None:
    """The hub is a port of this machine where no program listens."""
    closed = "http://127.0.0.1:9"
    command = [sys.executable, "-m", "abilities", "doctor", "--download"]
    done = subprocess.run(
        command,
        env={
            **os.environ,
            "HF_ENDPOINT": closed,
            "ABILITIES_EMBEDDER": "model2vec:minishlab/potion-base-8M",
        },
        capture_output=True,
        text=True,
    )

    assert done.returncode == 1
    assert "the model cannot be downloaded: " in done.stderr
