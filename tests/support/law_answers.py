"""What a change must do to a namespace, and what it must answer."""

from typing import NamedTuple

from abilities.declarations.values import JsonObject
from tests.support.law_checks import same
from tests.support.law_model import NamespaceModel, Predicted, Refusal
from tests.support.law_payloads import expect_written
from tests.support.law_places import Call
from tests.support.law_reading import check_refusal
from tests.support.law_remember import Remembered, predict_remembered


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
