"""What a change must do to a namespace, and what it must answer."""

from itertools import islice
from typing import NamedTuple

from abilities.declarations.values import JsonObject
from tests.support.law_checks import same
from tests.support.law_model import Moment, NamespaceModel, Predicted, Refusal
from tests.support.law_payloads import expect_written
from tests.support.law_places import Call, check_refusal, make_ids


class Remembered(NamedTuple):
    """A namespace as a call leaves it, its records, and the last key that it has changed."""

    model: NamespaceModel
    records: list[JsonObject]
    key: str | None = None


class Expected(NamedTuple):
    """A call, the namespace as it leaves it, and what it must answer.

    Without a prediction it must be refused: for the reason, if there is one. A call of `remember`
    has records in its place.
    """

    call: Call
    model: NamespaceModel
    predicted: Predicted | None
    reason: str | None = None
    remembered: Remembered | None = None

    @property
    def key(self) -> str | None:
        if self.remembered is not None:
            return self.remembered.key
        if self.predicted is not None and self.predicted.memory is not None:
            return self.predicted.memory.key
        return None


def predict(before: NamespaceModel, call: Call) -> Expected:
    """Return what a change of a namespace does and answers; the model given stays as it is."""
    if call.name == "remember":
        remembered = predict_remembered(before, call.arguments, call.moment)
        return Expected(call, remembered.model, None, remembered=remembered)
    after = before.copy()
    try:
        return Expected(call, after, _change(after, call))
    except Refusal as refusal:
        return Expected(call, before, None, str(refusal))


def _change(model: NamespaceModel, call: Call) -> Predicted:
    if call.name == "store_memory":
        return model.store(call.arguments, call.moment)
    if call.name == "update_memory":
        return model.update(call.arguments, call.moment)
    if call.arguments["permanent"]:
        return model.delete(call.arguments["id"])
    return model.archive(call.arguments["id"], call.moment)


def check_answer(payload: JsonObject, expected: Expected, room: int) -> None:
    """Compare an answer of so many bytes at most with what it must be.

    Of a content that was cut off the beginning is compared.
    """
    if expected.remembered is not None:
        same(payload.get("results"), expected.remembered.records)
        return

    predicted = expected.predicted
    if predicted is None:
        reason = check_refusal(payload)
        assert expected.reason in (None, reason), payload
        return

    assert "error" not in payload, payload
    if "memory" not in payload:
        assert payload["success"] is True
        return

    assert predicted.memory is not None
    answered = payload["memory"]
    shown = len(answered.get("links", ()))
    wanted = expect_written(expected.model, predicted.memory, shown)
    if "truncation" in payload:
        assert wanted["content"].startswith(answered["content"])
        wanted["content"] = answered["content"]
    same(answered, wanted)

    # Only a small room may leave no room for twenty.
    if room > 100_000:
        assert shown == min(20, wanted.get("links_total", 0))

    if "created" in payload:
        assert payload["created"] == predicted.created
        assert payload.get("replaced", 0) == predicted.replaced
    if "updated_fields" in payload:
        assert sorted(payload["updated_fields"]) == sorted(predicted.updated)


def predict_remembered(before: NamespaceModel, arguments: JsonObject, moment: Moment) -> Remembered:
    """Return what a call of `remember` does and answers; the model given stays as it is."""
    operations = arguments["operations"]
    model = before.copy()
    records: list[JsonObject] = []
    key: str | None = None

    ids = islice(make_ids(moment), len(operations))
    for number, (operation, new_id) in enumerate(zip(operations, ids, strict=True)):
        after = model.copy()
        try:
            predicted = _make(after, operation, moment._replace(new_id=new_id))
        except Refusal as refusal:
            record: JsonObject = {"input": number, "reason": str(refusal), **refusal.details}
            records.append(record)
            continue

        named = predicted.memory or model.memories[operation["key"]]
        version = after.version if predicted.memory is None else named.version
        record = {"input": number, "id": named.id, "key": named.key, "version": version}
        if predicted.memory is None:
            record["deleted"] = True
        elif named.archived:
            record["archived"] = True
        if predicted.created:
            record["created"] = True
        if predicted.replaced:
            record["replaced"] = predicted.replaced
        records.append(record)
        key = named.key
        model = after

    failed = [record for record in records if "reason" in record]
    if arguments["atomic"] and failed:
        undone = [{"input": number, "reason": "rolled_back"} for number in range(len(records))]
        undone[failed[0]["input"]] = failed[0]
        return Remembered(before, undone)

    return Remembered(model, records, key)


def _make(model: NamespaceModel, operation: JsonObject, moment: Moment) -> Predicted:
    """Make an operation in a model. Raises Refusal."""
    op, key = operation["op"], operation["key"]
    named = model.memories.get(key)
    values = {name: operation[name] for name in operation if name not in ("op", "key", "to")}
    if named is None and op != "store":
        raise Refusal("not_found")

    version = model.find_version(key)
    if operation.get("if_version") not in (None, version):
        raise Refusal("version_conflict", version=version)
    if named is None or op == "store":
        return model.store({**values, "key": key}, moment)
    if op == "supersede":
        return model.supersede(key, values, moment)
    if op == "delete":
        return model.delete(named.id)
    if op == "archive":
        return model.archive(named.id, moment)
    if op == "append":
        values["content"] = named.content + operation["content"]
    if op == "rename":
        values["key"] = operation["to"]
    return model.update({**values, "id": named.id}, moment)
